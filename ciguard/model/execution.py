"""Whether test bodies ran as planned: dry runs, focus and filters that processes report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Iterable, Mapping

if TYPE_CHECKING:
    from ciguard.model.plan import Suite
    from ciguard.model.record import EventLine

# By the reason of an `execution` event; the leg and the guard word them alike.
WORDS: Final[Mapping[str, str]] = {
    "not_executed": "tests were listed, not executed",
    "focus": "only focused tests ran",
    "filter": "a filter that the plan does not have left tests out",
}


def unplanned_settings(
    events: Iterable[EventLine], suites: Mapping[str, Suite]
) -> dict[str, list[str]]:
    """Return the settings that kept planned tests from running, by reason, each once, sorted.

    A filter that the framework named when the plan was made is part of the plan. A plan that was
    made without asking the framework knows no filters, so that none can be told from a new one.
    """
    found: dict[str, list[str]] = {}
    for event in events:
        reason = event.reason or ""
        if event.kind != "execution" or reason not in WORDS:
            continue
        known = suites[event.suite].filters if event.suite in suites else None
        if reason == "filter" and (known is None or event.detail in known):
            continue
        if event.detail not in found.setdefault(reason, []):
            found[reason].append(event.detail)
    return {reason: sorted(found[reason]) for reason in WORDS if reason in found}
