"""The machine a leg found itself on: processors, model, and how fast it is just now."""

from __future__ import annotations

import os
import time

PROBE_ROUNDS = 3  # the fastest counts: the others were disturbed
PROBE_BYTES = 1 << 19


def cpus() -> int | None:
    """Processors that we may use: fewer than there are in a container or under taskset."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def cpu_model() -> str | None:
    """As /proc/cpuinfo names it; None elsewhere, and on arm64, which has no name there."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return None


def probe_s() -> float | None:
    """Time of a fixed piece of CPU work, < 0.1 s in all: compares runners, not Pythons.

    Compression of the same bytes, as C code that hardly differs between Python versions; None
    where Python was built without it.
    """
    try:
        import zlib  # noqa: PLC0415  # optional in a build of Python
    except ImportError:
        return None
    content = bytes((index * index >> 5) & 0xFF for index in range(4096)) * (PROBE_BYTES >> 12)
    best_s = float("inf")
    for _ in range(PROBE_ROUNDS):
        start_s = time.perf_counter()
        zlib.compress(content, 6)
        best_s = min(best_s, time.perf_counter() - start_s)
    return round(best_s, 6)
