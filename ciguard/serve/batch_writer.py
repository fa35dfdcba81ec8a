"""A thread that writes the items of many requests in batches of all waiting items.

A write waits for the disk: all items that arrive during a write share the next one, and so do all
items of a request.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from ciguard.errors import RemoteError

Item = TypeVar("Item")

BATCH: Final = 500  # items of a write; more only of one request
MAX_QUEUED: Final = 10_000  # requests; further requests are refused


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
        self._queue: queue.Queue[Sequence[tuple[Item, Future[None]]] | None]
        self._queue = queue.Queue(MAX_QUEUED)
        self._is_stopping = threading.Event()
        self.write_began_s = math.inf  # monotonic, of the current write; infinite between writes
        self._thread = threading.Thread(target=self._run, name="batch-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the accepted items, and end the thread."""
        self._is_stopping.set()
        self._queue.put(None)
        self._thread.join()

    def submit(self, *items: Item) -> list[Future[None]]:
        """Queue items that share a write; each future is done once its item is durable, or failed.

        Raises:
            WriterOverloaded: no item was accepted.
        """
        entries: list[tuple[Item, Future[None]]] = [(item, Future()) for item in items]
        try:
            if self._is_stopping.is_set():
                raise queue.Full
            self._queue.put_nowait(entries)
        except queue.Full as error:
            raise WriterOverloaded("too many items wait to be written, or it stops") from error
        return [future for _, future in entries]

    def _run(self) -> None:
        is_last, began_s = False, -math.inf
        while not is_last:
            batch: list[tuple[Item, Future[None]]] = []
            entries = self._queue.get()
            self._is_stopping.wait(max(0.0, began_s + self._interval_s - time.monotonic()))
            began_s = time.monotonic()
            while entries is not None:
                # A request that gave up was answered with an error: its items are not written.
                batch += [one for one in entries if one[1].set_running_or_notify_cancel()]
                if len(batch) >= BATCH or self._queue.empty():
                    break
                entries = self._queue.get()
            is_last = entries is None
            self.write_began_s = began_s
            self._write_batch(batch)
            self.write_began_s = math.inf

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
