"""Entries of the work list for a run on GitHub: one for each attempt, in the lane of its branch.

Runs of one lane are judged one at a time. A lane is the head branch of a workflow's runs, and not a
pull request: GitHub gives no number of it for a fork, nor after it is closed, so that two runs of a
pull request would get two lanes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ciguard.github.models import WorkflowRun
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.schema import storable
from ciguard.serve.state.work_list import NewWork, Source

_KEY_LENGTH: Final = 512  # of the column


def lane_of(repository_id: int, run: WorkflowRun) -> str:
    """Name the lane of a run, by the workflow, the branch at its head and its repository."""
    branch = f"{run.repository_id or 0}:{run.head_branch or ''}"
    return storable(f"{repository_id}/branch/{branch}/{run.workflow}", _KEY_LENGTH)


def latest_attempt(repository_id: int, run: WorkflowRun, source: Source) -> NewWork:
    """Make the entry of the attempt that a webhook or a list names."""
    key = RunKey(repository_id, run.id, run.run_attempt)
    return NewWork(key, lane_of(repository_id, run), source)


def all_attempts(repository_id: int, run: WorkflowRun, source: Source) -> tuple[NewWork, ...]:
    """Make entries of all attempts: earlier ones are complete, and their webhooks may be lost."""
    latest = latest_attempt(repository_id, run, source)
    keys = (replace(latest.key, run_attempt=number) for number in range(1, run.run_attempt + 1))
    return tuple(replace(latest, key=key) for key in keys)
