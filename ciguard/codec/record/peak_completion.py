"""Memory of results whose program measured none: what the leg saw from outside. Pure."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING

from ciguard.model import CaseKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.model import PeakLine, Result


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
