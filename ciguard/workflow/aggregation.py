"""Jobs that decide by results of other jobs: aggregation jobs, and the words that they read. Pure.

An aggregation job runs after a failure, too. If a job that test jobs need fails, GitHub skips the
test jobs, and `contains(needs.*.result, 'failure')` is false for a skipped job. So an aggregation
job stays green after the failure of such a job (`JobTexts.is_green_after`) if

- its condition lets it run after a failure: `always()`, `!cancelled()`, `success() || failure()`;
- it reads the result of a job that is skipped then: `needs.JOB.result`, `needs.*`, `toJSON(needs)`;
- it looks for `failure` or `cancelled`, and neither for `skipped` nor for `success`;
- it does not read the result of the failed job, or of a job that is red because of it.

The audit's rule `aggregation_green_on_loss` finds these jobs in any workflow.
Expressions and scripts are searched for these words, not evaluated. A job in doubt is not found.
Sources: GitHub's documentation of `jobs.<job_id>.needs`, of the `needs` context, which holds
direct dependencies only, and of status check functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from ciguard.workflow.conditions import runs_after_failure, runs_after_skip
from ciguard.workflow.test_commands import split_commands
from ciguard.workflow.yaml_values import dependents_of, get, jobs_of, needs_of, steps_of

_COMMAND: Final = re.compile(r"\bciguard['\"]?\s+(plan|report)\b(?!.*--register).*--github")
_ALL_NEEDS: Final = re.compile(r"\bneeds\.\*|\btoJSON\(\s*needs\s*\)", re.I)
NAMED_NEED: Final = re.compile(r"\bneeds(?:\.([\w-]+)|\['([\w-]+)'\])\.result\b", re.I)
# A result, not the status function of that name.
_FAILURE: Final = re.compile(r"\b(failure|cancelled)\b(?!\s*\()", re.I)
_SKIPPED_OR_SUCCESS: Final = re.compile(r"\b(skipped|success)\b(?!\s*\()", re.I)
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
        planning_job: id of the job whose failure the aggregation job does not see.
        is_needed: the planning job is among the `needs`; only its result is not read.
        reads_single_results: the job reads `needs.JOB.result` of named jobs; so another entry of
            `needs` alone changes nothing.
    """

    file: str
    job: str
    planning_job: str
    is_needed: bool
    reads_single_results: bool


@dataclass(frozen=True, slots=True)
class JobTexts:
    """The texts of a job by which it decides.

    Attributes:
        text: condition, environment and steps, without the steps' names and echoes.
        steps_text: the steps alone.
        has_only_verdicts: the steps print, exit, or are the action that reads results.
        names_needs: the job reads a result of a needed job, if only to print it.
        actions: repository and last part of the actions that it uses: ("octo-org/ciguard", "run").
    """

    needs: frozenset[str]
    condition: str
    text: str
    steps_text: str
    has_only_verdicts: bool
    names_needs: bool
    actions: frozenset[tuple[str, str]]

    def reads_result_of(self, names: Set[str]) -> bool:
        """Return whether the job needs one of these jobs, and reads its result."""
        read = {match[1] or match[2] for match in NAMED_NEED.finditer(self.text)}
        return bool(self.needs & names and (_ALL_NEEDS.search(self.text) or read & names))

    def demands_success(self) -> bool:
        """Return whether the condition requires that a needed job succeeded."""
        reads_result = NAMED_NEED.search(self.condition)
        return bool(reads_result and _SKIPPED_OR_SUCCESS.search(self.condition))

    def decides_by_results(self) -> bool:
        words = _FAILURE.search(self.text) or _SKIPPED_OR_SUCCESS.search(self.text)
        return bool(words or ALLS_GREEN in self.actions)

    def looks_for_failure_only(self) -> bool:
        return bool(_FAILURE.search(self.text) and not _SKIPPED_OR_SUCCESS.search(self.text))

    def has_failing_step(self) -> bool:
        """Return whether a script of the job can end red by itself."""
        return bool(_FAILS.search(self.steps_text))

    def fails_by_results(self) -> bool:
        """Return whether the steps read results and can fail."""
        reads = _ALL_NEEDS.search(self.steps_text) or NAMED_NEED.search(self.steps_text)
        return ALLS_GREEN in self.actions or bool(reads and self.has_failing_step())

    def is_green_after(self, red: Set[str], skipped: Set[str]) -> bool:
        """Return whether the job stays green if `red` fail and `skipped` are skipped for that."""
        return (
            runs_after_failure(self.condition)
            and self.looks_for_failure_only()
            and self.reads_result_of(skipped)
            and not self.reads_result_of(red)
        )


def find_undetected_skips(workflow: Any, file: str) -> tuple[UndetectedSkip, ...]:
    """Find aggregation jobs that stay green when a job that plans for ciguard fails.

    Args:
        workflow: value of a workflow file, of any shape.
        file: name of the workflow file, for the findings.

    Returns:
        One finding for each pair of jobs, in the order of the file.
    """
    jobs = read_jobs(workflow)
    reports = _jobs_of("report", jobs)
    findings = []
    for planning in _jobs_of("plan", jobs):
        skipped = skipped_jobs(jobs, planning)
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


def find_aggregations(workflow: Any, test_job: str) -> dict[str, bool]:
    """Find the aggregation jobs that need a test job, directly or through another job.

    A job that a failure skips counts if its condition requires that a job succeeded. Such a job
    sees a failed plan, but not an incomplete run, in which each job but the report is green.
    The value is whether the job reads `needs.JOB.result` of named jobs; False for a job that a
    failed need skips, as another entry of `needs` is enough then.
    """
    jobs = read_jobs(workflow)
    results = {test_job, *map(str, dependents_of(workflow, test_job))}
    return {
        name: runs_after_skip(job.condition) and not _ALL_NEEDS.search(job.text)
        for name, job in jobs.items()
        if name != test_job
        and (runs_after_failure(job.condition) or job.demands_success())
        and job.decides_by_results()
        and job.reads_result_of(results)
    }


def guarded_jobs(workflow: Any, test_job: str, replaced: Sequence[str]) -> list[str]:
    """Return the other jobs that replaced jobs need; none that waits for an aggregation job."""
    gates = {*replaced, *find_aggregations(workflow, test_job)}
    later = {test_job, *gates, *(name for gate in gates for name in dependents_of(workflow, gate))}
    needs = dict.fromkeys(need for name in replaced for need in needs_of(workflow["jobs"][name]))
    return [name for name in needs if name not in later]


def find_judging_jobs(workflow: Any) -> tuple[str, ...]:
    """Return the jobs that are red after the loss of a test: reports, then readers of a report.

    Every other job of the run, the planning job and each shard among them, may be green then.
    """
    jobs = read_jobs(workflow)
    reports = _jobs_of("report", jobs)
    readers = (name for job in reports for name in find_aggregations(workflow, job))
    running = (name for name in readers if runs_after_failure(jobs[name].condition))
    return tuple(dict.fromkeys((*reports, *running)))


def _jobs_of(name: str, jobs: Mapping[str, JobTexts]) -> list[str]:
    """Return the ids of jobs that run ciguard's action or command `name`.

    The actions are those of one repository, with one that runs or reads tests among them.
    """
    used = {action for job in jobs.values() for action in job.actions}
    running = {repository for repository, last in used if last in ("run", "audit")}
    judging = {repository for repository, last in used if last in ("plan", "audit", "report")}
    actions = {(repository, name) for repository in running & judging}
    return [
        job_id
        for job_id, job in jobs.items()
        if job.actions & actions or name in _COMMAND.findall(job.text)
    ]


def skipped_jobs(jobs: Mapping[str, JobTexts], failed: str) -> set[str]:
    """Return the jobs that a failure of `failed` skips: those that need it, and so on."""
    without_success = {failed}
    for _ in jobs:  # each round finds one at least, or nothing more
        without_success |= {
            name
            for name, job in jobs.items()
            if job.needs & without_success and not runs_after_failure(job.condition)
        }
    return without_success - {failed}


def read_jobs(workflow: Any) -> dict[str, JobTexts]:
    """Return the jobs of a workflow file by id; none of a value that is no workflow."""
    return {str(name): _job(value) for name, value in jobs_of(workflow).items()}


def _job(value: Any) -> JobTexts:
    steps = [step for _, step in steps_of(value)]
    paths = [_text(get(step, "uses")).partition("@")[0].rpartition("/") for step in steps]
    texts = [get(step, key) for step in steps for key in ("if", "env", "run", "with")]
    condition = _text(get(value, "if"))
    steps_text = _ECHO.sub("", _text(texts).replace("\\\n", " "))
    return JobTexts(
        needs=frozenset(_text(get(value, "needs")).split()),
        condition=condition,
        text=_text([condition, get(value, "env"), steps_text]),
        steps_text=steps_text,
        has_only_verdicts=bool(steps) and all(map(_is_verdict, steps)),
        names_needs="needs" in _text([condition, get(value, "env"), texts]),
        actions=frozenset((repository, last) for repository, _, last in paths),
    )


def _is_verdict(step: Mapping[str, Any]) -> bool:
    """Return whether a step only prints or exits, or reads the results of the needed jobs."""
    if "run" not in step:
        return _text(step.get("uses")).startswith("/".join(ALLS_GREEN) + "@")
    return all(words[0] in _VERDICT_PROGRAMS for words in split_commands(_text(step["run"])))


def _text(value: Any) -> str:
    """Join the texts in a value, one a line."""
    if isinstance(value, Mapping):
        return _text(list(value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)
