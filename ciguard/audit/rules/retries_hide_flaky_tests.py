"""Retries of failed tests, and failures that count for nothing: a flaky test looks healthy. Pure.

Only what the workflow itself has is found: settings of a framework in other files are not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.audit.rules.base import RuleFinding
from ciguard.audit.rules.retry_patterns import (
    IGNORED_FAILURE,
    RETRY_OPTIONS,
    RETRY_PLUGIN,
    RETRY_VARIABLES,
)
from ciguard.audit.rules.workflow_evidence import job_title, locate
from ciguard.workflow.test_commands import (
    RETRY_ACTIONS,
    action_of,
    find_test_commands,
    split_commands,
    split_list,
    step_script,
    test_command,
)
from ciguard.workflow.yaml_values import jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.audit.rules.base import WorkflowFile

_SHELL_COMMENT: Final = re.compile(r"(?m)(^|\s)#.*$")
# No part of what a job runs.
_NAMES: Final = frozenset({"name", "if", "id"})
_ATTEMPTS: Final = ("max_attempts", "attempt_limit")
_Path = tuple[str | int, ...]


class _Retry(NamedTuple):
    """Attributes:
    pattern: name of the option, action or shape.
    text: where it stands below the path; "" for the key itself.
    doubt: key of the reason; "" for none.
    """

    pattern: str
    path: _Path
    text: str = ""
    doubt: str = ""


def check_workflow(
    workflow: WorkflowFile, required_checks: frozenset[str] | None
) -> Iterator[RuleFinding]:
    """Find the jobs in which a failed test may pass, or fail without a red job."""
    del required_checks  # a flaky test is worth knowing in any job
    content = workflow.content
    shared = content.get("env") if isinstance(content, dict) else None
    if found := [*_find_options(shared, ("env",)), *_find_variables(shared, ("env",))]:
        yield _finding(workflow, workflow.path, found)
    for job_id, job in jobs_of(content).items():
        path: _Path = ("jobs", job_id)
        found = [*_find_options(job, path), *_find_variables(_get(job, "env"), (*path, "env"))]
        for number, step in steps_of(job):
            found += _find_in_step(step, job, (*path, "steps", number))
        if found:
            yield _finding(workflow, job_title(job_id, job), found)


def _finding(workflow: WorkflowFile, subject: str, found: list[_Retry]) -> RuleFinding:
    certain = [retry for retry in found if not retry.doubt]
    shown = certain or found
    return RuleFinding(
        "retries-hide-flaky-tests",
        subject,
        locate(workflow, *((retry.path, retry.text) for retry in shown)),
        {"patterns": sorted({retry.pattern for retry in shown})},
        certainty="certain" if certain else "possible",
        doubt=shown[0].doubt,
    )


def _find_options(value: Any, path: _Path) -> Iterator[_Retry]:
    """Options that no other program has, wherever the job has them: as in a value of its matrix."""
    for place, text in _texts(value, path):
        for option in RETRY_OPTIONS:
            if option.is_general:
                continue
            for match in option.pattern.finditer(_SHELL_COMMENT.sub("", text)):
                yield from _retry(option.name, match["count"], place, match[0])


def _retry(name: str, count: object, path: _Path, text: str) -> Iterator[_Retry]:
    """A retry of that count; none where the count is 0."""
    written = str(count or "").strip("'\"")
    if not written.isdigit() or int(written):
        doubt = "retry_count_is_variable" if written.startswith(("$", "%")) else ""
        yield _Retry(name, path, text, doubt)


def _find_variables(env: Any, path: _Path) -> Iterator[_Retry]:
    for name, value in env.items() if isinstance(env, dict) else ():
        if name in RETRY_VARIABLES:
            yield from _retry(name, value, (*path, name), "")


def _find_in_step(step: dict[str, Any], job: Any, path: _Path) -> Iterator[_Retry]:
    yield from _find_variables(step.get("env"), (*path, "env"))
    script = step_script(step)
    yield from _find_plugins(script, path)
    commands = find_test_commands(script)
    if not commands:
        return
    yield from _find_in_commands(script, path)
    action = action_of(step)
    if action in RETRY_ACTIONS:
        inputs = step["with"]
        attempts = next((inputs[key] for key in _ATTEMPTS if key in inputs), "")
        if str(attempts) != "1":
            yield _Retry(action, (*path, "uses"))
    tolerance = step.get("continue-on-error")
    if tolerance and not _is_outcome_read(step, job):
        doubt = "" if tolerance is True else "continue_on_error_is_expression"
        yield _Retry("continue-on-error", (*path, "continue-on-error"), doubt=doubt)


def _find_in_commands(script: str, path: _Path) -> Iterator[_Retry]:
    """Options of the test commands of a script, and what the script does when they fail."""
    framework: str | None = None  # of the test command whose result the next operator looks at
    words: list[str] = []
    for operators, following in split_list(script):
        command = test_command(following)
        if framework is not None and operators.startswith("||"):
            if command and command.framework == framework:
                yield _Retry("||", path, following[0])
            elif tuple(following) in IGNORED_FAILURE:
                yield _Retry("|| true", path, words[0])
        if framework is not None and operators.startswith("&&") and following == ["break"]:
            yield _Retry("loop", path, "&& break")
        if command:
            framework, words = command.framework, following
            yield from _find_in_command(command.words, following, path)
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


def _find_plugins(script: str, path: _Path) -> Iterator[_Retry]:
    for words in split_commands(script):
        if "install" in words or "add" in words:
            for word in words:
                if match := RETRY_PLUGIN.fullmatch(word):
                    yield _Retry(match[1], path, match[1], doubt="plugin_installed_only")


def _is_outcome_read(step: dict[str, Any], job: Any) -> bool:
    """Say whether another part of the job reads how the step ended."""
    name = step.get("id")
    read = re.compile(rf"\bsteps\.{re.escape(str(name))}\.(outcome|outputs)\b")
    return name is not None and any(read.search(text) for _, text in _texts(job, (), frozenset()))


def _texts(
    value: Any, path: _Path, without: frozenset[str] = _NAMES
) -> Iterator[tuple[_Path, str]]:
    """The texts below a value with their paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in without:
                yield from _texts(item, (*path, str(key)), without)
    elif isinstance(value, list):
        for number, item in enumerate(value, 1):
            yield from _texts(item, (*path, number), without)
    elif isinstance(value, str):
        yield path, value


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
