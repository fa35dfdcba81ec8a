"""Whose values may enter a history: what is only proposed must not become the past. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.codec.history_runs import PROPOSALS
from ciguard.errors import InputError

if TYPE_CHECKING:
    from ciguard.codec.history import History


def check_entering(addition: History, where: str, event: str | None = None) -> None:
    """Let in what a branch has, whoever started it.

    Args:
        event: of the workflow run that is asking, for runs that do not know theirs.

    Raises:
        InputError: a run is a pull request's or a merge group's.
    """
    for run in addition.runs:
        of_run = run.event or event
        if of_run in PROPOSALS:
            whose = "a merge group" if of_run == "merge_group" else "a pull request"
            raise InputError(
                f"run {run.run_id} is of {whose} ({of_run}): its values are not added",
                where=where,
                fix="add runs of the base branch: if: github.event_name == 'push'",
            )


def check_writer(event: str | None) -> None:
    """Let nobody carry a history to a branch from a job that runs what is only proposed.

    A file that such a job made may say what it likes of the runs in it.

    Args:
        event: of the workflow run that is asking; None outside of one.

    Raises:
        InputError: it is a pull request's or a merge group's.
    """
    if event in PROPOSALS:
        raise InputError(
            f"a run of {event} writes no history: what it proposes would judge itself by it",
            where="GITHUB_EVENT_NAME",
            fix="push from a run of the base branch: if: github.event_name == 'push'",
        )
