"""Settings that kept planned tests from running: dry runs, focus and filters of a process. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Iterable, Mapping

from ciguard.model.plan import Suite
from ciguard.model.record import EventLine

# By the reason of an `execution` event; the same words in the leg and in the guard.
WORDS: Final[Mapping[str, str]] = {
    "not_executed": "tests were listed, not executed",
    "focus": "only focused tests ran",
    "filter": "a filter that the plan does not have left tests out",
}


def unplanned_settings(
    events: Iterable[EventLine], suites: Mapping[str, Suite]
) -> dict[str, list[str]]:
    """Return the settings that kept planned tests from running, by reason, each once, sorted.

    A filter that the framework reported for the plan is part of the plan. For a plan without this
    report no filter counts, because a new one cannot be distinguished.
    """
    details: dict[str, set[str]] = defaultdict(set)
    for event in events:
        reason = event.reason or ""
        if event.kind != "execution" or reason not in WORDS:
            continue
        known = suites[event.suite].filters if event.suite in suites else None
        if reason == "filter" and (known is None or event.detail in known):
            continue
        details[reason].add(event.detail)
    return {reason: sorted(details[reason]) for reason in WORDS if reason in details}
