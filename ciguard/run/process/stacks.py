"""Where the processes of a tree stand, those that can answer, before they are ended.

The other side is `inside/ciguard_stacks.py`: a file NAME-PID says that its process answers the
signal, which would end any other. Linux only; elsewhere there are no such files.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Final, Iterator

BYTES: Final = 16384  # of one process: some thousand frames
DUMP_SIGNAL: Final[int] = int(getattr(signal, "SIGRTMAX", 7)) - 7


def dumpable_pids(path: str) -> set[int]:
    """The processes that write their stacks to `path`-PID when they are sent `ASKED`."""
    return {pid for pid, _ in _files(path)}


def read_dumps(path: str) -> tuple[str, ...]:
    """What each process wrote, the thread first that ran; empty where nobody answered."""
    found = []
    for _, name in sorted(_files(path)):
        with contextlib.suppress(OSError), open(name, "rb") as stream:
            found.append(_ordered(stream.read(BYTES).decode("utf-8", "replace").strip()))
    return tuple(filter(None, found))


def _ordered(text: str) -> str:
    threads = text.split("\n\n")
    return "\n\n".join(sorted(threads, key=lambda thread: not thread.startswith("Current")))


def _files(path: str) -> Iterator[tuple[int, str]]:
    folder, name = os.path.split(path)
    try:
        there = os.listdir(folder)
    except OSError:  # a test has removed it
        return
    for other in there:
        pid = other[len(name) + 1 :]
        if other.startswith(f"{name}-") and pid.isdigit():
            yield int(pid), os.path.join(folder, other)
