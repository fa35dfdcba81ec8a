"""Aggregation jobs of a workflow, and those that stay green when a job fails or is lost. Pure.

An aggregation job runs after a failure, too, and decides by results of jobs. If a job that test
jobs need fails, GitHub skips the test jobs, and `contains(needs.*.result, 'failure')` is false for
a skipped job. A job is found as one that stays green after the failure of such a job if

- its condition lets it run after a failure: `always()`, `!cancelled()`, `success() || failure()`;
- it reads the result of a job that is skipped then: `needs.JOB.result`, `needs.*`, `toJSON(needs)`;
- it looks for `failure` or `cancelled`, and neither for `skipped` nor for `success`;
- it does not read the result of the failed job, or of a job that is red because of it.

A job at its time limit is cancelled, so one that looks for `failure` alone does not see it. And a
job that does not run after a failure is skipped, which passes where the check is required.

Expressions and scripts are searched for these words, not evaluated. A job in doubt is not found.
Sources: GitHub's documentation of `jobs.<job_id>.needs`, of the `needs` context, which holds
direct dependencies only, and of status check functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, Final, Literal

from ciguard.workflow.conditions import runs_after_failure, runs_after_skip
from ciguard.workflow.test_commands import split_commands
from ciguard.workflow.yaml_values import jobs_of, steps_of

_COMMAND: Final = re.compile(r"\bciguard['\"]?\s+(plan|report)\b(?!.*--register).*--github")
_ALL_NEEDS: Final = re.compile(r"\bneeds\.\*|\btoJSON\(\s*needs\s*\)", re.I)
NAMED_NEED: Final = re.compile(r"\bneeds(?:\.([\w-]+)|\['([\w-]+)'\])\.result\b", re.I)
# A result, not the status function of that name.
_FAILURE: Final = re.compile(r"\b(failure|cancelled)\b(?!\s*\()", re.I)
_SKIPPED_OR_SUCCESS: Final = re.compile(r"\b(skipped|success)\b(?!\s*\()", re.I)
_ON_FAILURE: Final = re.compile(r"(?<!!)\bfailure\(\)", re.I)
_ECHO: Final = re.compile(r"(?m)^\s*echo\b[^|\n>;&]*$")
# A step with one of these can end red by itself.
_FAILS: Final = re.compile(
    r"\bexit\s+(?!0\b)\S|\bfalse\b|setFailed|process\.exit|sys\.exit|\bjq\s+(-\w+\s+)*-\w*e"
    r"|(?m:^\s*(!\s*)?(\[\[?|test)\s)"
)
_VERDICT_PROGRAMS: Final = frozenset({"echo", "printf", "exit", "true", "false", ":"})
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


GreenKind = Literal["ignores_results", "prints_results", "misses_loss", "skipped_after_failure"]


@dataclass(frozen=True, slots=True)
class GreenOnLoss:
    """A job that speaks for others, and does not fail although one of them is lost.

    Attributes:
        kind: it reads no result; or prints them and cannot fail; or misses one; or a failure skips
            it. Of the second and the last only a required check speaks for others.
        unseen_results: results of needed jobs that leave it green.
        unseen_jobs: ids of jobs whose failure skips the jobs that it reads, and is not seen itself.
    """

    job: str
    kind: GreenKind
    unseen_results: tuple[str, ...] = ()
    unseen_jobs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A job that decides by the results of others.

    Attributes:
        reads_single_results: as of `UndetectedSkip`; where a failed need skips the job, another
            entry of `needs` is enough.
    """

    job: str
    reads_single_results: bool


@dataclass(frozen=True, slots=True)
class _Job:
    """A job as texts.

    Attributes:
        text: its condition and environment, and all of its steps but their names and echoes.
        steps_text: of that, the steps.
        has_only_verdicts: its steps print, exit, or are the action that reads results.
        names_needs: a result of a needed job stands in it, if only to be printed.
        actions: repository and last part of the actions that it uses: ("octo-org/ciguard", "run").
    """

    needs: frozenset[str]
    condition: str
    text: str
    steps_text: str
    has_only_verdicts: bool
    names_needs: bool
    actions: frozenset[tuple[str, str]]

    def runs_after_failure(self) -> bool:
        """Say whether it runs where a job that it needs, at whatever distance, failed."""
        return runs_after_failure(self.condition)

    def reads_result_of(self, names: Set[str]) -> bool:
        """Say whether it reads the result of one of these that it needs."""
        named = {found[1] or found[2] for found in NAMED_NEED.finditer(self.text)}
        return bool(self.needs & names and (_ALL_NEEDS.search(self.text) or named & names))

    def demands_success(self) -> bool:
        """Say whether its condition reads that a job succeeded."""
        is_read = NAMED_NEED.search(self.condition)
        return bool(is_read and _SKIPPED_OR_SUCCESS.search(self.condition))

    def decides_by_results(self) -> bool:
        words = _FAILURE.search(self.text) or _SKIPPED_OR_SUCCESS.search(self.text)
        return bool(words or ALLS_GREEN in self.actions)

    def looks_for_failure_only(self) -> bool:
        return bool(_FAILURE.search(self.text) and not _SKIPPED_OR_SUCCESS.search(self.text))

    def fails_by_results(self) -> bool:
        """Say whether its steps read results and can fail."""
        reads = _ALL_NEEDS.search(self.steps_text) or NAMED_NEED.search(self.steps_text)
        return ALLS_GREEN in self.actions or bool(reads and _FAILS.search(self.steps_text))

    def is_green_after(self, red: Set[str], skipped: Set[str]) -> bool:
        """Say whether it stays green where jobs are red and others skipped because of them."""
        return (
            self.runs_after_failure()
            and self.looks_for_failure_only()
            and self.reads_result_of(skipped)
            and not self.reads_result_of(red)
        )


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
            if name not in red and job.is_green_after(red, skipped)
        ]
    return tuple(findings)


def find_green_on_loss(workflow: Any) -> tuple[GreenOnLoss, ...]:
    """Find the jobs that stay green although a job that they speak for is lost.

    A job that reports, cleans up or publishes after a failure speaks for none: it does nothing but
    print and exit, or fails by results, or it is not found.
    """
    jobs = {str(name): _job(value) for name, value in jobs_of(workflow).items()}
    needed = {need for job in jobs.values() for need in job.needs}
    findings = []
    for name, job in jobs.items():
        if not job.needs:
            continue
        found = _missed_loss(name, jobs) if job.runs_after_failure() else None
        if found is None and (kind := _careless_kind(job)):
            # What others need is a barrier: a failure skips them with it.
            is_barrier = kind == "skipped_after_failure" and name in needed
            found = None if is_barrier else GreenOnLoss(name, kind)
        if found:
            findings.append(found)
    return tuple(findings)


def _careless_kind(job: _Job) -> GreenKind | None:
    condition = "".join(job.condition.split()).lower()
    if _ON_FAILURE.search(condition) and not re.search(r"always\(\)|success\(\)", condition):
        is_verdict = job.has_only_verdicts and bool(_FAILS.search(job.steps_text))
    elif job.runs_after_failure():
        if not job.has_only_verdicts:
            return None
        if not job.names_needs:
            return "ignores_results"
        can_fail = ALLS_GREEN in job.actions or _FAILS.search(job.steps_text)
        return None if can_fail else "prints_results"
    else:
        is_verdict = job.has_only_verdicts or job.fails_by_results()
    return "skipped_after_failure" if is_verdict else None


def _missed_loss(name: str, jobs: Mapping[str, _Job]) -> GreenOnLoss | None:
    """What an aggregation job that reads results does not see; None where it sees each loss."""
    job = jobs[name]
    if not (job.looks_for_failure_only() and job.fails_by_results()):
        return None
    results = tuple(
        result
        for result in ("failure", "cancelled")
        if not re.search(rf"\b{result}\b(?!\s*\()", job.text, re.I)
    )
    ancestors = set(job.needs)
    for _ in jobs:
        ancestors |= {need for one in ancestors & jobs.keys() for need in jobs[one].needs}
    lost = tuple(
        one
        for one in jobs
        if one in ancestors and job.is_green_after(_red_jobs(jobs, one), _skipped_jobs(jobs, one))
    )
    return GreenOnLoss(name, "misses_loss", results, lost) if results or lost else None


def _red_jobs(jobs: Mapping[str, _Job], failed: str) -> set[str]:
    """A failed job, and those that fail because they read its result."""
    red = {failed}
    for _ in jobs:
        red |= {
            name
            for name, job in jobs.items()
            if job.runs_after_failure() and job.fails_by_results() and job.reads_result_of(red)
        }
    return red


def find_aggregations(workflow: Any, test_job: str) -> tuple[Aggregation, ...]:
    """Find the aggregation jobs of a test job, also where they need it through another job.

    One that a failure skips is one of them if its condition demands that a job succeeded.

    Those that demand success see a failed plan. They do not see an incomplete run, in which each
    job is green: only the report does.
    """
    jobs = {str(name): _job(value) for name, value in jobs_of(workflow).items()}
    results = {test_job}
    for _ in jobs:
        results |= {name for name, job in jobs.items() if job.needs & results}
    return tuple(
        Aggregation(
            name,
            reads_single_results=runs_after_skip(job.condition) and not _ALL_NEEDS.search(job.text),
        )
        for name, job in jobs.items()
        if name != test_job
        and (job.runs_after_failure() or job.demands_success())
        and job.decides_by_results()
        and job.reads_result_of(results)
    )


def find_judging_jobs(workflow: Any) -> tuple[str, ...]:
    """The jobs that are red where a test was lost: those that report, then those that read that.

    Every other job of a run may be green then: that which plans, and each shard.
    """
    jobs = {str(name): _job(value) for name, value in jobs_of(workflow).items()}
    reports = _jobs_of("report", jobs)
    readers = (one.job for job in reports for one in find_aggregations(workflow, job))
    return tuple(
        dict.fromkeys((*reports, *(one for one in readers if jobs[one].runs_after_failure())))
    )


def _jobs_of(name: str, jobs: Mapping[str, _Job]) -> list[str]:
    """The jobs that run ciguard's action or command of that name, as `init` writes it."""
    used = {action for job in jobs.values() for action in job.actions}
    ours = {repository for repository, last in used if last in ("plan", "audit")}
    actions = {(one, name) for one in ours if {(one, "run"), (one, "audit")} & used}
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
    steps_text = _ECHO.sub("", _text(texts).replace("\\\n", " "))
    return _Job(
        needs=frozenset(_text(_get(value, "needs")).split()),
        condition=condition,
        text=_text([condition, _get(value, "env"), steps_text]),
        steps_text=steps_text,
        has_only_verdicts=bool(steps) and all(map(_is_verdict, steps)),
        names_needs="needs" in _text([condition, _get(value, "env"), texts]),
        actions=frozenset((repository, last) for repository, _, last in paths),
    )


def _is_verdict(step: Mapping[str, Any]) -> bool:
    """Say whether a step prints or exits and no more, or reads the results of the needed jobs."""
    if "run" not in step:
        return _text(step.get("uses")).startswith("/".join(ALLS_GREEN) + "@")
    return all(words[0] in _VERDICT_PROGRAMS for words in split_commands(_text(step["run"])))


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _text(value: Any) -> str:
    """The texts in a value, a line each."""
    if isinstance(value, Mapping):
        return _text(list(value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)
