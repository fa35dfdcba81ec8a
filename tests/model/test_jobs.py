"""Whether a process belongs to a job of GitHub Actions: one answer for every verb and the leg."""

from __future__ import annotations

import pytest

from ciguard.model.jobs import is_github_actions
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
