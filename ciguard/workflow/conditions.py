"""Which jobs run: an `if` of a job, as far as the file tells (true, false, or known in a run only),
and whether a push to the default branch starts a workflow. Pure.

Sources: GitHub's documentation of expressions, of status check functions and of `on.push`.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Any, Final

_AFTER_FAILURE: Final = re.compile(
    r"\balways\(\)|!cancelled\(\)|\bsuccess\(\)\|\|failure\(\)|\bfailure\(\)\|\|success\(\)", re.I
)
_ONLY_AFTER_SUCCESS: Final = re.compile(r"!failure\(\)|=='success'", re.I)
_STATUS_BUT_SUCCESS: Final = re.compile(r"\b(always|cancelled|failure)\(\)", re.I)
_EVENT: Final = re.compile(r"github\.event_name(==|!=)'([^']*)'")
# The same in each run of a repository; and a draft is not merged, whatever its checks say.
_SETTLED: Final = re.compile(
    r"(github\.(repository\w*|event\.repository\.[\w.]+)|vars\.\w+)((==|!=)('[^']*'|\w+))?"
    r"|!?github\.event\.pull_request\.draft((==|!=)(true|false))?",
    re.I,
)
_KNOWN: Final = {
    "always()": True,
    "success()": True,
    "true": True,
    "failure()": False,
    "cancelled()": False,
    "false": False,
}


def runs_after_failure(condition: str) -> bool:
    """Return whether a job with this condition runs where one that it needs failed."""
    condition = _bare(condition)
    return bool(_AFTER_FAILURE.search(condition) and not _ONLY_AFTER_SUCCESS.search(condition))


def runs_after_skip(condition: str) -> bool:
    """Return whether a job with this condition runs where one that it needs was skipped."""
    return bool(_STATUS_BUT_SUCCESS.search(_bare(condition)))


def evaluate(condition: str, event: str) -> bool | None:
    """The value in a run of an event in which no job fails; None where only a run can tell.

    What is the same in each run of the repository counts as true: its name, its variables.
    """
    return _value(_bare(condition) or "true", event)


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
    if found := _EVENT.fullmatch(text):
        return (found[2] == event) == (found[1] == "==")
    return _KNOWN.get(text.lower())


def _split(text: str, operator: str) -> list[str]:
    """The parts between an operator that stands outside of brackets and quotes."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for at, char in enumerate(text):
        is_quoted ^= char == "'"
        depth += not is_quoted and (char == "(") - (char == ")")
        if not depth and not is_quoted and text.startswith(operator, at):
            parts.append(text[start:at])
            start = at + len(operator)
    return [*parts, text[start:]]


def _bare(condition: str) -> str:
    """Without the `${{ }}` around it, and without blanks."""
    text = "".join(condition.split())
    return text[3:-2] if text.startswith("${{") and text.find("}}") == len(text) - 2 else text


def runs_on_push(workflow: Any, branch: str) -> bool:
    """Return whether a push to the branch starts the workflow, or another one that calls it.

    Filters of paths do not count: some pushes pass them.
    """
    events = workflow.get("on") if isinstance(workflow, dict) else None
    if not isinstance(events, dict):
        names = events if isinstance(events, list) else [events]
        return "push" in names or "workflow_call" in names
    if "workflow_call" in events:
        return True  # the caller may run on push
    if "push" not in events:
        return False
    filters = events["push"] if isinstance(events["push"], dict) else {}
    if "branches" in filters:
        return _is_matched(branch, filters["branches"])
    if "branches-ignore" in filters:
        return not _is_matched(branch, filters["branches-ignore"])
    return not {"tags", "tags-ignore"}.intersection(filters)


def _is_matched(branch: str, patterns: Any) -> bool:
    """Return whether the last pattern that fits the branch takes it: `!` takes it out again."""
    is_matched = False
    for pattern in map(str, patterns if isinstance(patterns, list) else [patterns]):
        if fnmatchcase(branch, pattern.removeprefix("!")):
            is_matched = not pattern.startswith("!")
    return is_matched
