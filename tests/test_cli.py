"""The command line of an environment that holds ciguard alone, as uvx makes one."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ciguard import cli

SCRIPT = "import sys; from ciguard.cli import _path_of_tests; print(_path_of_tests(sys.argv[1]))"


@pytest.mark.parametrize(
    ("there", "first"), [({".venv"}, ".venv"), ({".venv", "pytest"}, "own"), (set(), "own")]
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
    if ".venv" in there:
        project.mkdir(parents=True)
        project.joinpath("python").symlink_to(sys.executable)
    command, environ = [f"{own}/python", "-c", SCRIPT, f"{own}:/x"], {"PYTHONPATH": str(site)}
    answer = subprocess.check_output(command, cwd=tmp_path, env=environ, text=True)
    assert answer.strip() == f"{tmp_path / first / 'bin'}:/x"
