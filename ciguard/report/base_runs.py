"""Past runs of a repository without a history: the result files of the base's newest runs.

A run costs three calls of GitHub's API, and one for each of its artifacts that may have results.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.result_patterns import newest_attempts, pattern
from ciguard.codec.results.unplanned import read_unplanned, units_with_variants
from ciguard.compare.baseline_selection import EVENTS
from ciguard.errors import CiguardError, InputError
from ciguard.github.run_client import branch_distance, completed_runs
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.history.stores import LoadedHistory
from ciguard.sources.artifacts import RunArtifacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.github.models import WorkflowRun
    from ciguard.history.file import History
    from ciguard.report.judging import GitHubOpener
    from ciguard.sources.inputs import Sources

MAX_RUNS: Final = 5
MAX_ASKED: Final = 10  # of whose commits GitHub is asked
MAX_LISTED: Final = 30
ENDED: Final = ("success", "failure")  # a cancelled run may lack results


def read_base_runs(
    run: ActionsRun, open_github: GitHubOpener, sources: Sources, listed: Collection[str] | None
) -> LoadedHistory:
    """Return a history of the newest complete runs of the base before a run.

    Args:
        sources: those of the judged run, with the patterns of result files in artifacts.
        listed: names of its tests; None: as in the result files.
    """
    location = f"runs of {run.base_branch}"
    try:
        with open_github() as github:
            histories = tuple(_histories(github, run, sources, listed))
    except CiguardError as error:
        why = "; ".join(filter(None, (error.what, error.fix)))
        return LoadedHistory(None, location, f"the {location} cannot be read: {why}")
    if not histories:
        problem = f"no complete run of {run.base_branch} has results"
        return LoadedHistory(None, location, problem, is_new=True)
    return LoadedHistory(reduce(merge, histories), location, is_new=True)


def _histories(
    github: GitHub, run: ActionsRun, sources: Sources, listed: Collection[str] | None
) -> Iterator[History]:
    """Yield the histories of single runs, the newest first."""
    patterns = [pattern(text) for text in sources.results]
    in_several: frozenset[str] = frozenset()
    count = 0
    for past in _runs(github, run):
        artifacts = RunArtifacts(github, run.repository, past.id)
        try:
            inputs = artifacts.result_files(patterns)
        except InputError:
            return  # expired, and so are those of older runs
        # A history of result files does not distinguish the attempts of a job.
        files = [replace(file, attempt=None) for file in newest_attempts(inputs.results)]
        plan, records = read_unplanned(files, listed, in_several)
        is_complete = bool(records) and not inputs.problems
        if not is_complete or sources.expected not in (None, len(plan.shards)):
            continue
        in_several |= units_with_variants(
            result.key for record in records for result in record.results
        )
        facts = RunMetadata(
            run_id=past.id,
            run_attempt=past.run_attempt,
            sha=past.head_sha or None,
            branch=past.head_branch,
            event=past.event,
            at=past.created_at,
        )
        yield history_of(records, facts, plan)
        count += 1
        if count == MAX_RUNS:
            return


def _runs(github: GitHub, run: ActionsRun) -> Iterator[WorkflowRun]:
    """Yield earlier runs of the base, of the first event with a run: the newest commit first.

    A tag with the name of the base starts an old commit again: its run is new, its commit is not.
    """
    workflow, branch = run.subject_workflow, run.base_branch or ""
    subject, _ = run.subject_run or (0, 0)
    listed = completed_runs(
        github, run.repository, workflow=workflow, branch=branch, limit=MAX_LISTED
    )
    earlier = [past for past in listed if past.conclusion in ENDED and past.id < subject]
    # A branch of a fork may have the base's name, but its event is `pull_request`.
    of_base = [past for past in earlier if past.event in EVENTS]
    of_base.sort(key=lambda past: (EVENTS.index(past.event), -past.id))
    distance = branch_distance(github, run.repository, branch)
    near: list[tuple[int, int, WorkflowRun]] = []
    for past in of_base:
        if near and (past.event != near[0][2].event or len(near) == MAX_ASKED):
            break
        behind = distance(past.head_sha)
        if behind is not None:
            near.append((behind, -past.id, past))
    yield from (past for _, _, past in sorted(near, key=itemgetter(0, 1)))
