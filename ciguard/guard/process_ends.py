"""Ends of a leg's processes that no result explains. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from ciguard.guard.verdict import Finding
from ciguard.model import UnitKey
from ciguard.model.attempts import find_bystanders
from ciguard.model.types import AFTER_TESTS_S
from ciguard.render.notes import Note
from ciguard.text import last_line, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ciguard.guard.state import Level
    from ciguard.model import Ending, EventLine, Record

# How a process ends that nobody stopped and that did not say it was done.
ENDED_UNREQUESTED: Final[tuple[Ending, ...]] = ("crash", "out_of_memory", "setup_failed")
NOTICED_S: Final = 0.5  # within which the leg sees that a reaper was killed, and kills its tests


def unexplained(record: Record | None) -> list[EventLine]:
    """The ends that the leg itself could not explain, each once."""
    events = record.events if record is not None else ()
    found = {one.process: one for one in events if one.kind == "unexplained_exit"}
    return list(found.values())


def process_findings(record: Record, shard: str, *, ended_by_itself: bool) -> Iterator[Finding]:
    """Ends that fail the run, or that a person should know of.

    Args:
        ended_by_itself: the leg did; else its own end is what is told.
    """
    red = {one.process: one for one in unexplained(record)}
    untold = dict(red)
    for event in record.events:
        kind = event.reason if event.kind == "after_tests" else event.kind
        if kind not in ("no_exit", "threads_left", "reaper_killed"):
            continue
        why = None if kind == "threads_left" else untold.pop(event.process, None)
        facts = {
            "process": event.process,
            "after_s": event.facts.get("wall_s"),
            "threads": event.detail,
        }
        units = _units_at_end(record, event.process) if kind == "reaper_killed" else ()
        level: Level = "warning" if why is None else "failed"
        yield Finding(kind, shard, facts=facts, culprits=units, stated_level=level)
    for event in untold.values():
        yield Finding("unexplained_exit", shard, facts=_exit_facts(record, event))
    if ended_by_itself:
        killed = {one.process for one in record.events if one.kind == "reaper_killed"}
        yield from _died_between_tests(record, shard, killed | red.keys())
    beside: dict[UnitKey, list[UnitKey]] = defaultdict(list)
    for (_, key), culprit in sorted(find_bystanders(record.results).items()):
        beside[culprit].append(key)
    for culprit, keys in beside.items():
        facts = {"culprit": unit_name(culprit)}
        yield Finding("ran_beside", shard, tuple(keys), facts)


def time_after_tests(record: Record) -> Note | None:
    """How long a leg took to end behind its last test, and why; None for a short time."""
    events = [one for one in record.events if one.kind == "after_tests"]
    if not events:
        return None
    event = max(events, key=lambda one: one.at_s or 0.0)
    after_s = (event.at_s or 0.0) - max((one.at_s or 0.0 for one in record.results), default=0.0)
    if after_s < AFTER_TESTS_S:  # others were still at their tests
        return None
    return Note(event.reason or "", {"after_s": after_s})


def _exit_facts(record: Record, event: EventLine) -> dict[str, Any]:
    """How the process of an event ended, and the last line of the output that the event quotes."""
    codes = {one.process: one.exit_code for one in record.process_ends}
    output = last_line(event.detail.partition("\n")[2])
    return {"process": event.process, "exit_code": codes.get(event.process or 0), "output": output}


def _units_at_end(record: Record, process: int | None) -> tuple[UnitKey, ...]:
    """The units that ran when a process ended, or until just before, the last to begin first.

    The one that killed its parent may have passed since.
    """
    starts = {
        UnitKey(one.suite, one.variant, one.unit): one.at_s or 0.0
        for one in record.starts
        if one.process == process
    }
    results = [one for one in record.results if one.process == process and one.outcome != "died"]
    ends = {one.key.unit_key: one.at_s or 0.0 for one in results}
    last_s = max([*starts.values(), *ends.values()], default=0.0)
    near = (key for key in starts if ends.get(key, last_s) >= last_s - NOTICED_S)
    return tuple(sorted(near, key=lambda key: starts[key], reverse=True))


def _died_between_tests(
    record: Record, shard: str, told: AbstractSet[int | None]
) -> Iterator[Finding]:
    """Processes that died between units: what they left passed in another one, or nothing was left.

    Where nothing was left no failed result of theirs is the reason, so that none excuses them.

    Args:
        told: processes of which another finding tells.
    """
    died = [one for one in record.process_ends if one.ending in ENDED_UNREQUESTED]
    if not died:
        return
    found = any(one.outcome == "died" for one in record.results)  # by the search for a culprit
    outputs = {one.process: one for one in record.events if one.kind == "last_output"}
    given = _units_given(record)
    ran = {(one.process, one.key.unit_key) for one in record.results}
    done = Counter(process for process, _ in ran)
    for end in died:
        left = done[end.process] < given.get(end.process, 0)
        if end.process in outputs.keys() - told and not (left and found):
            facts = {"ending": end.ending, **_exit_facts(record, outputs.pop(end.process))}
            level: Level = "warning" if left else "failed"
            yield Finding("died_between_tests", shard, facts=facts, stated_level=level)


def _units_given(record: Record) -> Mapping[int, float]:
    """How many units each process was to run; one that never came to list them had some."""
    assigned = {
        one.process: one.facts.get("units", 0.0) for one in record.events if one.kind == "assigned"
    }
    return {
        one.process: assigned.get(one.process, 1) if one.reason == "listing" else one.units
        for one in record.processes
    }
