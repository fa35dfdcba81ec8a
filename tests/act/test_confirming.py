"""The generated workflow with `confirm`: a suspect is run again on both commits, and told."""

from __future__ import annotations

import json
import re

import pytest
from act.fake_machine import GitHub
from act.test_workflow_run import REPORT

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
TESTS = """
def test_holds():
    assert bytearray({mb} * 1_000_000)

def test_small():
    assert bytearray(1_000_000)
"""
CONFIGURATION = """
[workflow]
confirm_suspects = true

[experiment]
setup = "true"

[plan]
shards = 1

[policy]
fail_on = ["memory"]
"""
HISTORY = "branch:ciguard-history"


FILES = {"tests/test_stock.py": TESTS.format(mb=1), "ciguard.toml": CONFIGURATION}


def set_up_repository(github: GitHub, files: dict[str, str] = FILES) -> None:
    """A small suite, a workflow for these files, and three past runs."""
    github.commit("a shop", files)
    answer = github.ciguard("init", "--yes")
    assert answer.returncode == 0, answer.stderr
    github.commit("ciguard", {})
    github.git("push", "--quiet", "origin", "main")
    place = github.folder / "past"
    for run in range(11, 14):
        environ = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_REF_NAME": "main",
            "GITHUB_REPOSITORY": "octo-org/shop",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(run),
            "GITHUB_SHA": github.git("rev-parse", "HEAD"),
            "GITHUB_WORKFLOW": "tests",  # act tells its name, not its file
        }
        plan, record = str(place / "plan"), str(place / f"{run}")
        for words in (
            ("plan", "--artifact", plan),
            ("run", "--plan", plan, "--shard", "01", "--record", record),
            ("history", "add", record, "--history", HISTORY),
        ):
            answer = github.ciguard(*words, **environ)
            assert answer.returncode == 0, answer.stdout + answer.stderr


def test_suspect_is_rerun_and_reported_as_confirmed(github: GitHub) -> None:
    set_up_repository(github)
    event = github.propose("more stock", {"tests/test_stock.py": TESTS.format(mb=60)})
    run = github.run("pull_request", event, run_id=201)
    assert run.jobs["ciguard"].result == "success", run.talk
    (output,) = (github.artifacts / "201").glob("ciguard-comparison-201-1/*.json")
    before = json.loads(output.read_text("utf-8"))
    assert [one["tier"] for one in before["memory"]["losses"]] == ["suspect"]
    assert run.jobs["confirm"].result == "success", run.talk
    (output,) = (github.artifacts / "201").glob("ciguard-confirmation-201-1/*.json")
    rows = json.loads(output.read_text("utf-8"))["rows"]
    # Allocating more takes longer too: a loaded machine may confirm that as well.
    (memory,) = [row for row in rows if row["measure"] == "peak_delta_bytes"]
    assert memory["verdict"] == "more memory"
    confirmed = run.jobs["ciguard (confirmed)"]
    assert confirmed.failed_steps == (REPORT,), "the policy fails what is confirmed"
    (comment,) = github.comments()
    assert "Peak memory: 1 confirmed regression" in comment["body"]
    assert re.search(r"on one machine: [12] of [12] suspects? confirmed", comment["body"])
