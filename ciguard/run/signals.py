"""SIGINT and SIGTERM of a leg: they end a sleep at once, and are taken in between two rounds."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator

from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from typing import List

EXIT_OF = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Signals:
    """What arrived, in order; `wakeup` is readable while there is something new.

    `exit_code` is that of the first one; a second one means hurry.
    """

    def __init__(self) -> None:
        self.wakeup = -1
        self._new: List[signal.Signals] = []
        self.exit_code: ExitCode | None = None
        self.hurry = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """From the main thread; the handlers that were there come back afterwards."""
        self.wakeup, write_end = os.pipe()
        for end in (self.wakeup, write_end):
            os.set_blocking(end, False)
        before = {number: signal.signal(number, self._arrived) for number in EXIT_OF}
        descriptor = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(descriptor)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self.wakeup)
            os.close(write_end)

    def _arrived(self, number: int, _: object) -> None:
        self._new.append(signal.Signals(number))

    def take(self) -> Iterator[signal.Signals]:
        """Those that are new, each once."""
        while self._new:
            number = self._new.pop(0)
            self.hurry = self.exit_code is not None
            self.exit_code = self.exit_code or EXIT_OF[number]
            yield number
