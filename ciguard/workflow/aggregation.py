"""Aggregation jobs of a workflow, and those that stay green when the job that plans fails. Pure.

An aggregation job runs after a failure, too, and decides by results of jobs. If the job that plans
fails, GitHub skips the test jobs, and `contains(needs.*.result, 'failure')` is false for a skipped
job. A job is found as one that stays green if

- its condition lets it run after a failure: `always()`, `!cancelled()`, `success() || failure()`;
- it reads the result of a job that is skipped then: `needs.JOB.result`, `needs.*`, `toJSON(needs)`;
- it looks for `failure` or `cancelled`, and neither for `skipped` nor for `success`;
- it does not read the result of the planning job, or of a job with ciguard's report.

Expressions and scripts are searched for these words, not evaluated. A job in doubt is not found.
Sources: GitHub's documentation of `jobs.<job_id>.needs`, of the `needs` context, which holds
direct dependencies only, and of status check functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from ciguard.workflow.yaml_values import jobs_of, steps_of

_COMMAND: Final = re.compile(r"\bciguard['\"]?\s+(plan|report)\b.*--github")
_AFTER_FAILURE: Final = re.compile(
    r"\balways\(\)|!cancelled\(\)|\bsuccess\(\)\|\|failure\(\)|\bfailure\(\)\|\|success\(\)", re.I
)
_ONLY_AFTER_SUCCESS: Final = re.compile(r"!failure\(\)|=='success'", re.I)
_ALL_NEEDS: Final = re.compile(r"\bneeds\.\*|\btoJSON\(\s*needs\s*\)", re.I)
_NAMED_NEED: Final = re.compile(r"\bneeds(?:\.([\w-]+)|\['([\w-]+)'\])\.result\b", re.I)
# A result, not the status function of that name.
_FAILURE: Final = re.compile(r"\b(failure|cancelled)\b(?!\s*\()", re.I)
_SKIPPED_OR_SUCCESS: Final = re.compile(r"\b(skipped|success)\b(?!\s*\()", re.I)
ALLS_GREEN: Final = ("re-actors", "alls-green")


@dataclass(frozen=True, slots=True)
class UndetectedSkip:
    """An aggregation job that is green although no test ran.

    Attributes:
        file: the workflow file, as the caller names it.
        job: id of the aggregation job.
        planning_job: id of the job whose failure it does not see.
        is_needed: the planning job is in its `needs` already; only its result is not read.
        reads_single_results: it reads `needs.JOB.result` of named jobs, so that another entry of
            `needs` changes nothing before its result is read, too.
    """

    file: str
    job: str
    planning_job: str
    is_needed: bool
    reads_single_results: bool


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A job that decides by the results of others.

    Attributes:
        reads_single_results: as of `UndetectedSkip`.
    """

    job: str
    reads_single_results: bool


@dataclass(frozen=True, slots=True)
class _Job:
    """A job as texts.

    Attributes:
        text: its condition and environment, and all of its steps but their names.
        actions: repository and last part of the actions that it uses: ("octo-org/ciguard", "run").
    """

    needs: frozenset[str]
    condition: str
    text: str
    actions: frozenset[tuple[str, str]]

    def runs_after_failure(self) -> bool:
        """Say whether it runs where a job that it needs, at whatever distance, failed."""
        condition = "".join(self.condition.split())
        return bool(_AFTER_FAILURE.search(condition) and not _ONLY_AFTER_SUCCESS.search(condition))

    def reads_result_of(self, names: Set[str]) -> bool:
        """Say whether it reads the result of one of these that it needs."""
        named = {found[1] or found[2] for found in _NAMED_NEED.finditer(self.text)}
        return bool(self.needs & names and (_ALL_NEEDS.search(self.text) or named & names))

    def decides_by_results(self) -> bool:
        words = _FAILURE.search(self.text) or _SKIPPED_OR_SUCCESS.search(self.text)
        return bool(words or ALLS_GREEN in self.actions)

    def looks_for_failure_only(self) -> bool:
        return bool(_FAILURE.search(self.text) and not _SKIPPED_OR_SUCCESS.search(self.text))


def find_undetected_skips(workflow: Any, file: str) -> tuple[UndetectedSkip, ...]:
    """Find aggregation jobs that stay green when a job that plans for ciguard fails.

    Args:
        workflow: value of a workflow file, of any shape; what is no workflow has none.
        file: its name, for the findings.

    Returns:
        One finding for each pair of jobs, in the order of the file.
    """
    jobs = {str(name): _job(value) for name, value in jobs_of(workflow).items()}
    reports = _jobs_of("report", jobs)
    findings = []
    for planning in _jobs_of("plan", jobs):
        skipped = _skipped_jobs(jobs, planning)
        red = {planning} | {
            name
            for name in reports
            if jobs[name].needs & (skipped | {planning}) and name not in skipped
        }
        findings += [
            UndetectedSkip(
                file,
                name,
                planning,
                is_needed=planning in job.needs,
                reads_single_results=not _ALL_NEEDS.search(job.text),
            )
            for name, job in jobs.items()
            if name not in red
            and job.runs_after_failure()
            and job.looks_for_failure_only()
            and job.reads_result_of(skipped)
            and not job.reads_result_of(red)
        ]
    return tuple(findings)


def find_aggregations(workflow: Any, test_job: str) -> tuple[Aggregation, ...]:
    """Find the aggregation jobs of a test job, also where they need it through another job.

    Those that demand success see a failed plan. They do not see an incomplete run, in which each
    job is green: only the report does.
    """
    jobs = {str(name): _job(value) for name, value in jobs_of(workflow).items()}
    results = {test_job}
    for _ in jobs:
        results |= {name for name, job in jobs.items() if job.needs & results}
    return tuple(
        Aggregation(name, reads_single_results=not _ALL_NEEDS.search(job.text))
        for name, job in jobs.items()
        if name != test_job
        and job.runs_after_failure()
        and job.decides_by_results()
        and job.reads_result_of(results)
    )


def _jobs_of(name: str, jobs: Mapping[str, _Job]) -> list[str]:
    """The jobs that run ciguard's action or command of that name, as `init` writes it."""
    used = {action for job in jobs.values() for action in job.actions}
    ours = {repository for repository, last in used if last == "plan"}
    actions = {(repository, name) for repository in ours if (repository, "run") in used}
    return [
        job_id
        for job_id, job in jobs.items()
        if job.actions & actions or name in _COMMAND.findall(job.text)
    ]


def _skipped_jobs(jobs: Mapping[str, _Job], failed: str) -> set[str]:
    """The jobs that do not run when `failed` fails: those that need it, and so on."""
    without_success = {failed}
    for _ in jobs:  # each round finds one at least, or nothing more
        without_success |= {
            name
            for name, job in jobs.items()
            if job.needs & without_success and not job.runs_after_failure()
        }
    return without_success - {failed}


def _job(value: Any) -> _Job:
    steps = [step for _, step in steps_of(value)]
    paths = [_text(_get(step, "uses")).partition("@")[0].rpartition("/") for step in steps]
    texts = [_get(step, key) for step in steps for key in ("if", "env", "run", "with")]
    condition = _text(_get(value, "if"))
    return _Job(
        needs=frozenset(_text(_get(value, "needs")).split()),
        condition=condition,
        text=_text([condition, _get(value, "env"), texts]).replace("\\\n", " "),
        actions=frozenset((repository, last) for repository, _, last in paths),
    )


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _text(value: Any) -> str:
    """The texts in a value, a line each."""
    if isinstance(value, Mapping):
        return _text(list(value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)
