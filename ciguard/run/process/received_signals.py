"""Signals that end a leg (SIGINT, SIGTERM): received between two rounds of the supervisor.

`wakeup` and `wait` are those of POSIX systems; Windows has its own. `TestedProcess.stop` sends the
signals that end a tested process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import contextmanager
from typing import Any, Final, Iterator, Mapping, Sequence

from ciguard.errors import ExitCode
from ciguard.run.platforms.base import Platform, TestedProcess

EXIT_CODE_BY_SIGNAL: Final[Mapping[signal.Signals, ExitCode]] = {
    signal.SIGINT: ExitCode.INTERRUPTED,
    signal.SIGTERM: ExitCode.TERMINATED,
}


class ReceivedSignals:
    """Received signals, in order; a platform's `wait` on `wakeup` ends when a new one arrives.

    Attributes:
        exit_code: exit code for the first signal; None before it.
        hurry: a second signal arrived.
    """

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.wakeup = -1
        self._new: list[signal.Signals] = []
        self.exit_code: ExitCode | None = None
        self.hurry = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Receive signals, in the main thread; restore the previous handlers at the end."""
        with self._platform.wakeup() as self.wakeup:
            numbers = self._platform.EXIT_CODE_BY_SIGNAL
            before = {number: signal.signal(number, self._receive) for number in numbers}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _receive(self, number: int, _: object) -> None:
        self._new.append(signal.Signals(number))

    def drain(self) -> Iterator[signal.Signals]:
        """Yield the signals that arrived since the last call."""
        while self._new:
            number = self._new.pop(0)
            self.hurry = self.exit_code is not None
            self.exit_code = self.exit_code or self._platform.EXIT_CODE_BY_SIGNAL[number]
            yield number


@contextmanager
def wakeup() -> Iterator[int]:
    """Provide the end of a pipe that the interpreter writes to when a signal arrives."""
    if sys.platform == "win32":  # for mypy
        raise NotImplementedError
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


def wait(wakeup: int, processes: Sequence[TestedProcess], timeout_s: float) -> bool:
    """Wait for a signal or for a report of a reaper; return False after the timeout."""
    sources: list[Any] = [wakeup, *processes]
    ready = select.select(sources, [], [], timeout_s)[0]
    if wakeup in ready:
        os.read(wakeup, 4096)
    return bool(ready)
