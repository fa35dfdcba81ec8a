from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ciguard.errors import InputError
from ciguard.github.events import ActionsRun, current_run

HEAD = "a" * 40
TESTED = "b" * 40

PUSH = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "octo-org/shop",
    "GITHUB_API_URL": "https://ghe.example/api/v3/",
    "GITHUB_SERVER_URL": "https://ghe.example",
    "GITHUB_WORKFLOW": "All tests",
    "GITHUB_WORKFLOW_REF": "octo-org/shop/.github/workflows/tests.yml@refs/heads/main",
    "GITHUB_RUN_ID": "101",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_EVENT_NAME": "push",
    "GITHUB_SHA": TESTED,
    "GITHUB_REF_NAME": "main",
    "GITHUB_REF_TYPE": "branch",
}
PUSHED = {"repository": {"full_name": "octo-org/shop", "default_branch": "main"}, "ref": "x"}

PULL = {**PUSH, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF_NAME": "7/merge"}
PULL["GITHUB_HEAD_REF"] = "faster"


def proposed(head_repository: dict[str, Any] | None) -> dict[str, Any]:
    head = {"sha": HEAD, "ref": "faster", "repo": head_repository}
    base = {"sha": "c" * 40, "ref": "release/2", "repo": {"full_name": "octo-org/shop"}}
    return {**PUSHED, "pull_request": {"number": 7, "head": head, "base": base}}


def read(environ: dict[str, str], event: dict[str, Any]) -> ActionsRun:
    run = ActionsRun.from_environ(environ, event)
    assert run is not None
    return run


def test_a_push_to_the_default_branch() -> None:
    assert ActionsRun.from_environ(PUSH, PUSHED) == ActionsRun(
        repository="octo-org/shop",
        api_url="https://ghe.example/api/v3",
        server_url="https://ghe.example",
        workflow="tests.yml",
        run_id=101,
        run_attempt=2,
        event="push",
        head_sha=TESTED,
        tested_sha=TESTED,
        branch="main",
        base_branch="main",
        pull_request=None,
        is_fork=False,
    )
    assert read(PUSH, PUSHED).is_base_branch


def test_pull_request_has_head_and_tested_merge_sha() -> None:
    run = read(PULL, proposed({"full_name": "Octo-Org/shop", "fork": True}))
    assert (run.head_sha, run.tested_sha) == (HEAD, TESTED)
    assert (run.branch, run.base_branch) == ("faster", "release/2")
    assert run.pull_request == 7
    assert not run.is_fork
    assert not run.is_base_branch


@pytest.mark.parametrize("home", [None, {"full_name": "stranger/shop"}], ids=["deleted", "other"])
def test_a_head_in_another_repository_is_a_fork(home: dict[str, Any] | None) -> None:
    assert read(PULL, proposed(home)).is_fork


def test_a_payload_without_the_head_s_repository_is_no_fork() -> None:
    event = proposed(None)
    del event["pull_request"]["head"]["repo"]
    assert not read(PULL, event).is_fork


def test_a_merge_queue_s_base_is_a_full_ref() -> None:
    queue = {**PUSH, "GITHUB_EVENT_NAME": "merge_group"}
    queue["GITHUB_REF_NAME"] = "gh-readonly-queue/release/2/pr-7-abc"
    run = read(queue, {**PUSHED, "merge_group": {"base_ref": "refs/heads/release/2"}})
    assert run.base_branch == "release/2"
    assert not run.is_base_branch
    assert run.is_unmerged
    assert run.base_sha is None
    group = {"base_ref": "refs/heads/release/2", "base_sha": "b" * 40}
    assert read(queue, {**PUSHED, "merge_group": group}).base_sha == "b" * 40


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"GITHUB_EVENT_NAME": "schedule"}, True),
        ({"GITHUB_EVENT_NAME": "workflow_dispatch"}, True),
        ({"GITHUB_EVENT_NAME": "workflow_dispatch", "GITHUB_REF_NAME": "trial"}, False),
        ({"GITHUB_EVENT_NAME": "workflow_run"}, False),
        ({"GITHUB_EVENT_NAME": "pull_request_target"}, False),
        ({"GITHUB_REF_NAME": "trial"}, False),
        ({"GITHUB_REF_TYPE": "tag"}, False),
        ({"GITHUB_REF_NAME": ""}, False),
    ],
)
def test_only_commits_of_the_default_branch_are_the_base_branch(
    changed: dict[str, str], expected: bool
) -> None:
    assert read({**PUSH, **changed}, PUSHED).is_base_branch is expected


def test_no_base_branch_if_the_default_branch_is_unknown() -> None:
    run = read({**PUSH, "GITHUB_REF_NAME": ""}, {})
    assert run.base_branch is None
    assert not run.is_base_branch


def test_workflow_without_a_file_uses_its_name() -> None:
    environ = {name: text for name, text in PUSH.items() if name != "GITHUB_WORKFLOW_REF"}
    assert read(environ, {}).workflow == "All tests"


@pytest.mark.parametrize("flag", ["", "false"])
def test_no_run_outside_actions(flag: str) -> None:
    assert ActionsRun.from_environ({"GITHUB_ACTIONS": flag, "HOME": "/"}, {}) is None


def test_repository_variable_is_sufficient() -> None:
    run = read({"GITHUB_REPOSITORY": "octo-org/shop"}, {})
    assert (run.api_url, run.server_url) == ("https://api.github.com", "https://github.com")
    assert (run.run_id, run.run_attempt, run.head_sha, run.branch) == (None, None, None, None)
    assert run.workflow == ""


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("GITHUB_REPOSITORY", "shop", 'GITHUB_REPOSITORY: expected owner/name, found "shop"'),
        ("GITHUB_REPOSITORY", "o/r/../../x", "GITHUB_REPOSITORY: expected owner/name"),
        ("GITHUB_REPOSITORY", "o/..", "GITHUB_REPOSITORY: expected owner/name"),
        ("GITHUB_REPOSITORY", "", "GITHUB_REPOSITORY: expected owner/name, not set"),
        ("GITHUB_RUN_ID", "many", 'GITHUB_RUN_ID: expected an integer >= 1, found "many"'),
        ("GITHUB_RUN_ATTEMPT", "0", "GITHUB_RUN_ATTEMPT: expected an integer >= 1"),
        ("GITHUB_RUN_ATTEMPT", "²", "GITHUB_RUN_ATTEMPT: expected an integer >= 1"),
        ("GITHUB_SHA", "main", "GITHUB_SHA: expected a full commit SHA"),
        ("GITHUB_API_URL", "file:///etc", "GITHUB_API_URL: expected an http(s) address"),
        ("GITHUB_SERVER_URL", "https://", "GITHUB_SERVER_URL: expected an http(s) address"),
        ("GITHUB_SERVER_URL", "https://[::1", "GITHUB_SERVER_URL: expected an http(s) address"),
    ],
)
def test_invalid_variable_is_named_in_the_error(name: str, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        ActionsRun.from_environ({**PUSH, name: text}, PUSHED)
    assert str(caught.value).startswith(words)


def test_all_mistakes_are_reported_together() -> None:
    environ = {**PUSH, "GITHUB_RUN_ID": "x", "GITHUB_SHA": "y"}
    with pytest.raises(InputError, match="3 problems") as caught:
        ActionsRun.from_environ(environ, {"pull_request": {"number": "seven"}})
    text = str(caught.value)
    assert "GITHUB_EVENT_PATH: pull_request.number" in text
    assert text.index("GITHUB_SHA") < text.index("GITHUB_RUN_ID")


def test_events_module_does_not_import_httpx() -> None:
    program = "import sys, ciguard.github.events; print('httpx' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout.strip() == b"False"


@pytest.mark.parametrize("content", ["[" * 200_000, "{", "[]"])
def test_invalid_event_payload_is_an_input_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "event.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        current_run({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(path)})
    assert caught.value.where == f"GITHUB_EVENT_PATH: {path}"
