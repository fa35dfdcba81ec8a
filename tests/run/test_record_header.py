"""A leg's identity from what GitHub Actions says, and from the commit that is checked out."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from history.git_servers import git
from hypothesis import given
from hypothesis import strategies as st

from ciguard.model import Runner, ShardLine
from ciguard.run.leg import (
    conditions_of,
    head_sha_of,
    parse_commit,
    read_event,
    with_run,
    workflow_file,
)

GITHUB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "octo-org/shop",
    "GITHUB_WORKFLOW": "Tests",
    "GITHUB_WORKFLOW_REF": "octo-org/shop/.github/workflows/tests.yml@refs/pull/7/merge",
    "GITHUB_RUN_ID": "101",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_JOB": "legs",
    "CIGUARD_JOB": "tests (03)",
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_HEAD_REF": "topic",
    "GITHUB_REF_NAME": "7/merge",
    "GITHUB_SHA": "f" * 40,
}


def line(environ: dict[str, str]) -> ShardLine:
    found = with_run(ShardLine("9f2c", "03", runner=Runner()), environ)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found.started_at or "")
    return replace(found, started_at=None)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    return tmp_path


def test_too_deeply_nested_event_is_ignored(nowhere: Path) -> None:
    (nowhere / "event.json").write_text("[" * 200_000)
    found = line({**GITHUB, "GITHUB_EVENT_PATH": str(nowhere / "event.json")})
    assert found.event == "pull_request"
    assert found.run_id == 101


def test_header_of_a_pull_request_has_head_and_tested_sha(nowhere: Path) -> None:
    event = {"pull_request": {"head": {"sha": "a" * 40}}}
    (nowhere / "event.json").write_text(json.dumps(event))
    found = line({**GITHUB, "GITHUB_EVENT_PATH": str(nowhere / "event.json")})
    assert found == ShardLine(
        plan_id="9f2c",
        shard="03",
        repository="octo-org/shop",
        workflow="tests.yml",
        run_id=101,
        run_attempt=2,
        job="tests (03)",
        event="pull_request",
        branch="topic",
        head_sha="a" * 40,
        tested_sha="f" * 40,
    )


def test_header_of_a_push_has_its_commit(nowhere: Path) -> None:
    pushed = {**GITHUB, "GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": "main"}
    del pushed["GITHUB_HEAD_REF"], pushed["CIGUARD_JOB"]
    found = line(pushed)
    assert (found.branch, found.head_sha, found.job) == ("main", "f" * 40, "legs")


def test_tag_is_not_recorded_as_a_branch(nowhere: Path) -> None:
    pushed = {**GITHUB, "GITHUB_EVENT_NAME": "push", "GITHUB_REF_NAME": "main"}
    del pushed["GITHUB_HEAD_REF"]
    assert line({**pushed, "GITHUB_REF_TYPE": "branch"}).branch == "main"
    assert line({**pushed, "GITHUB_REF_TYPE": "tag"}).branch == "refs/tags/main"


def test_header_outside_actions_has_only_the_plan(nowhere: Path) -> None:
    found = line({key: value for key, value in GITHUB.items() if key != "GITHUB_ACTIONS"})
    assert found == ShardLine("9f2c", "03")


def test_merge_parents_are_read_in_a_shallow_clone(nowhere: Path) -> None:
    full, shallow = nowhere / "full", nowhere / "shallow"
    full.mkdir()
    git(full, "init", "-q", "-b", "main")
    git(full, "commit", "-q", "--allow-empty", "-m", "first")
    git(full, "checkout", "-q", "-b", "topic")
    git(full, "commit", "-q", "--allow-empty", "-m", "second\n\nparent 0000 is no parent")
    git(full, "checkout", "-q", "main")
    git(full, "commit", "-q", "--allow-empty", "-m", "third")
    parents = (git(full, "rev-parse", "main"), git(full, "rev-parse", "topic"))
    git(full, "merge", "-q", "--no-ff", "-m", "merge", "topic")
    git(nowhere, "clone", "-q", "--depth", "1", full.as_uri(), "shallow")
    program = (
        "from ciguard.run.leg import checked_out;import json; print(json.dumps(checked_out()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=shallow, check=True, capture_output=True
    )
    sha, found = json.loads(done.stdout)
    assert sha == git(full, "rev-parse", "main")
    assert tuple(found) == parents
    assert git(shallow, "rev-parse", "HEAD^@") == "", "git's own words do not know them"


def test_unreadable_event_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "bad").write_text("{")
    (tmp_path / "list").write_text("[1]")
    for path in (None, "", str(tmp_path / "gone"), str(tmp_path / "bad"), str(tmp_path / "list")):
        assert read_event(path) == {}


@pytest.mark.parametrize("event", [{}, {"pull_request": None}, {"pull_request": {"head": [1]}}])
def test_an_event_without_a_pull_request_has_no_head(event: dict[str, object]) -> None:
    assert head_sha_of(event) is None


@given(st.binary())
def test_any_git_output_is_parsed_without_error(answer: bytes) -> None:
    parse_commit(answer)


def test_workflow_name_is_its_file_name() -> None:
    assert workflow_file("o/r/.github/workflows/tests.yml@refs/heads/a/b") == "tests.yml"
    assert workflow_file("") is None


def test_conditions_are_the_named_variables_that_are_set() -> None:
    environ = {"XLA_COMMIT": "a1b2", "EMPTY": "", "LONG": "x" * 5000, "OTHER": "no"}
    found = conditions_of(("XLA_COMMIT", "EMPTY", "LONG", "ABSENT"), environ)
    assert found == {"XLA_COMMIT": "a1b2", "EMPTY": "", "LONG": "x" * 1000}
