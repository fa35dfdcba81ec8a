"""What the different ways to measure one process come to: one peak, one bound, how each was had."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ciguard.run.progress import size

if TYPE_CHECKING:
    from typing import Mapping

    from ciguard.model import MeasuredBy


class Peak(NamedTuple):
    """Fields of a line; None where nothing was measured."""

    peak_bytes: int | None = None
    measured_by: MeasuredBy | None = None
    peak_upper_bytes: int | None = None
    bounds_measured_by: MeasuredBy | None = None


def in_words(peak: Peak) -> str:
    """ ", peak 512 MiB (mark), at most 600 MiB (cgroup)"; "" where nothing is known."""
    said = ""
    if peak.peak_bytes is not None:
        said = f", peak {size(peak.peak_bytes)} ({peak.measured_by})"
    upper_bytes = peak.peak_upper_bytes
    if upper_bytes is not None and size(upper_bytes) != size(peak.peak_bytes or 0):
        said += f", at most {size(upper_bytes)} ({peak.bounds_measured_by})"
    return said


def peak_of(seen: Mapping[MeasuredBy, int | None], cgroup_bytes: int | None) -> Peak:
    """The largest that was seen: each way misses something, and none sees too much.

    Args:
        seen: by way, the better way first.
        cgroup_bytes: what the kernel counted for the whole tree, page cache included.
    """
    found: Peak = Peak()
    for way, seen_bytes in seen.items():
        if seen_bytes and seen_bytes > (found.peak_bytes or 0):
            found = Peak(seen_bytes, way)
    if not cgroup_bytes:
        return found
    # Pages of a file that others had read before are resident here and counted there.
    upper = max(cgroup_bytes, found.peak_bytes or 0)
    return found._replace(peak_upper_bytes=upper, bounds_measured_by="cgroup")
