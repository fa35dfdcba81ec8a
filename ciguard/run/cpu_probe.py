"""How fast the machine is that a leg found itself on, just now."""

from __future__ import annotations

import time

PROBE_ROUNDS = 3  # the fastest counts: the others were disturbed
PROBE_BYTES = 1 << 19


def cpu_benchmark_s() -> float | None:
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
