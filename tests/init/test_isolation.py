"""The actions in a checkout that shadows modules: nothing of the checkout is imported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from init.workflow_steps import ACTIONS, BASH, read_action
from run.leg_runner import clean_environ

PACKAGES = ("ciguard/__init__", "ciguard/__main__", "pip/__init__", "pip/__main__")
SHADOWS = (*PACKAGES, "venv", "logging", "ensurepip", "click", "sitecustomize")
# Importing a shadow leaves a mark, whatever becomes of the step.
SHADOW = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + '\\n')\nraise SystemExit(1)\n"
PROGRAM = """
import logging, os, sys
with open(os.environ["CALLS"], "a") as calls:
    print(sys.argv[1], file=calls)
"""
CALLS = {
    "plan": ["history", "plan", "plan"],
    "report": ["report", "export"],
    "history": ["history", "history"],
    "confirm": ["experiment"],
    "coverage": ["coverage"],
    "culprit": ["culprit", "culprit"],
    "..": ["report", "history"],  # the root action
}


def shadowed_checkout(folder: Path) -> Path:
    for name in SHADOWS:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHADOW)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with a ciguard that writes down which verb was called."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "ciguard").mkdir()
    (site / "ciguard/__init__.py").touch()
    (site / "ciguard/__main__.py").write_text(PROGRAM)
    return str(folder / "bin/python")


@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps' shell is bash")
@pytest.mark.parametrize("action", CALLS)
def test_no_module_of_the_checkout_is_imported(tmp_path: Path, action: str, python: str) -> None:
    checkout, calls = shadowed_checkout(tmp_path / "checkout"), tmp_path / "calls"
    environ = {
        "CALLS": str(calls),
        "CIGUARD_PYTHON": python,
        "GITHUB_ACTION": "one",
        "GITHUB_ACTION_PATH": str(ACTIONS / action),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_WORKSPACE": str(checkout),
        "HOME": str(tmp_path),
        "MARK": str(tmp_path / "mark"),
        "PYTHONPATH": str(checkout),
        "RUNNER_TEMP": str(tmp_path),
    }
    for step in (step for step in read_action(action)["runs"]["steps"] if "run" in step):
        inputs = {**dict.fromkeys(step.get("env", ()), ""), "_CIGUARD_PYTHON": python}
        done = subprocess.run(
            [*BASH, "-c", step["run"]],
            cwd=checkout,
            env=clean_environ(**environ, **inputs),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not (tmp_path / "mark").exists(), f"imported {(tmp_path / 'mark').read_text()}"
        assert done.returncode == 0, f"{step['run']}\n{done.stdout}{done.stderr}"
    assert calls.read_text().split() == CALLS[action]
