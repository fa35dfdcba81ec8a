"""The run of the same pull request before this one: what confirms what this one shows.

Its records are the pull request's own claim; they never become a baseline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.github.artifacts import records_of_run
from ciguard.github.runs import finished_runs

if TYPE_CHECKING:
    from ciguard.github.artifacts import RunRecords
    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.github.models import WorkflowRun

MOST: Final = 30


def previous_run(
    github: GitHub, run: ActionsRun, *, head_repository: str, judged: int
) -> WorkflowRun | None:
    """The newest run before this one of the same branch of the same repository, in one call.

    Of the same workflow and event: a fork's branch may be called as one of ours. One that was
    cancelled is passed over, for it was pushed over and says little.

    Args:
        head_repository: where the pull request's branch lives.
        judged: the id of this run.
    """
    found = finished_runs(
        github,
        run.repository,
        workflow=run.told_workflow,
        branch=run.told_branch or "",
        event="pull_request",
        most=MOST,
    )
    wanted = head_repository.lower()
    own = [
        one
        for one in found
        if one.id < judged
        and one.conclusion != "cancelled"
        and one.head_repository is not None
        and one.head_repository.full_name.lower() == wanted
    ]
    return max(own, key=lambda one: one.id, default=None)


def previous_records(
    github: GitHub, run: ActionsRun, *, head_repository: str, judged: int
) -> tuple[int, RunRecords] | None:
    """The id and the records of that run; None where there is none."""
    found = previous_run(github, run, head_repository=head_repository, judged=judged)
    if found is None:
        return None
    return found.id, records_of_run(github, run.repository, found.id)
