"""Red runs that no test and no step failed: cancelled, superseded, or their runner was lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.red_causes import CAUSES, WITHOUT_FAILURE, RedCause, red_cause
from ciguard.audit.rules.base import FoundAt, RuleFinding
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns

TITLE: Final = "Red runs without a failure"
CAVEATS: Final = {
    "superseded-by-time": "no annotation names the cause; a newer run of the same branch began "
    "while these still ran",
}
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
            subject=workflow,
            evidence=_evidence(found),
            facts={
                "without_failure": len(found),
                "red": len(red),
                "runs": len(runs),
                "causes": _counts(red),
                "inferred": len(found) - len(told),
            },
            caveat="" if is_certain else "superseded-by-time",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the red runs by cause."""
    ordered = sorted(facts["causes"].items(), key=lambda pair: -pair[1])
    causes = ", ".join(f"{CAUSES[cause]} {count:,}" for cause, count in ordered)
    without, red = facts["without_failure"], facts["red"]
    inferred = f"; {facts['inferred']:,} known by times alone" if facts["inferred"] else ""
    share = f"{without:,} of {red:,} red runs ({100 * without / red:.0f} %) had no failure"
    return f"{share}; causes: {causes}{inferred}; n = {count_of(facts['runs'], 'run')}"


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
