"""The actions in a mirror on a GitHub Enterprise Server: version 3 of the artifact actions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from init.test_action_files import NAMES, ROOT, steps


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mirror")
    for name in (".github/install", "actions"):
        shutil.copytree(ROOT / name, folder / name)
    command = [sys.executable, str(folder / ".github/install/enterprise_server.py")]
    subprocess.run(command, check=True)
    before = texts(folder)
    subprocess.run(command, check=True)
    assert texts(folder) == before, "the second call changes nothing"
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {name: (folder / f"actions/{name}/action.yml").read_text("utf-8") for name in NAMES}


def artifact_steps(listed: list[dict[str, Any]]) -> list[tuple[str, str, object]]:
    """The steps with an artifact action, without what differs: its name, condition and artifact."""
    found = []
    for step in listed:
        action, _, version = step.get("uses", "").partition("@")
        if action.endswith("-artifact"):
            assert version == "v3"
            found.append((action, step.get("if", ""), step["with"].get("name", "")))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_step_keeps_its_condition_and_artifact(mirror: Path, name: str) -> None:
    content = yaml.safe_load(texts(mirror)[name])
    before = steps(name)
    expected = [
        (step["uses"].partition("@")[0], step.get("if", ""), step["with"].get("name", ""))
        for step in before
        if "-artifact@" in step.get("uses", "")
    ]
    assert artifact_steps(content["runs"]["steps"]) == expected
    by_pattern = [step["with"] for step in before if "pattern" in step.get("with", {})]
    moved = [step for step in content["runs"]["steps"] if "-all" in step.get("run", "")]
    assert [one["env"]["_CIGUARD_PATTERN"] for one in moved] == [
        inputs["pattern"] for inputs in by_pattern
    ]
    assert not any("run-id" in one or "overwrite" in one for one in map(str, moved))


def test_rewritten_actions_pass_zizmor(mirror: Path) -> None:
    program = str(Path(sys.executable).parent / "zizmor")
    command = [program, "--offline", "--no-progress", str(mirror / "actions")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
