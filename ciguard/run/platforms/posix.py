"""What Linux and macOS share: a keeper before each process, pipes that `select` waits for."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Iterator, Mapping, Sequence

from ciguard.errors import ExitCode

assert sys.platform != "win32"

if TYPE_CHECKING:
    from typing import Any, List

    from ciguard.run.platforms.base import Tested

EXIT_OF: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


@contextmanager
def wakeup() -> Iterator[int]:
    """The end of a pipe that the interpreter writes to when a signal arrives."""
    read_end, write_end = os.pipe()
    for end in (read_end, write_end):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield read_end
    finally:
        signal.set_wakeup_fd(before)
        os.close(read_end)
        os.close(write_end)


def wait(wakeup: int, processes: Sequence[Tested], timeout_s: float) -> bool:
    """Until a signal arrives or a keeper says something."""
    sources: List[Any] = [wakeup, *processes]
    ready = select.select(sources, [], [], timeout_s)[0]
    if wakeup in ready:
        os.read(wakeup, 4096)
    return bool(ready)
