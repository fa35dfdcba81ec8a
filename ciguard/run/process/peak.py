"""What the different ways to measure one process come to: one peak, and how it was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ciguard.text import size

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import MeasuredBy


class Peak(NamedTuple):
    """Fields of a line; None where nothing was measured."""

    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None


def describe_peak(peak: Peak) -> str:
    """ ", peak 512 MiB (mark)"; "" where nothing is known."""
    if peak.peak_bytes is None:
        return ""
    return f", peak {size(peak.peak_bytes)} ({peak.measured_by})"


def best_peak(measured: Mapping[MeasuredBy, int | None]) -> Peak:
    """The largest that was seen: each way misses something, and none sees too much.

    Args:
        seen: by way, the better way first.
    """
    found: Peak = Peak()
    for method, seen_bytes in measured.items():
        if seen_bytes and seen_bytes > (found.peak_bytes or 0):
            found = Peak(seen_bytes, method)
    return found
