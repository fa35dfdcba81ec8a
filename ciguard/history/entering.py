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
