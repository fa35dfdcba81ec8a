"""The generated steps in a checkout that shadows modules: nothing of the checkout is imported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from init.test_workflow_files import jobs, workflow
from init.wheels import write_wheel
from init.workflow_steps import BASH
from run.leg_runner import clean_environ

from ciguard.init.workflow_files import render_workflow

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("ciguard/__init__", "ciguard/__main__", "pip/__init__", "pip/__main__")
SHADOWS = (*PACKAGES, "venv", "logging", "ensurepip", "click", "sitecustomize")
# Importing a shadow leaves a mark, whatever becomes of the step.
SHADOW = "import os\nopen(os.environ['MARK'], 'a').write(__name__ + '\\n')\nraise SystemExit(1)\n"
PROGRAM = """
import logging, os, sys
def main():
    with open(os.environ["CALLS"], "a") as calls:
        print(sys.argv[1], file=calls)
if __name__ == "__main__":
    main()
"""


def shadowed_checkout(folder: Path) -> Path:
    for name in SHADOWS:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHADOW)
    return folder


def scripts(install: str) -> tuple[set[tuple[str, ...]], set[tuple[str, ...]]]:
    """The different steps of all generated workflows outside of their legs: installing, the rest.

    A step is its script and its environment, as NAME=VALUE.
    """
    texts = [
        render_workflow(workflow(install=install, confirm_suspects=True), **kind)
        for kind in ({}, {"static": True}, {"forks": True}, {"forks": True, "static": True})
    ]
    steps: list[dict[str, Any]] = [
        step
        for text in texts
        for name, job in jobs(text).items()
        for step in job["steps"]
        if name != "legs" and "run" in step
    ]
    found: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for step in steps:
        environ = {key: value for key, value in step.get("env", {}).items() if key != "PYTHON"}
        words = sorted(f"{key}={value}" for key, value in environ.items())
        found[step["name"] == "Install ciguard"].add((step["run"], *words))
    return found[True], found[False]


@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps' shell is bash")
def test_no_module_of_the_checkout_is_imported(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    ours = {"ciguard/__init__.py": "", "ciguard/__main__.py": PROGRAM}
    wheel = write_wheel(wheels, "ciguard-shards", ours)
    checkout = shadowed_checkout(tmp_path / "checkout")
    mark, calls, temp = tmp_path / "mark", tmp_path / "calls", tmp_path / "temp"

    def run_step(script: str, *words: str) -> None:
        outside = {
            "CALLS": str(calls),
            "HOME": str(tmp_path),
            "MARK": str(mark),
            "PIP_FIND_LINKS": str(wheels),
            "PIP_NO_INDEX": "1",
            "PYTHON": sys.executable,
            "PYTHONPATH": str(checkout),
            "RUNNER_TEMP": str(temp),
        }
        given = [re.sub(r"\$\{\{.*?\}\}", "x", word).partition("=") for word in words]
        environ = {**outside, **{name: value for name, _, value in given}}
        environ.update({name: str(temp) for name in environ if name.endswith("_DIR")})
        done = subprocess.run(
            [*BASH, "-c", script],
            cwd=checkout,
            env=clean_environ(**environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert not mark.exists(), f"imported {mark.read_text()}in {script}"
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"

    installing, calling = scripts(f"ciguard-shards @ {wheel.as_uri()}")
    assert len(installing) == 1
    for script in sorted(installing):
        shutil.rmtree(temp, ignore_errors=True)
        temp.mkdir()
        run_step(*script)
    for script in sorted(calling):
        run_step(*script)
    verbs = calls.read_text().split()
    assert set(verbs) == {"plan", "report", "experiment", "history"}
    assert len(verbs) == len(calling)
