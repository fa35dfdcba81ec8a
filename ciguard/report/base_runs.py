"""Past runs of a repository without a history: the result files of the base's newest runs.

A run costs three calls of GitHub's API, and one for each of its artifacts that may have results.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.result_patterns import newest_attempts, pattern
from ciguard.codec.results.unplanned import read_unplanned, units_with_variants
from ciguard.compare.baseline_selection import EVENTS
from ciguard.errors import CiguardError, InputError
from ciguard.github.run_client import runs_of_base
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.history.stores import LoadedHistory
from ciguard.sources.artifacts import RunArtifacts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ciguard.github.client import GitHub
    from ciguard.github.events import ActionsRun
    from ciguard.history.file import History
    from ciguard.report.judging import GitHubOpener
    from ciguard.sources.inputs import Sources

MAX_RUNS: Final = 5


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
    base, workflow = run.base_branch or "", run.subject_workflow
    for past in runs_of_base(github, run.repository, base, EVENTS, run=run, workflow=workflow):
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
