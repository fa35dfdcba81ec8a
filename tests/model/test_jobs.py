"""Whether a process belongs to a job of GitHub Actions: one answer for every verb and the leg."""

from __future__ import annotations

import pytest

from ciguard.model.jobs import is_github_actions
from ciguard.sources.subject_run import open_subject_run

RUN = {"GITHUB_REPOSITORY": "octo-org/shop", "GITHUB_RUN_ID": "7", "GITHUB_SHA": "a" * 40}


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False), ("", False)])
def test_a_variable_that_says_no_is_no(text: str, expected: bool) -> None:
    assert is_github_actions({"GITHUB_ACTIONS": text}) is expected


def test_a_run_is_asked_about_in_actions_only() -> None:
    with open_subject_run({**RUN, "GITHUB_ACTIONS": "false"}) as run:
        assert run is None
    with open_subject_run({**RUN, "GITHUB_ACTIONS": "true"}) as run:
        assert run is not None
