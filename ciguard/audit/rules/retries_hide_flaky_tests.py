"""Retries of failed tests, and failures that are ignored: both hide a flaky test. Pure.

Only the workflow file is searched: settings of a framework in other files are not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.test_commands import (
    RETRY_ACTIONS,
    action_of,
    split_list,
    step_script,
    test_command,
)
from ciguard.workflow.yaml_values import get, jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.workflow.test_commands import FoundCommand


COUNTED: Final = ("job", "can hide a flaky test")
CAVEATS: Final = {
    "retry_count_is_variable": "a variable or an expression holds the number of retries",
    "continue_on_error_is_expression": "an expression decides whether a failure counts",
}
_SHELL_COMMENT: Final = re.compile(r"(?m)(^|\s)#.*$")
# Keys whose texts the job does not run.
_NAMES: Final = frozenset({"name", "if", "id"})
_ATTEMPTS: Final = ("max_attempts", "attempt_limit")
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RetryOption:
    """An option or variable that sets how often a failed test runs again.

    Attributes:
        pattern: the group `count` is the value, if the option has one; 0 is no retry.
        is_general: other programs have the option too, so only test commands are searched.
    """

    name: str
    pattern: re.Pattern[str]
    is_general: bool = False


_VALUE: Final = r"""['"]?(?P<count>\$\{\{.*?\}\}|[^\s'"]+)"""


def _option(name: str, *, is_general: bool = False) -> RetryOption:
    pattern = rf"(?<![\w-]){re.escape(name)}(?:=|\s+){_VALUE}"
    return RetryOption(name, re.compile(pattern), is_general)


RETRY_OPTIONS: Final = (
    _option("--reruns"),  # pytest-rerunfailures
    RetryOption("--force-flaky", re.compile(r"--force-flaky\b(?P<count>)")),  # flaky
    RetryOption("--rerun-fails", re.compile(r"--rerun-fails(?:=(?P<count>\S+)|(?![\w-]))")),
    RetryOption("--repeat until-pass", re.compile(r"--repeat[ =]until-pass:(?P<count>\S+)")),
    _option("--retry-failed-tests"),  # Microsoft.Testing.Platform
    _option("--flaky_test_attempts"),  # bazel
    RetryOption(
        "rerunFailingTestsCount", re.compile(r"rerunFailingTestsCount=(?P<count>[^\s'\"]+)")
    ),
    RetryOption("jest.retryTimes", re.compile(r"jest\.retryTimes\((?P<count>\w+)")),
    _option("--retries", is_general=True),  # playwright, mocha, nextest, pytest-retry
    _option("--retry", is_general=True),  # vitest
)
# Variables that test frameworks read.
RETRY_VARIABLES: Final = frozenset({"NEXTEST_RETRIES", "BATS_TEST_RETRIES"})
# Commands after `||` that ignore the failure of the test command before.
IGNORED_FAILURE: Final = frozenset({("true",), (":",), ("exit", "0")})


class _Retry(NamedTuple):
    """Attributes:
    pattern: name of the option, action or shape.
    text: of the retry below the path; "" for the key itself.
    caveat: key of the reason; "" for none.
    """

    pattern: str
    path: _Path
    text: str = ""
    caveat: str = ""


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find the jobs in which a failed test may pass, or fail without a red job."""
    del required_checks  # a flaky test is worth knowing in any job
    content = workflow.content
    shared = get(content, "env")
    if retries := [*_find_options(shared, ("env",)), *_find_variables(shared, ("env",))]:
        yield _finding(workflow, workflow.path, retries)
    tests = {(found.job, found.number): found.commands for found in workflow.test_steps()}
    for job_id, job in jobs_of(content).items():
        path: _Path = ("jobs", job_id)
        retries = [*_find_options(job, path), *_find_variables(get(job, "env"), (*path, "env"))]
        for number, step in steps_of(job):
            commands = tests.get((str(job_id), number), ())
            retries += _find_in_step(step, job, commands, (*path, "steps", number))
        if retries:
            yield _finding(workflow, job_title(job_id, job), retries)


def _finding(workflow: WorkflowFile, subject: str, retries: list[_Retry]) -> RuleFinding:
    shown = [retry for retry in retries if not retry.caveat] or retries
    return RuleFinding(
        subject,
        locate(workflow, *((retry.path, retry.text) for retry in shown)),
        {"patterns": sorted({retry.pattern for retry in shown})},
        caveat=shown[0].caveat,
    )


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the options, variables and shapes of the retries, and what replaces the shape `||`."""
    if facts["patterns"] == ["||"]:
        return "a failed test runs again after ||; `retries` of ciguard names it"
    return f"a failed test may pass or count for nothing: {', '.join(facts['patterns'])}"


def _find_options(value: Any, path: _Path) -> Iterator[_Retry]:
    """Yield options that only test programs have, in any text, as in a value of the matrix."""
    for text_path, text in _texts(value, path):
        for option in RETRY_OPTIONS:
            if option.is_general:
                continue
            for match in option.pattern.finditer(_SHELL_COMMENT.sub("", text)):
                yield from _retry(option.name, match["count"], text_path, match[0])


def _retry(name: str, count: object, path: _Path, text: str) -> Iterator[_Retry]:
    """Yield a retry of that count; nothing if the count is 0."""
    number = str(count or "").strip("'\"")
    if not number.isdigit() or int(number):
        caveat = "retry_count_is_variable" if number.startswith(("$", "%")) else ""
        yield _Retry(name, path, text, caveat)


def _find_variables(env: Any, path: _Path) -> Iterator[_Retry]:
    for name, value in env.items() if isinstance(env, dict) else ():
        if name in RETRY_VARIABLES:
            yield from _retry(name, value, (*path, name), "")


def _find_in_step(
    step: dict[str, Any], job: Any, commands: Sequence[FoundCommand], path: _Path
) -> Iterator[_Retry]:
    yield from _find_variables(step.get("env"), (*path, "env"))
    if not commands:
        return
    yield from _find_in_commands(step_script(step), commands, (*path, "run"))
    action = action_of(step)
    if action in RETRY_ACTIONS:
        inputs = step["with"]
        attempts = next((inputs[key] for key in _ATTEMPTS if key in inputs), "")
        if str(attempts) != "1":
            yield _Retry(action, (*path, "uses"))
    tolerance = step.get("continue-on-error")
    if tolerance and not _is_outcome_read(step, job):
        caveat = "" if tolerance is True else "continue_on_error_is_expression"
        yield _Retry("continue-on-error", (*path, "continue-on-error"), caveat=caveat)


def _find_in_commands(
    script: str, commands: Sequence[FoundCommand], path: _Path
) -> Iterator[_Retry]:
    """Yield options of a script's test commands, and the script's retries of a failed command."""
    framework: str | None = None  # of the test command whose result the next operator tests
    words: list[str] = []
    for operators, following in split_list(script):
        # A command that calls a task is known by its words.
        called = (item for item in commands if item.words == " ".join(following))
        command = next(called, None) or test_command(following)
        if framework is not None and operators.startswith("||"):
            if (command and command.framework == framework) or following[:2] == words[:2]:
                yield _Retry("||", path, following[0])
            elif tuple(following) in IGNORED_FAILURE:
                yield _Retry("|| true", path, words[0])
        if framework is not None and operators.startswith("&&") and following == ["break"]:
            yield _Retry("loop", path, "&& break")
        if command:
            framework, words = command.framework, following
            yield from _find_in_command(" ".join(command.arguments), following, path)
        elif operators != "|" and following != ["1"]:  # the scanner cuts `2>&1`
            framework = None


def _find_in_command(text: str, words: list[str], path: _Path) -> Iterator[_Retry]:
    for option in RETRY_OPTIONS:
        if option.is_general and (match := option.pattern.search(text)):
            yield from _retry(option.name, match["count"], path, option.name)
    if words[0] == "retry":
        yield _Retry("retry", path, "retry ")
    if words[0] == "until" or words[:2] == ["while", "!"]:
        yield _Retry("loop", path, words[0])


def _is_outcome_read(step: dict[str, Any], job: Any) -> bool:
    """Return whether another part of the job reads how the step ended."""
    name = step.get("id")
    outcome = re.compile(rf"\bsteps\.{re.escape(str(name))}\.(outcome|outputs)\b")
    texts = _texts(job, (), frozenset())
    return name is not None and any(outcome.search(text) for _, text in texts)


def _texts(
    value: Any, path: _Path, without: frozenset[str] = _NAMES
) -> Iterator[tuple[_Path, str]]:
    """Yield (path, text) of the texts below a value."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in without:
                yield from _texts(item, (*path, str(key)), without)
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _texts(item, (*path, number), without)
    elif isinstance(value, str):
        yield path, value
