"""The conditions under which a job runs (`if`), and a push starts a workflow (`on.push`). Pure.

A condition is true, false, or known only in a run. Sources: GitHub's documentation of expressions,
of status check functions and of `on.push`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Final

from ciguard.workflow.yaml_values import triggers_of

_AFTER_FAILURE: Final = re.compile(
    r"\balways\(\)|!cancelled\(\)|\bsuccess\(\)\|\|failure\(\)|\bfailure\(\)\|\|success\(\)", re.I
)
_ONLY_AFTER_SUCCESS: Final = re.compile(r"!failure\(\)|=='success'", re.I)
_STATUS_BUT_SUCCESS: Final = re.compile(r"\b(always|cancelled|failure)\(\)", re.I)
_EVENT: Final = re.compile(r"github\.event_name(==|!=)'([^']*)'")
_LITERALS: Final = re.compile(r"'([^']*)'(==|!=)(?:'([^']*)'|(\d+))")  # a value of the matrix, too
# Terms that count as true: they are the same in each run of a repository; a draft is not merged.
_SETTLED: Final = re.compile(
    r"(github\.(repository\w*|event\.repository\.[\w.]+)|vars\.\w+)((==|!=)('[^']*'|\w+))?"
    r"|!?github\.event\.pull_request\.draft((==|!=)(true|false))?",
    re.I,
)
_COMPARED: Final = re.compile(r"([^=!<>&|]+)(==|!=)([^=!<>&|]+)")
_KNOWN: Final = {
    "always()": True,
    "success()": True,
    "true": True,
    "failure()": False,
    "cancelled()": False,
    "false": False,
}


def runs_after_failure(condition: str) -> bool:
    """Return whether a job with this condition runs after a failure of a job that it needs."""
    condition = bare_condition(condition)
    return bool(_AFTER_FAILURE.search(condition) and not _ONLY_AFTER_SUCCESS.search(condition))


def runs_after_skip(condition: str) -> bool:
    """Return whether a job with this condition runs after a job that it needs was skipped."""
    return bool(_STATUS_BUT_SUCCESS.search(bare_condition(condition)))


def evaluate(condition: str, event: str) -> bool | None:
    """Return the value in a run of `event` in which no job fails; None if known only in a run.

    Terms that are the same in each run of the repository, its name and variables, count as true.
    """
    return _value(bare_condition(condition) or "true", event)


def are_opposite(first: str, second: str) -> bool:
    """Return whether one condition negates the other by its form, without functions of a status."""
    one, other = bare_condition(first).lower(), bare_condition(second).lower()
    is_status = runs_after_skip(first) or "success()" in one
    return bool(one and other) and other == _negated(one) and not is_status


def _negated(text: str) -> str:
    """Negate a bare condition; one with logical operators as a whole."""
    if len(_split(text, "||")) + len(_split(text, "&&")) > 2:  # noqa: PLR2004  # one part of each
        return f"!({text})"
    if match := _COMPARED.fullmatch(text):
        return f"{match[1]}{'!=' if match[2] == '==' else '=='}{match[3]}"
    return text[1:] if text.startswith("!") else f"!{text}"


def _value(text: str, event: str) -> bool | None:
    if len(parts := _split(text, "||")) > 1:
        values = [_value(part, event) for part in parts]
        return True if True in values else None if None in values else False
    if len(parts := _split(text, "&&")) > 1:
        values = [_value(part, event) for part in parts]
        return False if False in values else None if None in values else True
    if text.startswith("(") and text.endswith(")"):
        return _value(text[1:-1], event)
    if _SETTLED.fullmatch(text):
        return True
    if text.startswith("!"):
        value = _value(text[1:], event)
        return None if value is None else not value
    if match := _EVENT.fullmatch(text):
        return (match[2] == event) == (match[1] == "==")
    if match := _LITERALS.fullmatch(text):
        return (match[1].lower() == (match[3] or match[4] or "").lower()) == (match[2] == "==")
    return _KNOWN.get(text.lower())


def _split(text: str, operator: str) -> list[str]:
    """Split a text at an operator outside of brackets and quotes."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for at, char in enumerate(text):
        is_quoted ^= char == "'"
        depth += not is_quoted and (char == "(") - (char == ")")
        if not depth and not is_quoted and text.startswith(operator, at):
            parts.append(text[start:at])
            start = at + len(operator)
    return [*parts, text[start:]]


def bare_condition(condition: str) -> str:
    """Return a condition without the `${{ }}` around it, and without blanks."""
    text = "".join(condition.split())
    return text[3:-2] if text.startswith("${{") and text.find("}}") == len(text) - 2 else text


def runs_on_push(workflow: Any, branch: str) -> bool:
    """Return whether a push to the branch starts the workflow, or may start a caller of it.

    Filters of paths do not count: some pushes pass them.
    """
    triggers = triggers_of(workflow)
    if "workflow_call" in triggers:
        return True  # the caller may run on push
    if "push" not in triggers:
        return False
    filters = triggers["push"] if isinstance(triggers["push"], dict) else {}
    if "branches" in filters:
        return _is_matched(branch, filters["branches"])
    if "branches-ignore" in filters:
        return not _is_matched(branch, filters["branches-ignore"])
    return not {"tags", "tags-ignore"}.intersection(filters)


def _is_matched(branch: str, patterns: Any) -> bool:
    """Return whether the last pattern that fits the branch includes it; `!` excludes it."""
    is_matched = False
    for pattern in map(str, patterns if isinstance(patterns, list) else [patterns]):
        if fnmatchcase(branch, pattern.removeprefix("!")):
            is_matched = not pattern.startswith("!")
    return is_matched
