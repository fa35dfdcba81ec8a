"""Whether a record can be what a leg wrote: its lines against what `ciguard run` does. Pure.

A leg announces each process and says how it ended; it gives no unit to two processes at once, and
executes again only what may be. A record that says otherwise was changed behind the leg, or is two
records; what its results are worth is not known then.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import FILE
from ciguard.guard.diagnosis import is_from_result_files
from ciguard.guard.verdict import Reason
from ciguard.model import BAD_OUTCOMES, UnitKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ciguard.guard.verdict import Kind
    from ciguard.model import ProcessEndLine, ProcessLine, Record, Result

# Events in which a leg says why a unit got no result.
MISSING_EVENTS: Final[tuple[Kind, ...]] = (
    *("not_imported", "deselected", "not_found", "not_reached", "in_files", "not_run", "no_result"),
)
# And in which it says why a process ended with another exit code than 0.
EXPLAINING_EVENTS: Final = frozenset(
    {"recycled", "unexplained_exit", "exit_in_files", *MISSING_EVENTS}
)

LONGER: Final = 2.0  # times the leg's life; and
CLOCK_S: Final = 60.0  # a test may be timed by a clock that is set meanwhile
SHARED: Final = 100  # times the machine's memory: sums count the pages that processes share


@dataclass(frozen=True, slots=True)
class _Step:
    """Where the last step of a leg begins: processes up to this number are those of others.

    What went before may have been lost with its runner at any line.
    """

    process: int = 0
    at_s: float = 0.0


def contradictions(record: Record, tries: int) -> Iterator[Reason]:
    """What a leg that ended by itself cannot have written.

    Args:
        record: of which no file is known to be damaged.
        tries: executions that the plan gives a unit that fails.
    """
    if is_from_result_files(record):
        return
    step = max(
        (
            _Step(event.process or 0, event.at_s or 0.0)
            for event in record.events
            if event.kind == "resumed"
        ),
        key=lambda step: (step.at_s, step.process),
        default=_Step(),
    )
    yield from _processes(record, step)
    yield from _ends(record, step)
    yield from _reexecution(record, step, tries)
    yield from _sizes(record)


def _sizes(record: Record) -> Iterator[Reason]:
    """No test takes longer than its leg lived, or has more memory than its machine; one of each.

    Times in result files are those of other programs.
    """
    lines = (record.starts, record.results, record.samples, record.events, record.process_ends)
    # Steps and attempts before the last one have clocks of their own.
    moments = [line.at_s for found in lines for line in found if line.at_s is not None]
    life_s = max(moments, default=0.0)
    if record.end is not None and record.end.at_s is not None:
        life_s = max(life_s, record.end.at_s)
    filed = {event.process for event in record.events if event.kind == FILE}
    longest = max(
        (one for one in record.results if one.at_s is not None or one.process not in filed),
        key=lambda one: one.wall_s or 0.0,
        default=None,
    )
    if longest is not None and (longest.wall_s or 0.0) > LONGER * life_s + CLOCK_S:
        facts = {"unit": longest.unit, "wall_s": longest.wall_s, "life_s": life_s}
        yield Reason("too_long", facts)
    runner = record.header.runner if record.header is not None else None
    memory_bytes = runner.memory_bytes if runner is not None else None
    if memory_bytes is None:
        return
    largest = max(record.results, key=_largest, default=None)
    used = [(_largest(largest), largest.unit)] if largest is not None else []
    for used_bytes, unit in (*used, (record.peak_bytes or 0, None)):
        if used_bytes > SHARED * memory_bytes:
            facts = {"unit": unit, "used_bytes": used_bytes, "memory_bytes": memory_bytes}
            yield Reason("too_large", facts)
            return


def _largest(result: Result) -> int:
    return max(
        result.rss_before_bytes or 0,
        result.peak_bytes or 0,
        result.peak_delta_bytes or 0,
        result.peak_lower_bytes or 0,
        result.peak_upper_bytes or 0,
        abs(result.retained_bytes or 0),
    )


def _processes(record: Record, step: _Step) -> Iterator[Reason]:
    """Each process is announced once and ends once, and nobody else has lines."""
    started, ended = _by_process(record.processes), _by_process(record.process_ends)
    named = {line.process for line in record.starts} | {line.process for line in record.results}
    own = {one for one in named if one is not None and one > step.process}
    for number in sorted(own | started.keys() | ended.keys()):
        begins, ends = len(started[number]), len(ended[number])
        if max(begins, ends) > 1 or (number > step.process and min(begins, ends) == 0):
            yield Reason("process_lines", {"process": number})


def _by_process(
    lines: Iterable[ProcessLine | ProcessEndLine],
) -> dict[int, list[ProcessLine | ProcessEndLine]]:
    """The lines of each process that differ: what was written twice was said once."""
    found: dict[int, list[ProcessLine | ProcessEndLine]] = defaultdict(list)
    for line in lines:
        if line not in found[line.process]:
            found[line.process].append(line)
    return found


def _ends(record: Record, step: _Step) -> Iterator[Reason]:
    """A process that went wrong has a victim, or a word of the leg on why it has none."""
    failed = [line for line in record.results if line.outcome in BAD_OUTCOMES]
    bad = {line.process for line in failed}
    died = {line.process for line in failed if line.outcome == "died"}
    silent = {event.process for event in record.events if event.kind == "last_output"}
    explained = {event.process for event in record.events if event.kind in EXPLAINING_EVENTS}
    for end in record.process_ends:
        number, code = end.process, end.exit_code or 0
        if number <= step.process:
            if (end.at_s or 0.0) > step.at_s:
                yield Reason("process_lines", {"process": number})
            continue
        is_explained = number in died | silent
        if end.ending == "completed":
            is_explained = code == 0 or (code > 0 and number in bad | explained)
        if not is_explained:
            facts = {"process": number, "ending": end.ending, "exit_code": end.exit_code}
            yield Reason("process_end", facts)


def _reexecution(record: Record, step: _Step, tries: int) -> Iterator[Reason]:
    """A unit gets another process when that before has ended, and one that fails if it may."""
    if len(record.processes) <= 1:
        return
    by_unit: dict[UnitKey, dict[int, bool]] = defaultdict(dict)
    for start in record.starts:
        if start.process is not None:
            by_unit[UnitKey(start.suite, start.variant, start.unit)].setdefault(
                start.process, False
            )
    for result in record.results:
        if result.process is not None:
            failed = by_unit[result.key.unit_key]
            bad = result.outcome in ("failed", "errored")
            failed[result.process] = failed.get(result.process, False) or bad
    started_at = {line.process: line.at_s for line in record.processes}
    over = {line.process: line for line in record.process_ends}
    side_by_side: list[UnitKey] = []
    too_often: list[UnitKey] = []
    for key, failed in by_unit.items():
        numbers = sorted(failed)
        for before, number in pairwise(numbers):
            end, at_s = over.get(before), started_at.get(number)
            if number <= step.process or end is None:
                continue
            if at_s is not None and end.at_s is not None and at_s < end.at_s:
                side_by_side.append(key)
            elif failed[before] and end.ending == "completed" and tries <= 1:
                too_often.append(key)
    kinds: tuple[tuple[Kind, list[UnitKey]], ...] = (
        ("concurrent_units", side_by_side),
        ("too_many_tries", too_often),
    )
    for kind, units in kinds:
        if units:
            yield Reason(kind, {"count": len(set(units)), "unit": min(units).unit})
