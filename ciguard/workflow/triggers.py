"""Whether a push to the default branch starts a workflow: its runs alone become the history. Pure.

Source: GitHub's documentation of `on.push.<branches|tags|branches-ignore>`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any


def runs_on_push(workflow: Any, branch: str) -> bool:
    """Say whether a push to the branch starts the workflow, or another one that calls it.

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
    """Say whether the last pattern that fits the branch takes it: `!` takes it out again."""
    is_matched = False
    for pattern in map(str, patterns if isinstance(patterns, list) else [patterns]):
        if fnmatchcase(branch, pattern.removeprefix("!")):
            is_matched = not pattern.startswith("!")
    return is_matched
