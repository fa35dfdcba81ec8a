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


@pytest.mark.parametrize("verb", ["audit", "plan"])
@pytest.mark.parametrize("first", ["own/bin", ".venv/bin", "checkout/.venv/bin"])
def test_no_git_of_the_checkout_is_started(tmp_path: Path, verb: str, first: str) -> None:
    """Of an environment of uvx, or of one that is activated; `plan` has that of the project."""
    own, project = tmp_path / "own/bin", tmp_path / "checkout/.venv/bin"
    venv.create(own.parent, symlinks=True, system_site_packages=True)
    project.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", tmp_path / "checkout"], check=True)
    (tmp_path / "checkout/tests").write_text("test_a.py::test_a\n")
    (tmp_path / "checkout/.github/workflows").mkdir(parents=True)
    (tmp_path / "checkout/.github/workflows/ci.yml").write_text("on: push\njobs: {}\n")
    project.joinpath("git").write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    project.joinpath("git").chmod(0o755)
    project.joinpath("python").symlink_to(sys.executable)
    path = first if first.startswith(".") else tmp_path / first
    environ = {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": f"{path}:{os.environ['PATH']}"}
    # As in the environment of uvx: without pytest.
    hide = (
        "import importlib.util as u, sys; u.find_spec = lambda name: None; sys.argv[0] = 'ciguard'"
    )
    command = [f"{own}/python", "-c", f"{hide}; from ciguard.cli import main; main()", verb]
    command += ["--inventory", "tests", "--history", "branch:x"] if verb == "plan" else []
    folder = tmp_path / "checkout"
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, check=False)
    text = (done.stdout + done.stderr).decode()
    assert ("no finding in 1 workflow file" if verb == "audit" else "branch:x") in text
    assert not (tmp_path / "called").exists()
