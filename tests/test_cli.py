"""The command line of an environment that holds ciguard alone, as uvx makes one."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ciguard import cli

SCRIPT = "import sys; from ciguard.cli import _path_of_tests; print(_path_of_tests(sys.argv[1]))"


@pytest.mark.parametrize(
    ("there", "first"),
    [({".venv"}, ".venv/bin:"), ({".venv", "pytest"}, "own/bin:"), (set(), ""), ({"git"}, "")],
)
def test_tests_run_with_the_python_of_the_project(
    tmp_path: Path, there: set[str], first: str
) -> None:
    own, project, site = tmp_path / "own/bin", tmp_path / ".venv/bin", tmp_path / "site"
    venv.create(own.parent, symlinks=True)
    site.mkdir()
    for module in (cli, sys.modules["click"]):
        folder = Path(str(module.__file__)).parent
        site.joinpath(folder.name).symlink_to(folder)
    if "pytest" in there:
        site.joinpath("pytest.py").touch()
    project.mkdir(parents=True)
    if ".venv" in there:
        project.joinpath("python").symlink_to(sys.executable)
    others = str(Path(sys.executable).parent)
    command, environ = [f"{own}/python", "-c", SCRIPT, f"{own}:{others}"], {"PYTHONPATH": str(site)}
    answer = subprocess.check_output(command, cwd=tmp_path, env=environ, text=True)
    assert answer.strip() == (f"{tmp_path}/" if first else "") + first + others


def test_audit_starts_no_program_of_the_checkout(tmp_path: Path) -> None:
    own, project = tmp_path / "own/bin", tmp_path / ".venv/bin"
    venv.create(own.parent, symlinks=True, system_site_packages=True)
    project.mkdir(parents=True)
    project.joinpath("git").write_text("#!/bin/sh\ntouch called\n")
    project.joinpath("git").chmod(0o755)
    project.joinpath("python").symlink_to(sys.executable)
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": f"{own}:{os.environ['PATH']}"}
    # As in the environment of uvx: without pytest.
    hide = (
        "import importlib.util as u, sys; u.find_spec = lambda name: None; sys.argv[0] = 'ciguard'"
    )
    command = [f"{own}/python", "-c", f"{hide}; from ciguard.cli import main; main()", "audit"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert b"ciguard" in done.stdout + done.stderr
    assert not (tmp_path / "called").exists()
