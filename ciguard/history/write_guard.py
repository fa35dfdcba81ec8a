"""Whose values may enter a history: what is only proposed must not become the past. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.errors import InputError
from ciguard.history.runs import UNMERGED_EVENTS

if TYPE_CHECKING:
    from ciguard.history.file import History


def check_no_unmerged_runs(addition: History, where: str) -> None:
    """Let in what a branch has, whoever started it, as the runs say themselves.

    Raises:
        InputError: a run is a pull request's or a merge group's.
    """
    for run in addition.runs:
        if run.event in UNMERGED_EVENTS:
            whose = "a merge group" if run.event == "merge_group" else "a pull request"
            raise InputError(
                f"run {run.run_id} is of {whose} ({run.event}): its values are not added",
                where=where,
                fix="add runs of the base branch: if: github.event_name == 'push'",
            )


def check_event_may_write(event: str | None, where: str) -> None:
    """Let nobody write a history in a job that runs, or was handed, what is only proposed.

    What such a job holds may say what it likes of the runs in it.

    Args:
        event: of the workflow run that is asking, or of the one that it tells of; as the platform
            says. None outside of one.
        where: it says so.

    Raises:
        InputError: it is a pull request's or a merge group's.
    """
    if event in UNMERGED_EVENTS:
        raise InputError(
            f"a run of {event} writes no history: what it proposes would judge itself by it",
            where=where,
            fix="write it in a run of the base branch: if: github.event_name == 'push'",
        )
