"""What is only proposed never enters a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ciguard.errors import InputError
from ciguard.history.ingest import history_of
from ciguard.history.run_metadata import RunMetadata
from ciguard.history.write_guard import check_event_may_write, check_no_unmerged_runs
from ciguard.model import Record, Result

if TYPE_CHECKING:
    from ciguard.history.file import History


def of_event(event: str | None) -> History:
    record = Record("r", None, results=(Result("t", "passed"),))
    return history_of([record], RunMetadata(run_id=7, event=event))


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch", "workflow_run", None])
def test_what_is_in_a_branch_enters(event: str | None) -> None:
    check_no_unmerged_runs(of_event(event), "r")
    check_event_may_write(event, "here")


@pytest.mark.parametrize(
    ("event", "whose"),
    [
        ("pull_request", "a pull request"),
        ("pull_request_target", "a pull request"),
        ("merge_group", "a merge group"),
    ],
)
def test_what_is_proposed_does_not(event: str, whose: str) -> None:
    with pytest.raises(InputError, match=f"run 7 is of {whose}") as caught:
        check_no_unmerged_runs(of_event(event), "r")
    assert "base branch" in caught.value.fix
    with pytest.raises(InputError, match=f"a run of {event} writes no history") as caught:
        check_event_may_write(event, "here")
    assert (caught.value.where, "base branch" in caught.value.fix) == ("here", True)
