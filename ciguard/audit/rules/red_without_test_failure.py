"""Red runs that no test and no step failed: cancelled, superseded, or their runner was lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.red_causes import CAUSES, WITHOUT_FAILURE, red_cause
from ciguard.audit.rules.base import FoundAt, RuleFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.audit.red_causes import RedCause
    from ciguard.audit.repository_runs import PastRun, RepositoryRuns

MIN_RUNS: Final = 3  # one or two are a person who pressed "Cancel"
MIN_RATIO: Final = 0.1  # of the red runs
MAX_EVIDENCE: Final = 5


def check_runs(past: RepositoryRuns) -> Iterator[RuleFinding]:
    """One finding for a workflow of whose red runs a tenth or more has no failure."""
    declared = DeclaredJobs(past.workflows)
    for workflow in past.test_workflows:
        runs = [run for run in past.runs_of(workflow) if run.id in past.jobs]
        red = [(run, red_cause(run, past, declared)) for run in runs if run.is_red]
        found = [(run, why) for run, why in red if why.cause in WITHOUT_FAILURE]
        if len(found) < max(MIN_RUNS, MIN_RATIO * len(red)):
            continue
        told = [run for run, why in found if not why.is_inferred]
        is_certain = len(told) >= max(MIN_RUNS, MIN_RATIO * len(red))
        yield RuleFinding(
            rule="red-without-test-failure",
            subject=workflow,
            evidence=_evidence(found),
            facts={
                "without_failure": len(found),
                "red": len(red),
                "runs": len(runs),
                "causes": _counts(red),
                "inferred": len(found) - len(told),
            },
            certainty="certain" if is_certain else "possible",
            doubt="" if is_certain else "superseded-by-time",
        )


def _counts(red: Sequence[tuple[PastRun, RedCause]]) -> dict[str, int]:
    counts = Counter(why.cause for _, why in red)
    return {cause: counts[cause] for cause in CAUSES if counts[cause]}


def _evidence(found: Sequence[tuple[PastRun, RedCause]]) -> tuple[FoundAt, ...]:
    """The newest run of each cause, then the newest of all."""
    by_cause = {why.cause: run for run, why in reversed(found)}
    chosen = [*by_cause.values(), *(run for run, _ in found)]
    runs = list(dict.fromkeys(run.id for run in chosen))[:MAX_EVIDENCE]
    urls = {run.id: run.url for run, _ in found}
    return tuple(FoundAt(f"run {run}", urls[run]) for run in runs)
