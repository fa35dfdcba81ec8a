"""Settings of a tested process that kept planned tests from running, such as filters. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, Iterable, Mapping

from ciguard.model.plan import Suite
from ciguard.model.record import EventLine

# By the reason of an `execution` event; the run and the verdict use the same words.
WORDS: Final[Mapping[str, str]] = {
    "not_executed": "tests were listed, not executed",
    "focus": "only focused tests ran",
    "filter": "a filter that is not in the plan left tests out",
}


def unplanned_settings(
    events: Iterable[EventLine], suites: Mapping[str, Suite]
) -> dict[str, list[str]]:
    """Return the settings that kept planned tests from running, by reason, each once, sorted.

    Filters that the framework reported for the plan are part of the plan. If the plan has no such
    report, filters are ignored, because a new filter cannot be recognised.
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
