"""What is only proposed never enters a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ciguard.errors import InputError
from ciguard.history.entering import check_entering
from ciguard.history.facts import Facts
from ciguard.history.intake import history_of
from ciguard.model import Record, Result

if TYPE_CHECKING:
    from ciguard.codec.history import History


def of_event(event: str | None) -> History:
    record = Record("r", None, results=(Result("t", "passed"),))
    return history_of([record], Facts(run_id=7, event=event))


@pytest.mark.parametrize(
    ("of_run", "of_job"),
    [
        ("push", None),
        ("schedule", None),
        ("workflow_dispatch", None),
        (None, None),
        (None, "push"),
        # A fork's pull request is reported by a workflow_run: what counts is whose run it was.
        ("push", "workflow_run"),
        ("push", "pull_request"),
    ],
)
def test_what_is_in_a_branch_enters(of_run: str | None, of_job: str | None) -> None:
    check_entering(of_event(of_run), "r", of_job)


@pytest.mark.parametrize(
    ("of_run", "of_job", "whose"),
    [
        ("pull_request", None, "a pull request"),
        ("pull_request_target", None, "a pull request"),
        ("merge_group", None, "a merge group"),
        ("pull_request", "workflow_run", "a pull request"),
        ("pull_request", "push", "a pull request"),
        (None, "pull_request", "a pull request"),
        (None, "merge_group", "a merge group"),
    ],
)
def test_what_is_proposed_does_not(of_run: str | None, of_job: str | None, whose: str) -> None:
    with pytest.raises(InputError, match=f"run 7 is of {whose}") as caught:
        check_entering(of_event(of_run), "r", of_job)
    assert "base branch" in caught.value.fix
