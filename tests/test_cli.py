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
    ("has_pytest", "has_project", "expected"),
    [
        (False, True, "{project}:/nothing"),
        (True, True, "{own}:/nothing"),
        (False, False, "{own}:/nothing"),
    ],
)
def test_tests_run_with_the_python_of_the_project(
    tmp_path: Path, *, has_pytest: bool, has_project: bool, expected: str
) -> None:
    own, project, site = tmp_path / "own/bin", tmp_path / ".venv/bin", tmp_path / "site"
    venv.create(own.parent, symlinks=True)
    site.mkdir()
    modules = {"ciguard": cli, "click": sys.modules["click"]}
    for name, module in modules.items():
        site.joinpath(name).symlink_to(Path(str(module.__file__)).parent)
    if has_pytest:
        site.joinpath("pytest.py").touch()
    if has_project:
        project.mkdir(parents=True)
        project.joinpath("python").symlink_to(sys.executable)
    answer = subprocess.run(
        [own / "python", "-c", SCRIPT, f"{own}:/nothing"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == expected.format(own=own, project=project)
