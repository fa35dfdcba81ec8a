"""Whether a process belongs to a job of GitHub Actions: one answer for every verb and the leg."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ciguard.model.jobs import Job, attempt_at, is_github_actions, oldest_counting_attempt
from ciguard.sources.inputs import open_subject_run

RUN = {"GITHUB_REPOSITORY": "octo-org/shop", "GITHUB_RUN_ID": "7", "GITHUB_SHA": "a" * 40}


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False), ("", False)])
def test_github_actions_variable_is_parsed(text: str, expected: bool) -> None:
    assert is_github_actions({"GITHUB_ACTIONS": text}) is expected


def test_subject_run_exists_in_actions_only() -> None:
    with open_subject_run({**RUN, "GITHUB_ACTIONS": "false"}) as run:
        assert run is None
    with open_subject_run({**RUN, "GITHUB_ACTIONS": "true"}) as run:
        assert run is not None


def test_attempt_is_known_by_the_time() -> None:
    """Job b was not run again, and attempt 2 lists it with the times that it had."""

    def at(minute: int) -> datetime:
        return datetime(2026, 11, 21, 10, minute, tzinfo=UTC)

    jobs = [
        Job(1, "a", 1, started_at=at(0), completed_at=at(10)),
        Job(2, "b", 1, started_at=at(0), completed_at=at(20)),
        Job(3, "b", 2, started_at=at(0), completed_at=at(20)),
        Job(4, "a", 2, started_at=at(30), completed_at=at(35)),
        Job(5, "a", 3, "in_progress", started_at=at(40)),
    ]
    assert [attempt_at(jobs, at(minute)) for minute in (5, 20, 31, 35, 41)] == [1, 1, 2, 2, 3]
    assert oldest_counting_attempt(jobs) == 1  # b ran in no later one
    assert oldest_counting_attempt(jobs[:1] + jobs[3:]) == 3
    assert oldest_counting_attempt([]) == 1
    assert attempt_at(jobs[:2], at(59)) == 1
    assert attempt_at([], at(5)) is None
