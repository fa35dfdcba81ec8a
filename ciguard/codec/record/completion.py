"""What a leg saw of results whose program measured nothing itself: times and memory. Pure.

A leg looks every 40 ms, and hears of several results at once where they are shorter: those share
the time since what it had heard before, so that a process's times add up to its life.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from ciguard.model import CaseKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import EventLine, PeakLine, ProcessLine, Record, Result, StartLine

    _Timed = ProcessLine | StartLine | Result | EventLine

RECEIVED: Final = "received"  # the kind of event

_CaseInProcess = tuple[int | None, CaseKey]  # a case in a process


def fill_times(record: Record) -> Record:
    """Fill `at_s` and `wall_s` of results that have neither; nothing measured is changed."""
    received = [one for one in record.events if one.kind == RECEIVED and one.at_s is not None]
    if not received:
        return record
    times = _times(record, received)
    return replace(record, results=tuple(_with_times(result, times) for result in record.results))


def _case_in_process(event: EventLine) -> _CaseInProcess:
    unit = event.unit or ""
    return event.process, CaseKey(event.suite, event.variant, unit, event.detail or unit)


def _times(
    record: Record, received: Sequence[EventLine]
) -> Mapping[_CaseInProcess, deque[tuple[float, float]]]:
    """For each case the moments when it was heard of, and what each had taken; in order."""
    moments = _process_times(record, received)
    together: dict[tuple[int | None, float], set[_CaseInProcess]] = defaultdict(set)
    for event in received:
        together[event.process, event.at_s or 0.0].add(_case_in_process(event))
    times: dict[_CaseInProcess, deque[tuple[float, float]]] = defaultdict(deque)
    for event in received:
        at_s = event.at_s or 0.0
        known = moments[event.process]
        place = bisect_left(known, at_s)
        before_s = known[place - 1] if place else 0.0
        share_s = (at_s - before_s) / len(together[event.process, at_s])
        times[_case_in_process(event)].append((at_s, round(share_s, 6)))
    return times


def _process_times(
    record: Record, received: Sequence[EventLine]
) -> Mapping[int | None, list[float]]:
    """By process, when something is known to have begun or ended in it; ascending."""
    found: dict[int | None, set[float]] = defaultdict(set)
    lines: Iterable[_Timed] = chain(record.processes, record.starts, record.results, received)
    for line in lines:
        if line.at_s is not None:
            found[line.process].add(line.at_s)
    return {process: sorted(moments) for process, moments in found.items()}


def _with_times(
    result: Result, times: Mapping[_CaseInProcess, deque[tuple[float, float]]]
) -> Result:
    if result.at_s is not None or result.wall_s is not None:
        return result
    waiting = times.get((result.process, result.key))
    if not waiting:
        return result
    at_s, wall_s = waiting.popleft()
    return replace(result, at_s=at_s, wall_s=wall_s)


def fill_peaks(results: Sequence[Result], peaks: Sequence[PeakLine]) -> tuple[Result, ...]:
    """Give each result without memory the next line of its case and process; in order."""
    waiting: dict[tuple[int | None, CaseKey], deque[PeakLine]] = defaultdict(deque)
    for peak in peaks:
        key = CaseKey(peak.suite, peak.variant, peak.unit, peak.case or peak.unit)
        waiting[peak.process, key].append(peak)
    return tuple(_with_peak(result, waiting) for result in results) if peaks else tuple(results)


def _with_peak(
    result: Result, waiting: dict[tuple[int | None, CaseKey], deque[PeakLine]]
) -> Result:
    measured = (result.peak_bytes, result.peak_lower_bytes, result.peak_upper_bytes)
    found = waiting.get((result.process, result.key))
    if not found or result.outcome == "died" or any(size is not None for size in measured):
        return result
    peak = found.popleft()
    return replace(
        result,
        rss_before_bytes=peak.rss_before_bytes,
        peak_lower_bytes=peak.peak_lower_bytes,
        peak_upper_bytes=peak.peak_upper_bytes,
        concurrent=result.concurrent or peak.concurrent,
    )
