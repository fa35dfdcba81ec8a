"""A run of GitHub as entries of the work list: one an attempt, in the lane of its branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.schema import storable
from ciguard.serve.state.work_list import NewWork, Source

if TYPE_CHECKING:
    from ciguard.github.models import WorkflowRun

_KEY_LENGTH: Final = 512  # of the column


def lane_of(repository_id: int, run: WorkflowRun) -> str:
    """Name the lane of a run: the branch at its head, of its repository, and the workflow.

    Not the number of its pull request: GitHub gives none for a fork, and none any more once the
    pull request is closed, so that two runs of one would get two lanes. A pull request has one
    branch at its head.
    """
    branch = f"{run.repository_id or 0}:{run.head_branch or ''}"
    return storable(f"{repository_id}/branch/{branch}/{run.workflow}", _KEY_LENGTH)


def latest_attempt(repository_id: int, run: WorkflowRun, source: Source) -> NewWork:
    """Make the entry of the attempt that a webhook or a list names."""
    key = RunKey(repository_id, run.id, run.run_attempt)
    return NewWork(key, lane_of(repository_id, run), source)


def all_attempts(repository_id: int, run: WorkflowRun, source: Source) -> tuple[NewWork, ...]:
    """Make entries of all attempts: earlier ones are complete, and their webhooks may be lost."""
    lane = lane_of(repository_id, run)
    return tuple(
        NewWork(RunKey(repository_id, run.id, attempt), lane, source)
        for attempt in range(1, run.run_attempt + 1)
    )
