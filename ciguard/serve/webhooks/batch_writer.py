"""A thread that writes what many requests bring, as many as wait in one transaction.

A commit waits for the disk: 200 a second are one commit for all that came meanwhile, not 200.
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
MAX_WAITING: Final = 10_000  # items; whoever comes after them is refused


class WriterOverloaded(RemoteError):
    """More waits to be written than can be in time, or the service stops."""


class BatchWriter(Generic[Item]):
    """Use it as a context manager; at its end all that was accepted is written.

    Args:
        apply: writes items, in the order in which they came. It must bear being done again.
    """

    def __init__(
        self, database: Database, apply: Callable[[Connection, Sequence[Item]], None]
    ) -> None:
        self._database = database
        self._apply = apply
        self._waiting: queue.Queue[tuple[Item, Future[None]] | None] = queue.Queue(MAX_WAITING)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="batch-writer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping = True
        self._waiting.put(None)
        self._thread.join()

    def submit(self, item: Item) -> Future[None]:
        """Have it written; the future ends once it is durable, or with why it is not.

        Raises:
            WriterOverloaded: it will not be written.
        """
        future: Future[None] = Future()
        try:
            if self._is_stopping:
                raise queue.Full
            self._waiting.put_nowait((item, future))
        except queue.Full as error:
            raise WriterOverloaded("too many deliveries wait to be written") from error
        return future

    def _run(self) -> None:
        is_last = False
        while not is_last:
            batch: list[tuple[Item, Future[None]]] = []
            one = self._waiting.get()
            while one is not None:
                # Whoever was not willing to wait is told nothing, so that nothing is written.
                if one[1].set_running_or_notify_cancel():
                    batch.append(one)
                if len(batch) == BATCH or self._waiting.empty():
                    break
                one = self._waiting.get()
            is_last = one is None
            self._write(batch)

    def _write(self, batch: Sequence[tuple[Item, Future[None]]]) -> None:
        if not batch:
            return None
        try:
            with self._database.write() as connection:
                self._apply(connection, [item for item, _ in batch])
        except RemoteError as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - whoever waits for the future raises it
            if len(batch) == 1:
                return _fail(batch, error)
            # One that cannot be written is no reason to refuse the others.
            for one in batch:
                self._write([one])
        else:
            for _, future in batch:
                future.set_result(None)
        return None


def _fail(batch: Sequence[tuple[object, Future[None]]], error: Exception) -> None:
    for _, future in batch:
        future.set_exception(error)
