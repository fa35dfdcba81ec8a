"""A thread that writes the items of many requests, all that wait at once.

A write waits for the disk: all items that arrive during a write share the next one.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from ciguard.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")

BATCH: Final = 500  # items of a write
MAX_QUEUED: Final = 10_000  # items; further items are refused


class WriterOverloaded(RemoteError):
    """The queue is full, or the process stops."""

    is_lasting = False


class BatchWriter(Generic[Item]):
    """Writes items in one thread; `close` waits until all accepted items are written.

    Args:
        write: writes items in the order of their arrival; it may be called again for an item.
        interval_s: between the starts of two writes, at least.
    """

    def __init__(self, write: Callable[[Sequence[Item]], None], interval_s: float = 0.0) -> None:
        self._write = write
        self._interval_s = interval_s
        self._queue: queue.Queue[tuple[Item, Future[None]] | None] = queue.Queue(MAX_QUEUED)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="batch-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the accepted items, and end the thread."""
        self._is_stopping.set()
        self._queue.put(None)
        self._thread.join()

    def submit(self, item: Item) -> Future[None]:
        """Queue an item; the future is done once the item is durable, or with the error.

        Raises:
            WriterOverloaded: the item was not accepted.
        """
        future: Future[None] = Future()
        try:
            if self._is_stopping.is_set():
                raise queue.Full
            self._queue.put_nowait((item, future))
        except queue.Full as error:
            raise WriterOverloaded("too many items wait to be written, or it stops") from error
        return future

    def _run(self) -> None:
        is_last, began_s = False, -math.inf
        while not is_last:
            batch: list[tuple[Item, Future[None]]] = []
            entry = self._queue.get()
            self._is_stopping.wait(max(0.0, began_s + self._interval_s - time.monotonic()))
            began_s = time.monotonic()
            while entry is not None:
                # A request that gave up was answered with an error: its item is not written.
                if entry[1].set_running_or_notify_cancel():
                    batch.append(entry)
                if len(batch) == BATCH or self._queue.empty():
                    break
                entry = self._queue.get()
            is_last = entry is None
            self._write_batch(batch)

    def _write_batch(self, batch: Sequence[tuple[Item, Future[None]]]) -> None:
        if not batch:
            return None
        try:
            self._write([item for item, _ in batch])
        except RemoteError as error:
            _fail(batch, error)
        except BaseException as error:  # noqa: BLE001 - the futures raise it
            if len(batch) == 1:
                return _fail(batch, error)
            # Write each item alone, so that only the item with the error fails.
            for entry in batch:
                self._write_batch([entry])
        else:
            for _, future in batch:
                future.set_result(None)
        return None


def _fail(batch: Sequence[tuple[object, Future[None]]], error: BaseException) -> None:
    for _, future in batch:
        future.set_exception(error)
