"""Retries of failed tests, and failures that are ignored: both hide a flaky test. Pure.

Only the workflow file is searched: settings of a framework in other files are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ciguard.audit.rules.base import RuleFinding, WorkflowFile, job_title, locate
from ciguard.workflow.test_commands import (
    RETRY_ACTIONS,
    FoundStep,
    action_of,
    split_list,
    step_script,
    test_command,
)
from ciguard.workflow.yaml_values import get, steps_of

COUNTED: Final = ("job", "can hide a flaky test")
CAVEATS: Final = {
    "retry_count_is_variable": "a variable or an expression holds the number of retries",
    "continue_on_error_is_expression": "an expression decides whether a failure counts",
}
_SHELL_COMMENT: Final = re.compile(r"(?m)(^|\s)#.*$")
_COUNT: Final = r"""(?![\w-])(?:[=:\s]\s*['"]?(?P<count>\$\{\{.*?\}\}|[^\s'"]+))?"""
# Only test programs have these, so they are searched in any text, as in a value of the matrix.
_OPTION: Final = re.compile(
    r"(?<![\w-])(?:-D)?(?P<name>--reruns|--rerun-fails|--retry-failed-tests|rerunFailingTestsCount"
    r"|--repeat[ =]until-pass|(?:NEXTEST|BATS_TEST)_RETRIES)" + _COUNT
)
# Other programs have them, too.
_OPTION_OF_COMMAND: Final = re.compile(r"(?<![\w-])(?P<name>--retries|--retry)" + _COUNT)
# Commands after `||` that ignore the failure of the test command before.
_IGNORED_FAILURE: Final = (["true"], [":"], ["exit", "0"])


class _Retry(NamedTuple):
    """`text` is below the path, "" for the key itself; `caveat` is "" for none."""

    pattern: str
    path: tuple[str | int, ...]
    text: str = ""
    caveat: str = ""


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find the jobs in which a failed test may pass, or fail without a red job."""
    del required_checks  # a flaky test is worth knowing in any job
    if retries := [*_find_options(get(workflow.content, "env"), ("env",))]:
        yield _finding(workflow, workflow.path, retries)
    tests = workflow.test_jobs()
    for name, job in workflow.jobs().items():
        retries = [*_find_options(job, ("jobs", name))]
        for found in tests.get(name, ()):
            retries += _find_in_step(found, job)
        if retries:
            yield _finding(workflow, job_title(name, job), retries)


def _finding(workflow: WorkflowFile, subject: str, retries: list[_Retry]) -> RuleFinding:
    shown = [retry for retry in retries if not retry.caveat] or retries
    return RuleFinding(
        subject,
        locate(workflow, *((retry.path, retry.text) for retry in shown)),
        {"patterns": sorted({retry.pattern for retry in shown})},
        caveat=shown[0].caveat,
    )


def sentence(facts: Mapping[str, Any]) -> str:
    """Name the options, variables and shapes of the retries."""
    return f"a failed test may pass or count for nothing: {', '.join(facts['patterns'])}"


def _find_options(value: Any, path: tuple[str | int, ...]) -> Iterator[_Retry]:
    """Yield the options and variables in the texts below a value."""
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for key, item in items:
            yield from _find_options(item, (*path, key if isinstance(key, int) else str(key)))
    else:
        yield from _match(_OPTION, f"{path[-1]}={value}", path)


def _match(option: re.Pattern[str], text: str, path: tuple[str | int, ...]) -> Iterator[_Retry]:
    """Yield the options in a text but those with 0 retries."""
    for match in option.finditer(_SHELL_COMMENT.sub("", text)):
        count = match["count"] or ""
        caveat = "retry_count_is_variable" if count.startswith(("$", "%")) else ""
        if count != "0":
            yield _Retry(match["name"], path, match[0], caveat)


def _find_in_step(found: FoundStep, job: Any) -> Iterator[_Retry]:
    path = ("jobs", found.job, "steps", found.number)
    step = dict(steps_of(job))[found.number]
    called = {command.words: command.arguments for command in found.commands}
    tests: list[str] = []  # the test command whose result the next operator tests
    for operators, words in split_list(step_script(step)):
        # A command that calls a task is known by its words.
        arguments = called.get(" ".join(words))
        is_test = arguments is not None or test_command(words) is not None
        if tests and operators.startswith("||"):
            if is_test and words[0] == tests[0]:
                yield _Retry("||", (*path, "run"), words[0])
            elif words in _IGNORED_FAILURE:
                yield _Retry("|| true", (*path, "run"), tests[0])
        if is_test:
            tests = words
            text = " ".join(arguments or words)
            yield from _match(_OPTION_OF_COMMAND, text, (*path, "run"))
        elif operators != "|" and words != ["1"]:  # the scanner cuts `2>&1`
            tests = []
    if (action := action_of(step)) in RETRY_ACTIONS:
        yield _Retry(action, (*path, "uses"))
    tolerance = step.get("continue-on-error")
    if tolerance and f"steps.{step.get('id')}.out" not in str(job):  # `outcome`, `outputs`
        caveat = "" if tolerance is True else "continue_on_error_is_expression"
        yield _Retry("continue-on-error", (*path, "continue-on-error"), caveat=caveat)
