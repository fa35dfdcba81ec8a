"""Aggregation jobs, which decide for other jobs, that stay green although such a job is lost. Pure.

A job at its time limit is cancelled, so a job that looks for `failure` alone does not see this
loss. A job that does not run after a failure is skipped, and a skipped required check passes.
A job that reports, cleans up or publishes after a failure decides for no other: an aggregation job
does nothing but print and exit, or its steps fail by results. A job in doubt is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.aggregation import JobTexts, read_jobs, skipped_jobs
from ciguard.workflow.conditions import runs_after_failure

COUNTED: Final = ("check", "can be green over lost tests")
CAVEATS: Final = {
    "required_checks_not_known": "the finding counts only if this check is required, which is not "
    "known",
}
_CARELESS: Final = {
    "ignores_results": "runs after a failure and reads no result of the jobs that it needs",
    "skipped_after_failure": "is skipped if a job that it needs fails, and a skipped check passes",
}
_ON_FAILURE: Final = re.compile(r"(?<!!)\bfailure\(\)", re.I)


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find the aggregation jobs of a workflow that do not see each loss."""
    jobs = read_jobs(workflow.content)
    needed = {need for job in jobs.values() for need in job.needs}
    for name, value in workflow.jobs().items():
        loss = _find_loss(name, jobs, is_needed=name in needed)
        if loss is None:
            continue
        title = job_title(name, value)
        is_only_required = loss["kind"] == "skipped_after_failure"
        if is_only_required and required_checks is not None and title not in required_checks:
            continue
        is_unknown = is_only_required and required_checks is None
        yield RuleFinding(
            title,
            locate(workflow, (("jobs", name, "if"), "")),
            loss,
            caveat="required_checks_not_known" if is_unknown else "",
        )


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the losses that the job does not see."""
    if facts["kind"] in _CARELESS:
        return _CARELESS[facts["kind"]]
    missed = []
    if facts["unseen_results"]:
        missed.append(f"a job that ends as {' or '.join(facts['unseen_results'])}")
    if facts["unseen_jobs"]:
        jobs = " or ".join(facts["unseen_jobs"])
        missed.append(f"a failure of {jobs}, which skips the jobs that need it")
    return f"green after {' and after '.join(missed)}"


def _find_loss(
    name: str, jobs: Mapping[str, JobTexts], *, is_needed: bool
) -> dict[str, Any] | None:
    """Return the facts of a loss that a job does not see; None if there is no such loss.

    The facts are `kind`, `unseen_results` (results of needed jobs that leave the job green) and
    `unseen_jobs` (failed jobs, not seen themselves, whose dependents the job reads).
    """
    job = jobs[name]
    if not job.needs:
        return None
    if runs_after_failure(job.condition):
        results, failed_jobs = _unseen(name, jobs)
        if results or failed_jobs:
            return {"kind": "misses_loss", "unseen_results": results, "unseen_jobs": failed_jobs}
    kind = _careless_kind(job)
    # A failure skips the jobs that need this one as well: such a job is a barrier.
    is_barrier = kind == "skipped_after_failure" and is_needed
    if kind is None or is_barrier:
        return None
    return {"kind": kind, "unseen_results": [], "unseen_jobs": []}


def _careless_kind(job: JobTexts) -> str | None:
    """Return how an aggregation job is green after every loss, as a key of `_CARELESS`."""
    condition = "".join(job.condition.split()).lower()
    if _ON_FAILURE.search(condition) and not re.search(r"always\(\)|success\(\)", condition):
        is_verdict = job.has_only_verdicts and job.has_failing_step()
    elif runs_after_failure(job.condition):
        return "ignores_results" if job.has_only_verdicts and not job.names_needs else None
    else:
        is_verdict = job.has_only_verdicts or job.fails_by_results()
    return "skipped_after_failure" if is_verdict else None


def _unseen(name: str, jobs: Mapping[str, JobTexts]) -> tuple[list[str], list[str]]:
    """Return the results and the failed jobs that a job that looks for failures does not see."""
    job = jobs[name]
    if not (job.looks_for_failure_only() and job.fails_by_results()):
        return [], []
    results = [
        result
        for result in ("failure", "cancelled")
        if not re.search(rf"\b{result}\b(?!\s*\()", job.text, re.I)
    ]
    ancestors = set(job.needs)
    for _ in jobs:
        ancestors |= {need for other in ancestors & jobs.keys() for need in jobs[other].needs}
    failed_jobs = [
        failed
        for failed in jobs
        if failed in ancestors
        and job.is_green_after(_red_jobs(jobs, failed), skipped_jobs(jobs, failed))
    ]
    return results, failed_jobs


def _red_jobs(jobs: Mapping[str, JobTexts], failed: str) -> set[str]:
    """Return a failed job, and the jobs that fail because they read its result."""
    red = {failed}
    for _ in jobs:
        red |= {
            name
            for name, job in jobs.items()
            if runs_after_failure(job.condition)
            and job.fails_by_results()
            and job.reads_result_of(red)
        }
    return red
