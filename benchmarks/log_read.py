"""Reads text logs; target without a match: >= 200 MB/s, and < 60 MB of memory whatever the size.

    python benchmarks/log_read.py [MB]

A log is 8 MB of made-up lines, again and again; each kind is read in a process of its own, for its
memory.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import time
from itertools import cycle
from typing import Final

from ciguard.logs.log_reader import LogReader

WORDS: Final = [
    "tests/unit/test_cart.py::test_adds",
    "PASSED",
    "[",
    "33%]",
    "Building",
    "CXX",
    "object",
    "src/cart.cc.o",
    "compile",
    "link",
    "Memory",
    "killed",
    "exit",
    "code",
    "0",
    "12.5s",
    "Timeout",
    "after:",
    "512",
    "MiB",
    "used,",
    "17",
    "GiB",
    "free;",
    "error:",
    "none",
]
VALUE: Final = "│ peak_bytes_in_use: 28943843072"
TIME: Final = "2026-01-02T03:04:05.1234567Z "


def lines(kind: str) -> bytes:
    source = random.Random(17)
    made = []
    size = 0
    while size < 8_000_000:
        line = " ".join(source.choices(WORDS, k=source.randint(3, 25)))
        if kind == "a value in 1000 lines" and source.random() < 0.001:
            line = VALUE
        if kind == "colours and times":
            line = f"{TIME}\x1b[32m{line}\x1b[0m"
        made.append(line)
        size += len(line) + 1
    return ("\n".join(made) + "\n").encode()


class Log:
    """A log of a size, read in blocks, that is never in memory."""

    def __init__(self, text: bytes, size: int) -> None:
        self._parts = cycle(
            [memoryview(text)[at : at + 65536] for at in range(0, len(text), 65536)]
        )
        self._left = size

    def read(self, size: int) -> bytes:
        if self._left <= 0:
            return b""
        self._left -= size
        return bytes(next(self._parts))


KINDS: Final = ("no match", "colours and times", "a value in 1000 lines")


def measure(kind: str, megabytes: int) -> None:
    text = lines(kind)
    log = Log(text, megabytes * 1_000_000)
    reader = LogReader()
    began, busy = time.perf_counter(), time.process_time()
    found = reader.read(log)  # type: ignore[arg-type]  # all that is read of a stream
    took, busy = time.perf_counter() - began, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{kind}: {megabytes} MB, {len(found.values)} values: {megabytes / took:.0f} MB/s, "
        f"{megabytes / busy:.0f} a CPU second, {memory:.0f} MiB"
    )


if __name__ == "__main__":
    if len(sys.argv) > 2:  # our own call
        measure(sys.argv[2], int(sys.argv[1]))
    else:
        megabytes = [*sys.argv[1:], "200"][0]
        for kind in KINDS:
            subprocess.run([sys.executable, __file__, megabytes, kind], check=True)
