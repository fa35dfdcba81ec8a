"""The last lines of a record that was cut: what ran, and what memory did. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.model import UnitKey
from ciguard.run.policy.rules import memory_thresholds
from ciguard.text import duration, size

if TYPE_CHECKING:
    from ciguard.model import Record

LOW_HEADROOM_RATIO: Final = 0.5  # a machine that is always short of memory did not die of that


def in_flight_units(record: Record) -> tuple[UnitKey, ...]:
    """The units that had begun and have no result, by their start: one of them may be to blame.

    A unit with several cases is open until its process ends or the next one of it begins.
    """
    ended_processes = {line.process for line in record.process_ends}
    reported = {
        (line.process or 0, UnitKey(line.suite, line.variant, line.unit)) for line in record.results
    }
    last: dict[UnitKey, tuple[int, float]] = {}
    for line in record.starts:
        key = UnitKey(line.suite, line.variant, line.unit)
        last[key] = (line.process or 0, line.at_s or 0.0)
    found = [
        (at_s, key)
        for key, (process, at_s) in last.items()
        if process not in ended_processes and (process, key) not in reported
    ]
    return tuple(key for _, key in sorted(found))


def memory_trend(record: Record) -> str:
    """How little memory was left when the record ends, and that it had been more; "" if not so.

    The machine's headroom fell below what the leg itself calls low, and to less than half of the
    most that was seen.
    """
    seen = [
        (line.at_s, left)
        for line in record.samples
        if (left := line.available_bytes if line.headroom_bytes is None else line.headroom_bytes)
        is not None
    ]
    if not seen:
        return ""
    memory = record.header.runner.memory_bytes if record.header is not None else None
    at_s, left = max(seen)
    most = max(seen, key=lambda pair: pair[1])
    if left >= memory_thresholds(memory or 0)[0] or left >= LOW_HEADROOM_RATIO * most[1]:
        return ""
    of = f" of {size(memory)}" if memory else ""
    return (
        f"free memory fell from {size(most[1])} at {duration(most[0])} to {size(left)}{of} "
        f"at {duration(at_s)}, its last sample"
    )


def last_events(record: Record) -> tuple[str, ...]:
    """Its last events of memory and signals, at most three, the newest last."""
    kinds = ("memory_low", "memory_not_reclaimable", "memory_guard", "signal")
    events = [line for line in record.events if line.kind in kinds]
    events.sort(key=lambda line: line.at_s or 0.0)
    return tuple(
        f"{line.kind.replace('_', ' ')} at {duration(line.at_s)}: {line.detail}"
        for line in events[-3:]
    )
