"""The action at the root: its pins, and whether it reads artifacts or the workspace."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from ciguard.workflow.job_templates import ACTIONS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "action.yml").read_text("utf-8")
STEPS: list[dict[str, Any]] = yaml.safe_load(TEXT)["runs"]["steps"]


def test_action_is_pinned_and_passes_zizmor() -> None:
    assert set(re.findall(r"uses: (.+)", TEXT)) <= set(ACTIONS.values())
    assert not [step for step in STEPS if "${{" in step.get("run", "")]
    program = str(Path(sys.executable).parent / "zizmor")
    command = [program, "--offline", "--no-progress", str(ROOT / "action.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(yaml.safe_load(TEXT)["description"]) <= 125, "the limit of the Marketplace"


def test_documented_jobs_have_no_finding(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "comment.md").read_text("utf-8")
    upload, job, history, comment = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert len(job.splitlines()) == 8
    begin = "name: tests\non: [push, pull_request]\npermissions: {}\njobs:\n"
    test = "  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: pytest\n"
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    programs = Path(sys.executable).parent
    for name, text in (("tests", f"{begin}{test}{upload}{job}{history}"), ("comment", comment)):
        file = folder / f"{name}.yml"
        file.write_text(text.replace("@COMMIT", f"@{'0123456789' * 4}"), "utf-8")
        done = subprocess.run([programs / "actionlint", file], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()
    options = ("--offline", "--no-progress", "--format", "json")
    command = [str(programs / "zizmor"), *options, str(folder)]
    done = subprocess.run(command, capture_output=True, check=False)
    found = {finding["ident"] for finding in json.loads(done.stdout)}
    # `workflow_run` is the trigger of the second workflow, which runs no code of a fork.
    assert found <= {"dangerous-triggers", "anonymous-definition", "concurrency-limits"}


OWN_JOB = {"_CIGUARD_ARTIFACTS": "true"}


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        (OWN_JOB, {"folder": "WORKSPACE/.ciguard"}),
        ({"file": "x"}, {"folder": "WORKSPACE"}),
        (
            {**OWN_JOB, "_CIGUARD_TESTS": "lists/all tests.txt"},
            {"tests-artifact": "lists", "tests": "TEMP/ciguard-tests/all tests.txt"},
        ),
        ({"file": "x", "_CIGUARD_TESTS": "tests.txt"}, {"tests": "tests.txt"}),
        ({}, "the workspace is empty: set artifacts: true in a separate job"),
        (
            {**OWN_JOB, "GITHUB_EVENT_NAME": "pull_request_target"},
            "refused for pull_request_target",
        ),
    ],
)
def test_input_decides_whether_artifacts_are_read(
    tmp_path: Path, given: dict[str, str], facts: dict[str, str] | str
) -> None:
    (tmp_path / "workspace").mkdir()
    if "file" in given:
        (tmp_path / "workspace" / "file").touch()
    names = {"_CIGUARD_ARTIFACTS": "false", "_CIGUARD_TESTS": ""}
    environ = {
        "PATH": "/usr/bin:/bin",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
        "RUNNER_TEMP": str(tmp_path / "temp"),
    }
    script = STEPS[0]["run"]
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        env={**environ, **names, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    if isinstance(facts, str):
        assert done.returncode == 2
        assert f"::error title=ciguard::{facts}" in done.stdout
        return
    lines = (tmp_path / "output").read_text("utf-8").splitlines()
    outputs = dict(line.split("=", 1) for line in lines)
    for name, text in facts.items():
        path = text.replace("WORKSPACE", environ["GITHUB_WORKSPACE"])
        assert outputs[name] == path.replace("TEMP", environ["RUNNER_TEMP"])


def test_token_reaches_no_job_that_tests_the_project() -> None:
    # By the input: what a test left behind could change the outputs of an earlier step.
    tokens = [step["env"]["GITHUB_TOKEN"] for step in STEPS if "GITHUB_TOKEN" in str(step)]
    assert tokens == ["${{ inputs.artifacts == 'true' && github.token || '' }}"] * 2
