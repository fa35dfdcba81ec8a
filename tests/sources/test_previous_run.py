"""What the run before left: found by GitHub's word in one call, downloaded in one more."""

from __future__ import annotations

from typing import Any

import pytest
from codec.hostile_zips import HOSTILE
from compare.compare_factories import case, leg_lines
from fakegithub.actions import REPOSITORY, add_artifact
from fakegithub.state import FakeGitHub, Fault

from ciguard.codec.record.lines import encode
from ciguard.errors import InputError
from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.events import ActionsRun
from ciguard.github.models import FinishedRun, Repository
from ciguard.sources.previous_run import artifact_name, load_previous_run

OURS, THEIRS = 11, 22  # GitHub's numbers of both repositories


def actions_run(**facts: Any) -> ActionsRun:
    values: dict[str, Any] = {
        "repository": REPOSITORY,
        "api_url": "x",
        "server_url": "x",
        "workflow": "tests.yml",
        "run_id": 7,
        "run_attempt": 1,
        "event": "pull_request",
        "head_sha": None,
        "tested_sha": None,
        "branch": "topic",
        "base_branch": "main",
        "pull_request": 3,
        "is_fork": False,
    }
    return ActionsRun(**{**values, **facts})


FORK = actions_run(is_fork=True, head_repository="Someone/shop", head_repository_id=THEIRS)
TRIGGERED_RUN = actions_run(
    workflow="forks.yml",
    event="workflow_run",
    branch="main",
    pull_request=None,
    run_id=9,
    triggering=FinishedRun(
        id=7,
        event="pull_request",
        path=".github/workflows/tests.yml",
        head_branch="topic",
        head_repository=Repository(id=THEIRS, full_name="someone/Shop"),
    ),
)


def leave(server: FakeGitHub, run_id: int, run: ActionsRun, head: int = OURS, **facts: Any) -> None:
    """Values of a run, as its report uploads them."""
    lines = leg_lines("01", [case("a")], run_id=run_id)
    of_run = {"id": run_id, "repository_id": OURS, "head_repository_id": head}
    uploading = {**of_run, "head_branch": "topic", **facts.pop("uploading", {})}
    content = facts.pop("content", {"values.jsonl": b"".join(map(encode, lines))})
    name = facts.pop("name", artifact_name(run))
    add_artifact(server, name, content, run=run_id, workflow_run=uploading, **facts)


def found(github: GitHub, run: ActionsRun, verdict: int = 7) -> int | None:
    values = load_previous_run(github, run, verdict)
    if values is None:
        return None
    (record,) = values.records
    assert record.header is not None
    assert record.header.run_id == values.run_id
    return values.run_id


def test_fork_and_base_workflow_use_the_same_artifact_name() -> None:
    assert artifact_name(FORK) == artifact_name(TRIGGERED_RUN)
    assert artifact_name(actions_run()) == artifact_name(
        actions_run(head_repository=REPOSITORY.upper())
    )
    rest = (actions_run(workflow="b.yml"), actions_run(branch="other"), FORK, actions_run())
    assert len({artifact_name(run) for run in rest}) == len(rest)
    assert set(artifact_name(actions_run(branch="fix/é: <b>"))) <= set(
        "abcdef0123456789ciguard-values"
    )


@pytest.mark.parametrize(
    "run",
    [
        actions_run(pull_request=None, event="push"),
        actions_run(is_fork=True),  # it was deleted
        actions_run(branch=None),
        actions_run(
            pull_request=None, triggering=FinishedRun(id=7, event="push", head_branch="main")
        ),
    ],
)
def test_a_run_of_no_pull_request_has_no_values(
    server: FakeGitHub, github: GitHub, run: ActionsRun
) -> None:
    assert artifact_name(run) == ""
    assert load_previous_run(github, run, 7) is None
    assert server.request_log() == []


def test_newest_earlier_run_is_found_in_two_calls(server: FakeGitHub, github: GitHub) -> None:
    for run_id in (6, 4, 7, 8):
        leave(server, run_id, actions_run())
    assert found(github, actions_run()) == 6
    calls = [one for one in server.request_log() if "/storage/" not in one]
    artifacts = f"GET /repos/{REPOSITORY}/actions/artifacts"
    assert calls == [artifacts, f"{artifacts}/1/zip"]
    assert found(github, actions_run(), verdict=6) == 4
    assert found(github, actions_run(), verdict=4) is None


@pytest.mark.parametrize("run", [FORK, TRIGGERED_RUN])
def test_previous_run_of_a_fork_is_found(
    server: FakeGitHub, github: GitHub, run: ActionsRun
) -> None:
    leave(server, 5, FORK, THEIRS)
    assert found(github, run) == 5


@pytest.mark.parametrize(
    "facts",
    [
        {"head": THEIRS},  # a stranger's branch of the same name, its artifact called as ours
        {"uploading": {"head_branch": "other"}},
        {"uploading": {"head_repository_id": None}},
        {"expired": True},
        {"name": "ciguard-values-of-another"},
    ],
)
def test_unrelated_or_expired_values_are_ignored(
    server: FakeGitHub, github: GitHub, facts: dict[str, Any]
) -> None:
    leave(server, 6, actions_run(), **facts)
    assert found(github, actions_run()) is None


def test_fork_without_pull_request_number_has_no_previous_run(
    server: FakeGitHub, github: GitHub
) -> None:
    run = actions_run(is_fork=True, head_repository="someone/shop")
    leave(server, 6, run, OURS)
    assert found(github, run) is None


@pytest.mark.parametrize("name", ["bomb", "a link"])
def test_a_hostile_archive_is_refused(server: FakeGitHub, github: GitHub, name: str) -> None:
    leave(server, 6, actions_run(), content=HOSTILE[name][0])
    with pytest.raises(InputError):
        load_previous_run(github, actions_run(), 7)


def test_failing_storage_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    leave(server, 6, actions_run())
    server.faults.append(Fault(path="/zip", status=404, message="Not Found", times=9))
    with pytest.raises(GitHubError, match="404"):
        load_previous_run(github, actions_run(), 7)
