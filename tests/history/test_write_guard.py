"""What is only proposed never enters a history."""

from __future__ import annotations

import pytest

from ciguard.errors import InputError
from ciguard.history.ingest import check_is_merged


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch", "workflow_run", None])
def test_runs_of_a_branch_may_write_history(event: str | None) -> None:
    check_is_merged(event, "run 7", "here")


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_group"])
def test_unmerged_runs_may_not_write_history(event: str) -> None:
    with pytest.raises(InputError, match=f"run 7 is a run of {event}") as caught:
        check_is_merged(event, "run 7", "here")
    assert (caught.value.where, "base branch" in caught.value.fix) == ("here", True)
