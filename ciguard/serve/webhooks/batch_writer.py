"""A thread that writes the items of many requests, all that wait in one transaction.

A commit waits for the disk: all items that arrive during a commit share the next one.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar

from ciguard.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.state.database import Database

Item = TypeVar("Item")

BATCH: Final = 500  # items of a transaction
MAX_QUEUED: Final = 10_000  # items; further items are refused


class WriterOverloaded(RemoteError):
    """The queue is full, or the service stops."""


class BatchWriter(Generic[Item]):
    """A context manager; at its end, all accepted items are written.

    Args:
        apply: writes items in the order of their arrival; it may be called again for an item.
    """

    def __init__(
        self, database: Database, apply: Callable[[Connection, Sequence[Item]], None]
    ) -> None:
        self._database = database
        self._apply = apply
        self._queue: queue.Queue[tuple[Item, Future[None]] | None] = queue.Queue(MAX_QUEUED)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="batch-writer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._queue.put(None)
        self._thread.join()

    def submit(self, item: Item) -> Future[None]:
        """Queue an item; the future is done once the item is durable, or with the error.

        Raises:
            WriterOverloaded: the item was not accepted.
        """
        future: Future[None] = Future()
        try:
            if self._is_stopping:
                raise queue.Full
            self._queue.put_nowait((item, future))
        except queue.Full as error:
            raise WriterOverloaded("too many deliveries wait to be written") from error
        return future

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch: list[tuple[Item, Future[None]]] = []
            entry = self._queue.get()
            while entry is not None:
                # A request that gave up was answered with an error: its item is not written.
                if entry[1].set_running_or_notify_cancel():
                    batch.append(entry)
                if len(batch) == BATCH or self._queue.empty():
                    break
                entry = self._queue.get()
            is_last = entry is None
            self._write(batch)

    def _write(self, batch: Sequence[tuple[Item, Future[None]]]) -> None:
        if not batch:
            return None
        try:
            with self._database.write() as connection:
                self._apply(connection, [item for item, _ in batch])
        except RemoteError as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - the futures raise it
            if len(batch) == 1:
                return _fail(batch, error)
            # Write each item alone, so that only the item with the error fails.
            for entry in batch:
                self._write([entry])
        else:
            for _, future in batch:
                future.set_result(None)
        return None


def _fail(batch: Sequence[tuple[object, Future[None]]], error: Exception) -> None:
    for _, future in batch:
        future.set_exception(error)
