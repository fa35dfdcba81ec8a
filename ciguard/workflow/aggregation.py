"""Aggregation jobs of a workflow that stay green when the job that plans fails. Pure.

GitHub then skips the test jobs, and `contains(needs.*.result, 'failure')` is false for a skipped
job. Expressions and scripts are searched, not evaluated: a job counts as safe if it looks for
`skipped`, or for any result but `success`. Sources: GitHub's documentation of
`jobs.<job_id>.needs`, of the `needs` context, which holds direct dependencies only, and of status
check functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_COMMAND: Final = re.compile(r"\bciguard['\"]?\s+(plan|report)\b")
# Of a result, not the status function of that name, and not what a shell assigns: status=success.
_RESULT_WORD: Final = re.compile(
    r"(?<![\w-])(?<!\w=)(?<!\w=['\"])(success|failure|cancelled|skipped)(?![\w-]|\s*\()",
    re.IGNORECASE,
)
_ALWAYS: Final = re.compile(r"\balways\s*\(\s*\)|!\s*cancelled\s*\(\s*\)", re.IGNORECASE)
_ON_CANCELLATION: Final = re.compile(r"\bcancelled\s*\(\s*\)", re.IGNORECASE)
_ON_FAILURE: Final = re.compile(r"\bfailure\s*\(\s*\)", re.IGNORECASE)
_UNLESS_FAILURE: Final = re.compile(r"!\s*failure\s*\(\s*\)", re.IGNORECASE)
_ON_SUCCESS: Final = re.compile(r"\bsuccess\s*\(\s*\)", re.IGNORECASE)
_ALL_NEEDS: Final = re.compile(r"\bneeds\.\*|\btoJSON\(\s*needs\s*\)", re.IGNORECASE)
_NAMED_NEED: Final = re.compile(
    r"\bneeds(?:\.([\w-]+)|\[\s*['\"]([\w-]+)['\"]\s*\])(?:\.result\b|\[\s*['\"]result['\"])",
    re.IGNORECASE,
)
_EQUALS_SUCCESS: Final = re.compile(r"\s*==\s*'success'", re.IGNORECASE)
_NEGATION: Final = re.compile(r"!(?!\s*cancelled\s*\()|==\s*false\b", re.IGNORECASE)
# An input that is all of `needs`; in a larger text, as a message's, it is only shown.
_HANDED_NEEDS: Final = re.compile(r"\$\{\{\s*toJSON\(\s*needs\s*\)\s*\}\}", re.IGNORECASE)
# Parts of a script that neither fail nor decide, unlike an `echo` into a program or an output.
_IDLE: Final = re.compile(r"(?:#|//).*|(?:echo|printf)\b[^|&>]*(?:>&2)?|exit\s+0|true|:|")
_JOB_WORD: Final = re.compile(r"[\w-]+")


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
class _Step:
    """A step as texts.

    Attributes:
        script: what it runs, without its idle parts; "" of one that cannot fail.
        environment: values of its `env`.
        action: the action that it uses: its repository with path, then the last part.
        inputs: values of `with`, other than a script.
        allowed_skips: the input of that name of re-actors/alls-green.
    """

    condition: str
    script: str
    environment: str
    action: tuple[str, str]
    inputs: tuple[str, ...]
    allowed_skips: str

    @property
    def text(self) -> str:
        return "\n".join((self.condition, self.script, self.environment, *self.inputs))


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    needs: frozenset[str]
    condition: str
    environment: str
    steps: tuple[_Step, ...]

    @property
    def text(self) -> str:
        return "\n".join((self.condition, self.environment, *(step.text for step in self.steps)))

    def runs_after_failure(self) -> bool:
        """Say whether it runs where a job that it needs, at whatever distance, failed."""
        if _UNLESS_FAILURE.search(self.condition):
            return False
        return bool(_ALWAYS.search(self.condition) or _ON_FAILURE.search(self.condition))

    def decides_by_itself(self) -> bool:
        """Say whether its own condition alone decides if it runs, whatever its needs ended with.

        `failure()` is true where a job before it failed, at whatever distance: it is not blind.
        """
        condition = self.condition
        if _UNLESS_FAILURE.search(condition) or _ALWAYS.search(condition):
            return self.runs_after_failure()
        decisive = _ON_SUCCESS if _ON_FAILURE.search(condition) else _ON_CANCELLATION
        return bool(decisive.search(condition))

    def runs_command(self, name: str) -> bool:
        """Say whether a line of its scripts runs `ciguard NAME --github`, as `init` writes it."""
        return any(
            name in _COMMAND.findall(line) and "--github" in line
            for step in self.steps
            for line in step.script.replace("\\\n", " ").splitlines()
        )


def find_undetected_skips(workflow: Any, file: str) -> tuple[UndetectedSkip, ...]:
    """Find aggregation jobs that stay green when a job that plans for ciguard fails.

    Args:
        workflow: value of a workflow file, of any shape; what is no workflow has none.
        file: its name, for the findings.

    Returns:
        One finding for each pair of jobs, in the order of the file.
    """
    jobs = _jobs(workflow)
    repositories = _planning_repositories(jobs)
    findings = []
    for planning in jobs:
        if not _runs(jobs[planning], "plan", repositories):
            continue
        skipped = _skipped_jobs(jobs, planning)
        failed = {planning} | {
            name
            for name, job in jobs.items()
            if name not in skipped
            and job.needs & (skipped | {planning})
            and _runs(job, "report", repositories)
        }
        for name, job in jobs.items():
            if name in failed or not job.decides_by_itself() or not job.needs & skipped:
                continue
            if _reads_failure(job, skipped) and not (
                _sees_result(job, job.needs & failed) or _detects_skip(job, skipped)
            ):
                findings.append(
                    UndetectedSkip(
                        file,
                        job.name,
                        jobs[planning].name,
                        is_needed=planning in job.needs,
                        reads_single_results=not _ALL_NEEDS.search(job.text),
                    )
                )
    return tuple(findings)


def _planning_repositories(jobs: Mapping[str, _Job]) -> frozenset[str]:
    """Repositories of actions of which one job uses `plan` and another one `run`."""
    users = [(step.action, name) for name, job in jobs.items() for step in job.steps]
    return frozenset(
        repository
        for (repository, action), name in users
        if action == "plan"
        and any(used == (repository, "run") and user != name for used, user in users)
    )


def _runs(job: _Job, name: str, repositories: frozenset[str]) -> bool:
    """Say whether it runs ciguard's action or command of that name."""
    uses = any(step.action[0] in repositories and step.action[1] == name for step in job.steps)
    return uses or job.runs_command(name)


def _skipped_jobs(jobs: Mapping[str, _Job], failed: str) -> frozenset[str]:
    """The jobs that do not run when `failed` fails: those that need it, and so on."""
    skipped: set[str] = set()
    grows = True
    while grows:
        without_success = skipped | {failed}
        added = {
            name
            for name, job in jobs.items()
            if name not in without_success
            and job.needs & without_success
            and (not job.runs_after_failure() or _requires_success(job.condition, without_success))
        }
        skipped |= added
        grows = bool(added)
    return frozenset(skipped)


def _requires_success(condition: str, names: set[str]) -> bool:
    return any(
        name in names and _EQUALS_SUCCESS.match(condition, end)
        for name, end in _named_results(condition)
    )


def _reads_failure(job: _Job, skipped: frozenset[str]) -> bool:
    """Say whether it decides by results: others, as an upload of coverage, are no aggregation."""
    if not _sees_result(job, job.needs & skipped):
        return False
    words = _result_words("\n".join((job.condition, job.environment)))
    for step in job.steps:
        words |= _result_words(f"{step.condition}\n{step.script}\n{step.environment}")
    return bool(words - {"success"}) or any(step.allowed_skips for step in job.steps)


def _sees_result(job: _Job, names: frozenset[str]) -> bool:
    """Say whether it reads the result of one of these: by name, or of all that it needs."""
    return bool(names) and _mentions(job.text, names)


def _mentions(text: str, names: frozenset[str]) -> bool:
    if _ALL_NEEDS.search(text):
        return True
    return any(name in names for name, _ in _named_results(text))


def _detects_skip(job: _Job, skipped: frozenset[str]) -> bool:
    """Say whether its condition or one of its steps tells a skipped job from a successful one."""
    if _mentions(job.condition, skipped):
        words = _result_words(job.condition) & {"success", "skipped"}
        if len(words) == 1:  # both: skipped is accepted like success
            return True
    return any(_step_detects_skip(step, job, skipped) for step in job.steps)


def _step_detects_skip(step: _Step, job: _Job, skipped: frozenset[str]) -> bool:
    if any(map(_HANDED_NEEDS.fullmatch, step.inputs)):
        allowed = {word.lower() for word in _JOB_WORD.findall(step.allowed_skips)}
        return not (allowed & skipped or _ALL_NEEDS.search(step.allowed_skips))
    text = f"{job.environment}\n{step.text}"
    if not step.script or (re.search(r"\bneeds\b", text) and not _mentions(text, skipped)):
        return False
    of_condition = _result_words(step.condition)
    of_script = _result_words(f"{step.script}\n{step.environment}")
    found = (of_condition | of_script) & {"success", "skipped"}
    if found == {"success"}:
        return "success" in of_script or _NEGATION.search(step.condition) is not None
    return found == {"skipped"}


def _result_words(text: str) -> set[str]:
    return {word.lower() for word in _RESULT_WORD.findall(text)}


def _named_results(text: str) -> Iterator[tuple[str, int]]:
    """Jobs whose result is read by name, and where in the text that ends."""
    for found in _NAMED_NEED.finditer(text):
        yield (found[1] or found[2]).lower(), found.end()


def _jobs(workflow: Any) -> dict[str, _Job]:
    """The jobs by id in lower case: GitHub's ids have no case."""
    found = {}
    for key, value in _mapping(_mapping(workflow).get("jobs")).items():
        job = _mapping(value)
        needs = job.get("needs") or []
        found[str(key).lower()] = _Job(
            name=str(key),
            needs=frozenset(
                str(name).lower() for name in (needs if isinstance(needs, list) else [needs])
            ),
            condition=_text(job.get("if")),
            environment=_text(job.get("env")),
            steps=tuple(_step(_mapping(item)) for item in _list(job.get("steps"))),
        )
    return found


def _step(step: Mapping[str, Any]) -> _Step:
    inputs = dict(_mapping(step.get("with")))
    script = _text(inputs.pop("script", None))  # of actions/github-script
    commands = re.split(r"[;\n]", _text(step.get("run")) or script)
    path = _text(step.get("uses")).strip().partition("@")[0].lower()
    repository, _, action = path.rpartition("/")
    return _Step(
        condition=_text(step.get("if")),
        script="\n".join(part for part in commands if not _IDLE.fullmatch(part.strip())),
        environment=_text(step.get("env")),
        action=(repository, action),
        inputs=tuple(_text(value).strip() for value in inputs.values()),
        allowed_skips=_text(inputs.get("allowed-skips")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    """The texts in a value, a line each."""
    if isinstance(value, Mapping):
        return "\n".join(map(_text, value.values()))
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)
