"""Red runs of a workflow without a failed test or step: cancelled, superseded or a lost runner.

A workflow is reported if at least 3 of its red runs, and a tenth of them, have no failure. The
sentence of the finding counts the causes of all red runs, those with a failure included.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.red_causes import CAUSES, WITHOUT_FAILURE, RedCause, red_cause
from ciguard.audit.repository_runs import run_evidence
from ciguard.audit.rules.base import RuleFinding
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.repository_runs import PastRun, RepositoryRuns
    from ciguard.audit.rules.base import Evidence

COUNTED: Final = ("workflow", "red without a failed test")
CAVEATS: Final = {
    "superseded-by-time": "no annotation names the cause; a newer run of the same branch began "
    "while these still ran",
}
MIN_RUNS: Final = 3  # fewer may be a person who pressed "Cancel"
MIN_RATIO: Final = 0.1  # of the red runs
MAX_EVIDENCE: Final = 5


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each workflow with enough red runs without a failure.

    A cause is inferred if no annotation names it, but a newer run of the branch had begun. If too
    few runs remain without the inferred ones, the finding has the caveat "superseded-by-time".
    """
    declared = DeclaredJobs(repository.workflows)
    for workflow in repository.test_workflows:
        runs = [run for run in repository.runs_of(workflow) if run.id in repository.jobs]
        red = [(run, red_cause(run, repository, declared)) for run in runs if run.is_red]
        without_failure = [(run, cause) for run, cause in red if cause.name in WITHOUT_FAILURE]
        counts = Counter(cause.name for _, cause in red)
        inferred = sum(cause.is_inferred for _, cause in without_failure)
        required = max(MIN_RUNS, MIN_RATIO * len(red))
        if len(without_failure) < required:
            continue
        is_certain = len(without_failure) - inferred >= required
        yield RuleFinding(
            subject=workflow,
            evidence=_evidence(without_failure),
            facts={
                "without_failure": len(without_failure),
                "red": len(red),
                "runs": len(runs),
                "causes": {cause: counts[cause] for cause in CAUSES if counts[cause]},
                "inferred": inferred,
            },
            caveat="" if is_certain else "superseded-by-time",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the red runs without a failure, and all red runs by cause."""
    ordered = sorted(facts["causes"].items(), key=lambda pair: -pair[1])
    causes = ", ".join(f"{CAUSES[cause]} {runs:,}" for cause, runs in ordered)
    count, red = facts["without_failure"], facts["red"]
    inferred = f"; {facts['inferred']:,} known by times alone" if facts["inferred"] else ""
    share = f"{count:,} of {red:,} red runs ({100 * count / red:.0f} %) had no failure"
    return f"{share}; causes: {causes}{inferred}; n = {count_of(facts['runs'], 'run')}"


def _evidence(red: Sequence[tuple[PastRun, RedCause]]) -> tuple[Evidence, ...]:
    """Return the newest of these red runs for each cause, then the newest other ones."""
    by_cause = {cause.name: run for run, cause in reversed(red)}
    runs = dict.fromkeys([*by_cause.values(), *(run for run, _ in red)])
    return run_evidence(list(runs)[:MAX_EVIDENCE])
