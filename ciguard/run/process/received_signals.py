"""The signals that end a leg, SIGINT and its like: taken in between two rounds, soon."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, List

if TYPE_CHECKING:
    from ciguard.errors import ExitCode
    from ciguard.run.platforms.base import Platform


class ReceivedSignals:
    """What arrived, in order; a platform's `wait` on `wakeup` ends when there is something new.

    `exit_code` is that of the first one; a second one means hurry.
    """

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.wakeup = -1
        self._new: List[signal.Signals] = []
        self.exit_code: ExitCode | None = None
        self.hurry = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """From the main thread; the handlers that were there come back afterwards."""
        with self._platform.wakeup() as self.wakeup:
            numbers = self._platform.EXIT_CODE_BY_SIGNAL
            before = {number: signal.signal(number, self._arrived) for number in numbers}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _arrived(self, number: int, _: object) -> None:
        self._new.append(signal.Signals(number))

    def drain(self) -> Iterator[signal.Signals]:
        """Those that are new, each once."""
        while self._new:
            number = self._new.pop(0)
            self.hurry = self.exit_code is not None
            self.exit_code = self.exit_code or self._platform.EXIT_CODE_BY_SIGNAL[number]
            yield number
