"""The writer of results: one file for each big run, and one for all small runs of a second.

A file is stored first, and then listed with its runs in one transaction. After a kill between the
two steps, the sweep deletes the unlisted file, and the runs are written again.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy.engine import Connection

from ciguard.serve.batch_writer import BatchWriter
from ciguard.serve.objects import ObjectStore
from ciguard.serve.results import manifest
from ciguard.serve.results.duckdb_engine import WRITE_MEMORY, copy_to, explain_engine, open_engine
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.parquet_columns import (
    ARRIVAL_PARQUET,
    ARRIVAL_ROW_GROUP,
    SELECT_ARRIVAL,
    Kind,
    arrays,
)
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state.database import Database, read_clock_ms
from ciguard.serve.state.run_key import RunKey

BIG_RUN_ROWS: Final = ARRIVAL_ROW_GROUP  # a file of its own
BATCH_S: Final = 1.0  # at most one file of small runs in this time
# The sweep deletes an unlisted file after one hour: a file is not listed near that time, nor after
# a jump of the clock, which the sweep sees too.
LIST_WITHIN_S: Final = 1200.0


class ResultsWriter:
    """Writes runs durably, each once. Threads share it; one thread writes the small runs.

    `scratch` is the folder of the object cache for temporary files.
    """

    def __init__(
        self, database: Database, objects: ObjectStore, scratch: Path, *, batch_s: float = BATCH_S
    ) -> None:
        self._database = database
        self._objects = objects
        self._folder = TemporaryDirectory(dir=scratch)
        self._engine_lock = threading.Lock()
        folder = Path(self._folder.name)
        self._engine = open_engine((folder,), folder / "spill", threads=1, memory=WRITE_MEMORY)
        self._small_runs = BatchWriter(self._write_file, batch_s)

    def write(self, runs: Sequence[RunResults]) -> None:
        """Write the rows of runs durably; skip runs that have rows already.

        Raises:
            StorageFull: the disk is full; no row is written.
            StorageError, RemoteError: the store or the database cannot be reached, or the process
                stops; some runs may be written, and all can be written again.
        """
        small = [run for run in runs if 0 < len(run.rows) < BIG_RUN_ROWS]
        written = self._small_runs.submit(*small) if small else []
        for run in runs:
            if len(run.rows) >= BIG_RUN_ROWS:
                self._write_file([run])
        for future in written:
            future.result()

    def close(self) -> None:
        """Write the waiting runs, and end the thread."""
        self._small_runs.close()
        with self._engine_lock:
            self._engine.close()
        self._folder.cleanup()

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
                rows = copy_to(self._engine, SELECT_ARRIVAL, {}, path, ARRIVAL_PARQUET)
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
