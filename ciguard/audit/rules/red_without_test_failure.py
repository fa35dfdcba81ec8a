"""Red runs of a workflow without a failed test or step: cancelled, superseded or a lost runner.

A workflow is reported if at least 3 of its red runs, and a tenth of them, have no failure. The
sentence of the finding counts the causes of all red runs, those with a failure included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ciguard.audit.declared_jobs import DeclaredJobs
from ciguard.audit.repository_runs import (
    CAUSES,
    WITHOUT_FAILURE,
    Cause,
    PastRun,
    RepositoryRuns,
    red_cause,
)
from ciguard.audit.rules.base import Evidence, RuleFinding
from ciguard.text import count_of

COUNTED: Final = ("workflow", "red without a failed test")
CAVEATS: Final[Mapping[str, str]] = {}
MIN_RUNS: Final = 3  # fewer may be a person who pressed "Cancel"
MIN_RATIO: Final = 0.1  # of the red runs
MAX_EVIDENCE: Final = 5


def check_runs(repository: RepositoryRuns) -> Iterator[RuleFinding]:
    """Yield a finding for each workflow with enough red runs without a failure."""
    declared = DeclaredJobs(repository.workflows)
    for workflow in repository.test_workflows:
        runs = [run for run in repository.runs_of(workflow) if run.id in repository.jobs]
        red = [(run, red_cause(run, repository, declared)) for run in runs if run.is_red]
        without_failure = [(run, cause) for run, cause in red if cause in WITHOUT_FAILURE]
        counts = Counter(cause for _, cause in red)
        if len(without_failure) < max(MIN_RUNS, MIN_RATIO * len(red)):
            continue
        yield RuleFinding(
            subject=workflow,
            evidence=_evidence(without_failure),
            facts={
                "without_failure": len(without_failure),
                "red": len(red),
                "runs": len(runs),
                "causes": {cause: counts[cause] for cause in CAUSES if counts[cause]},
            },
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Count the red runs without a failure, and all red runs by cause."""
    ordered = sorted(facts["causes"].items(), key=lambda pair: -pair[1])
    causes = ", ".join(f"{CAUSES[cause]} {runs:,}" for cause, runs in ordered)
    count, red = facts["without_failure"], facts["red"]
    share = f"{count:,} of {red:,} red runs ({100 * count / red:.0f} %) had no failure"
    return f"{share}; causes: {causes}; n = {count_of(facts['runs'], 'run')}"


def _evidence(red: Sequence[tuple[PastRun, Cause]]) -> tuple[Evidence, ...]:
    """Return the newest of these red runs for each cause, then the newest other ones."""
    by_cause = {cause: run for run, cause in reversed(red)}
    runs = [*dict.fromkeys([*by_cause.values(), *(run for run, _ in red)])]
    return tuple(Evidence(f"run {run.id}", run.url) for run in runs[:MAX_EVIDENCE])
