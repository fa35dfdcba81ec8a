"""The writer of results: one file for each big run, and one for all small runs of a second.

A file is stored first, and then listed with its runs in one transaction. After a kill between the
two steps, the sweep deletes the unlisted file, and the runs are written again.
"""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from ciguard.errors import RemoteError
from ciguard.serve.results import manifest
from ciguard.serve.results.duckdb_engine import WRITE_MEMORY, copy_to, explain_engine, open_engine
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.parquet_columns import (
    ARRIVAL_PARQUET,
    ARRIVAL_ROW_GROUP,
    arrays,
    select_arrival,
)
from ciguard.serve.state.database import Database, read_clock_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.results.parquet_columns import Kind
    from ciguard.serve.results.rows import RunResults
    from ciguard.serve.state.run_key import RunKey

BIG_RUN_ROWS: Final = ARRIVAL_ROW_GROUP  # a file of its own
BATCH_S: Final = 1.0  # at most one file of small runs in this time
# The sweep deletes an unlisted file after one hour: a file is not listed near that time, nor after
# a jump of the clock, which the sweep sees too.
LIST_WITHIN_S: Final = 1200.0


class WriterClosed(RemoteError):
    """The process stops; the next process writes the runs."""

    is_lasting = False


@dataclass(slots=True)
class _Batch:
    runs: dict[RunKey, RunResults] = field(default_factory=dict)
    written: Future[None] = field(default_factory=Future)


class ResultsWriter:
    """Writes runs durably, each once. Threads share it; one thread writes the small runs.

    `scratch` is the folder of the object cache for temporary files.
    """

    def __init__(
        self, database: Database, objects: ObjectStore, scratch: Path, *, batch_s: float = BATCH_S
    ) -> None:
        self._database = database
        self._objects = objects
        self._batch_s = batch_s
        self._folder = TemporaryDirectory(dir=scratch)
        self._engine_lock = threading.Lock()
        folder = Path(self._folder.name)
        self._engine = open_engine((folder,), folder / "spill", threads=1, memory=WRITE_MEMORY)
        self._wake = threading.Condition()
        self._batch = _Batch()
        self._is_closed = False
        self._thread = threading.Thread(target=self._write_batches, name="results", daemon=True)
        self._thread.start()

    def write(self, runs: Sequence[RunResults]) -> None:
        """Write the rows of runs durably; skip runs that have rows already.

        Raises:
            StorageFull: the disk is full; no row is written.
            StorageError, RemoteError: the store or the database cannot be reached, or the process
                stops; some runs may be written, and all can be written again.
        """
        nonempty = {run.key: run for run in runs if run.rows}
        big = [run for run in nonempty.values() if len(run.rows) >= BIG_RUN_ROWS]
        small = {key: run for key, run in nonempty.items() if len(run.rows) < BIG_RUN_ROWS}
        written = self._add_to_batch(small) if small else None
        for run in big:
            self._write_file([run])
        if written is not None:
            written.result()

    def close(self) -> None:
        """Write the waiting runs, and end the thread."""
        with self._wake:
            self._is_closed = True
            self._wake.notify_all()
        self._thread.join()
        with self._engine_lock:
            self._engine.close()
        self._folder.cleanup()

    def _add_to_batch(self, runs: dict[RunKey, RunResults]) -> Future[None]:
        with self._wake:
            if self._is_closed:
                raise WriterClosed("the writer of results has stopped", where="results")
            self._batch.runs.update(runs)
            self._wake.notify_all()
            return self._batch.written

    def _write_batches(self) -> None:
        last = -self._batch_s
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._batch.runs or self._is_closed)
                wait_s = last + self._batch_s - time.monotonic()
                self._wake.wait_for(lambda: self._is_closed, timeout=max(0.0, wait_s))
                batch, self._batch = self._batch, _Batch()
                is_last = self._is_closed
            last = time.monotonic()
            try:
                self._write_file(list(batch.runs.values()))
            except BaseException as error:  # noqa: BLE001  # `write` raises it
                batch.written.set_exception(error)
            else:
                batch.written.set_result(None)
            if is_last:
                return

    def _write_file(self, runs: Sequence[RunResults]) -> None:
        remaining = {run.key: run for run in runs}
        while True:
            with self._database.read() as connection:
                for key in manifest.written_runs(connection, remaining):
                    del remaining[key]
                began_ms = read_clock_ms(connection)
            if not remaining:
                return
            added = self.put(list(remaining.values()))
            if self._list(added, remaining, began_ms):
                return
            self._objects.delete([added.name])

    def put(self, runs: Sequence[RunResults]) -> ManifestFile:
        """Store the rows of runs as a file, without listing it.

        Raises:
            StorageError: the store cannot be reached, or the disk is full.
        """
        path = Path(self._folder.name) / f"{uuid.uuid4().hex}.parquet"
        try:
            with self._engine_lock:
                with explain_engine():
                    self._engine.register("incoming", arrays(runs))
                rows = copy_to(self._engine, select_arrival(), {}, path, ARRIVAL_PARQUET)
                self._engine.unregister("incoming")
            return put_file(self._objects, path, "arrival", "", rows)
        finally:
            path.unlink(missing_ok=True)

    def _list(self, added: ManifestFile, runs: dict[RunKey, RunResults], began_ms: int) -> bool:
        """List the file; return False if another process has written one of its runs."""
        with self._database.write() as connection:
            manifest.lock(connection)
            if manifest.written_runs(connection, runs):
                return False
            check_age(connection, began_ms)
            manifest.add_arrival(connection, added, runs.values())
            return True


def put_file(objects: ObjectStore, path: Path, kind: Kind, pair: str, rows: int) -> ManifestFile:
    """Store a new file under a unique name."""
    unique = pair or uuid.uuid4().hex
    name = f"results/{kind}/{unique[:2]}/{unique}.parquet"
    with path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    objects.put_new(name, path)
    return ManifestFile(name, kind, pair, rows, path.stat().st_size, sha256)


def check_age(connection: Connection, began_ms: int) -> None:
    """Raise FilesReplaced for a file that the sweep may be about to delete.

    Args:
        began_ms: time before the file was stored, by the database's clock, which the sweep uses.
    """
    age_s = abs(read_clock_ms(connection) - began_ms) / 1000
    if age_s > LIST_WITHIN_S:
        what = f"listing a file took {age_s:.0f} s, or the clock has jumped"
        raise manifest.FilesReplaced(what, where="results")
