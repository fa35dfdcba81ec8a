"""The generated workflow with the actions of an Enterprise Server's mirror, executed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from act.fake_machine import PUSH, GitHub
from act.test_workflow_run import set_up_repository


@pytest.mark.soak
def test_workflow_passes_with_artifact_actions_v3(github: GitHub) -> None:
    script = github.actions / ".github/install/enterprise_server.py"
    subprocess.run([sys.executable, str(script)], check=True)
    set_up_repository(github)
    run = github.run("push", PUSH, run_id=301)
    assert run.green, run.talk
    assert "PASSED" in run.job("ciguard").printed
    assert run.job("history").result == "success"
    names = sorted(item.name for item in (github.artifacts / "301").iterdir())
    assert [name.split("-")[1] for name in names] == ["plan", "record", "record", "report"]
