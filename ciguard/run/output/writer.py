"""Bytes for whoever reads a leg's log, from a thread of their own, in order.

A reader that stalls (Ctrl-S, a pipe into a program that waits) holds up only itself: what a
test prints beyond `ROOM_BYTES` ahead of it waits in the process's log. One that has gone stops
nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, Union

if TYPE_CHECKING:
    from typing import Deque, Optional, Protocol, Tuple

    from ciguard.run.process.tail import Log

    class Stream(Protocol):
        """What bytes go to."""

        def write(self, content: memoryview) -> Optional[int]:
            """Write some of them: how many; None where it would have to wait."""


Kind = Literal["raw", "line", "log"]

PIECE_BYTES: Final = 1 << 16  # what a pipe takes at once: then somebody has read
MAX_BACKLOG_BYTES: Final = 1 << 20
RETRY_S: Final = 0.02


class BackgroundWriter:
    """One stream, and what is still to go there.

    A `line` begins on a line of its own, a `log` is passed on to its end, and closed.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._items: Deque[Tuple[Kind, Union[bytes, Log]]] = deque()
        self._changed = threading.Condition()
        self._waiting_bytes = 0
        self._pieces_taken = 0  # pieces
        self._closed = self._reader_closed = False
        self._in_line = False  # what was printed last has no line feed at its end
        self._thread: Optional[threading.Thread] = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: then the leg waits for its reader
            self._thread = None

    @property
    def has_room(self) -> bool:
        """Whether the reader is not far behind."""
        return self._waiting_bytes < MAX_BACKLOG_BYTES

    def put(self, kind: Kind, content: Union[bytes, Log]) -> None:
        """Pass it on after all that was put before; a log belongs to us from now on."""
        if self._thread is None:
            self._pass_on(kind, content)
            return
        with self._changed:
            self._items.append((kind, content))
            self._waiting_bytes += len(content) if isinstance(content, bytes) else 0
            self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Wait until all is passed on, or nothing was read for so long."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            taken, since_s = self._pieces_taken, time.monotonic()
            while self._items and self._thread is not None:
                self._changed.wait(RETRY_S)
                if taken != self._pieces_taken:
                    taken, since_s = self._pieces_taken, time.monotonic()
                elif time.monotonic() - since_s > timeout_s:
                    break
            left = [content for _, content in self._items if not isinstance(content, bytes)]
        for log in left:
            log.shorten()  # it travels with the record

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items:
                    if self._closed:
                        return
                    self._changed.wait()
                kind, content = self._items[0]
            self._pass_on(kind, content)
            with self._changed:
                self._items.popleft()
                self._waiting_bytes -= len(content) if isinstance(content, bytes) else 0
                self._changed.notify_all()

    def _pass_on(self, kind: Kind, content: Union[bytes, Log]) -> None:
        if not isinstance(content, bytes):
            for piece in content.chunks():
                if self._reader_closed:
                    break
                self._print(piece)
            content.close()
        else:
            self._print(b"\n" * (kind == "line" and self._in_line) + content)

    def _print(self, content: bytes) -> None:
        self._in_line = not content.endswith(b"\n")
        self._write(content)

    def _write(self, content: bytes) -> None:
        left = memoryview(content)
        while left and not self._reader_closed:
            try:
                taken = self._stream.write(left[:PIECE_BYTES])
            except OSError:
                self._reader_closed = True
                return
            if taken is None:  # somebody made it a pipe that does not wait
                time.sleep(RETRY_S)
                continue
            self._pieces_taken += 1
            left = left[taken:]
