"""Rewriting of result files: compaction, and deletion of the rows of a repository or of runs.

Sixteen arrivals become a pair, and sixteen pairs of similar size a larger pair: n rows are in at
most 15 log16(n / 50) pairs, besides pairs of maximum size. Every row is written once a level. The
work is throttled: at full speed, it raised the p99 of webhooks to 7 s. Files never change: files
with rows to delete are rewritten without them, and the sweep deletes the replaced files.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from sqlalchemy.engine import Connection

from ciguard.serve.object_cache import DamagedObject, ObjectCache
from ciguard.serve.objects import ObjectStore, StorageError
from ciguard.serve.results import manifest, parquet_columns
from ciguard.serve.results.duckdb_engine import WRITE_MEMORY, copy_to, fetch, open_engine
from ciguard.serve.results.manifest import NO_REPOSITORY, NO_RUN, FilesReplaced, ManifestFile
from ciguard.serve.results.parquet_columns import Kind
from ciguard.serve.results.rows import RunResults
from ciguard.serve.results.writer import ResultsWriter, check_age, put_file
from ciguard.serve.state import lanes, run_rows, schema
from ciguard.serve.state.database import Database, read_clock_ms
from ciguard.serve.state.run_key import RunKey, is_run

FAN_IN: Final = 16
MAX_ROWS: Final = 1 << 23  # of a pair: 160 MB, written in half a minute
# Rows of arrivals that are compacted in any case: each question sums them, 100,000 rows in 0.1 s.
MANY_ROWS: Final = 1 << 18
LANE: Final = "results/compaction"
LEASE_S: Final = 600.0  # of the lane, without renewal
REST: Final = 3.0  # seconds of rest for each of work
IDLE_S: Final = 1.0
FAILED_S: Final = 10.0
NICENESS: Final = 10


def choose_sources(
    files: Iterable[ManifestFile], damaged: Collection[str] = ()
) -> list[ManifestFile]:
    """Choose the files to replace next, of a pair all; none if too few are in any tier.

    Args:
        files: the manifest, the oldest first.
        damaged: names of files that cannot be read.
    """
    groups: dict[str, list[ManifestFile]] = defaultdict(list)
    for file in files:
        groups[file.pair or file.name].append(file)
    tiers: dict[tuple[bool, bool, int], list[list[ManifestFile]]] = defaultdict(list)
    for group in groups.values():
        if not any(file.name in damaged for file in group) and _rows(group) <= MAX_ROWS // 2:
            is_pair, has_rows = bool(group[0].pair), any(file.kind == "by_run" for file in group)
            # All arrivals are in one tier, because the number of runs in a second varies.
            tier = _rows(group).bit_length() // 4 if is_pair else 0
            tiers[is_pair, has_rows, tier].append(group)
    for (is_pair, *_), members in sorted(tiers.items()):
        if len(members) >= FAN_IN or (not is_pair and sum(map(_rows, members)) >= MANY_ROWS):
            return first_fitting(members)
    return []


def _rows(group: Sequence[ManifestFile]) -> int:
    return max(file.rows for file in group)


def first_fitting(groups: Sequence[Sequence[ManifestFile]]) -> list[ManifestFile]:
    """Return the files of the first groups that fit into a pair."""
    sources: list[ManifestFile] = []
    rows = 0
    for group in groups[:FAN_IN]:
        rows += _rows(group)
        if sources and rows > MAX_ROWS:
            break
        sources.extend(group)
    return sources


class Compactor:
    """Rewrites result files: for compaction, pruning, and deletion of a repository or run.

    Threads share it; one thread at a time rewrites.
    """

    def __init__(self, database: Database, objects: ObjectStore, cache: ObjectCache) -> None:
        self._database = database
        self._objects = objects
        self._cache = cache
        self._worker = uuid.uuid4().hex
        self._damaged: set[str] = set()
        self._lock = threading.Lock()  # of the engine, and of the names of new files
        self._folder = TemporaryDirectory(dir=cache.scratch)
        folder = Path(self._folder.name)
        folders = (folder, *cache.folders)
        self._engine = open_engine(folders, folder / "spill", threads=1, memory=WRITE_MEMORY)

    def close(self) -> None:
        """Close the engine and delete its files."""
        self._engine.close()
        self._folder.cleanup()

    def run(self, stop: threading.Event) -> None:
        """Compact whenever enough files exist, until `stop`; call it in a separate thread.

        Raises:
            StorageError, RemoteError: as `compact`; call it again after FAILED_S.
        """
        with suppress(OSError):  # only Linux has a niceness for each thread
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while not stop.is_set():
            began = time.monotonic()
            has_compacted = self.compact()
            stop.wait(REST * (time.monotonic() - began) if has_compacted else IDLE_S)

    def compact(self) -> bool:
        """Replace one set of files; return False without one, or if another process compacts.

        Raises:
            StorageError, RemoteError: nothing was changed.
        """
        with self._database.read() as connection:
            sources = choose_sources(manifest.files(connection), self._damaged)
        if not sources:
            return False
        with self._database.write() as connection:
            # A second compactor would do no harm, but its work would be discarded.
            if not lanes.acquire(connection, LANE, self._worker, LEASE_S):
                return False
        try:
            self.rewrite(sources)
        except FilesReplaced:
            return False
        except DamagedObject as error:
            self._damaged.add(error.name)  # left out from now on; `check` reports it
            return False
        finally:
            with self._database.write() as connection:
                lanes.release(connection, LANE, self._worker)
        return True

    def rewrite(
        self,
        sources: Sequence[ManifestFile],
        *,
        without_repository: int = NO_REPOSITORY,
        without_run: RunKey = NO_RUN,
        from_ms: int = 0,
        also: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        """Replace files by one pair, without the rows of a repository, a run, or before a time.

        Args:
            also: called in the transaction that replaces the files.

        Raises:
            DamagedObject: a source is missing or changed.
            FilesReplaced: another process has replaced a source.
            StorageError: the store cannot be reached, or the disk is full.
        """
        with self._lock:
            with self._database.read() as connection:
                began_ms = read_clock_ms(connection)
            pair = uuid.uuid4().hex
            added: list[ManifestFile] = []
            try:
                with self._cache.open_files(file.stored for file in sources) as paths:
                    values = {
                        "without_repository": without_repository,
                        "run_repository": without_run.repository_id,
                        "run_id": without_run.run_id,
                        "run_attempt": without_run.run_attempt,
                        "from_ms": from_ms,
                    }
                    written = self._write_pair(sources, paths, values)
                    pruned = self._runs_before(sources, paths, from_ms) if from_ms else []
                is_all = (without_repository, without_run, from_ms) == (NO_REPOSITORY, NO_RUN, 0)
                _check_rows(sources, written, is_filtered=not is_all)
                for kind, (path, rows) in written.items():
                    added.append(put_file(self._objects, path, kind, pair, rows))
                with self._database.write() as connection:
                    check_age(connection, began_ms)
                    manifest.replace(
                        connection,
                        sources,
                        added,
                        dropped_repository=without_repository,
                        dropped_run=without_run,
                        pruned=pruned,
                    )
                    also(connection)
            except FilesReplaced:
                self._objects.delete([file.name for file in added])
                raise  # after another error, the files may be listed: the sweep decides
            finally:
                for path in Path(self._folder.name).glob("*.parquet"):
                    path.unlink()

    def _write_pair(
        self, sources: Sequence[ManifestFile], paths: Mapping[str, Path], values: Mapping[str, Any]
    ) -> dict[Kind, tuple[Path, int]]:
        """Write the files of a new pair; return path and rows by kind, without empty files."""
        written: dict[Kind, tuple[Path, int]] = {}
        arrivals = [str(paths[file.name]) for file in sources if file.kind == "arrival"]
        for kind in parquet_columns.PAIR:
            pairs = [str(paths[file.name]) for file in sources if file.kind == kind]
            has_rows = "by_run" in written
            if not (arrivals or pairs) or (kind in parquet_columns.OUT_OF_ROWS and not has_rows):
                continue
            path = Path(self._folder.name) / f"{kind}.parquet"
            drops_run = values["run_repository"] != NO_REPOSITORY
            dropped = [str(paths[file.name]) for file in sources if file.kind == "by_test"]
            query = parquet_columns.select_compacted(
                kind, arrivals=bool(arrivals), pairs=bool(pairs), drops_run=drops_run
            )
            parameters = {**values, "arrivals": arrivals, "pairs": pairs, "dropped": dropped}
            if has_rows:
                parameters["rows"] = str(written["by_run"][0])
            options = parquet_columns.SUMS_PARQUET if kind == "by_day" else parquet_columns.PARQUET
            rows = copy_to(self._engine, query, parameters, path, options)
            if rows:
                written[kind] = path, rows
        return written

    def _runs_before(
        self, sources: Sequence[ManifestFile], paths: Mapping[str, Path], from_ms: int
    ) -> list[RunKey]:
        """Return the runs in these files that started before a time."""
        files = [str(paths[file.name]) for file in sources if file.kind in ("by_run", "arrival")]
        if not files:
            return []
        query = (
            "SELECT DISTINCT repository_id, run_id, run_attempt FROM read_parquet($files)"
            " WHERE at_ms < $from_ms"
        )
        rows = fetch(self._engine, query, {"files": files, "from_ms": from_ms})
        return [RunKey(*row) for row in rows]


def _check_rows(
    sources: Sequence[ManifestFile], written: Mapping[Kind, tuple[Path, int]], *, is_filtered: bool
) -> None:
    """Raise StorageError unless both orders have the same number of rows, and no row is lost."""
    expected = sum(file.rows for file in sources if file.kind in ("arrival", "by_run"))
    by_run, by_test = (written.get(kind, (None, 0))[1] for kind in ("by_run", "by_test"))
    if by_run != by_test or (by_run != expected and not is_filtered):
        what = f"{expected} rows became {by_run} by run and {by_test} by test"
        raise StorageError(what, where=sources[0].name)


ANSWERS: Final = 500  # deleted in one transaction
MIN_AGE_S: Final = 3600.0  # a writer lists a new file within a third of this time


def drop_repository(
    database: Database, compactor: Compactor, repository_id: int
) -> tuple[ManifestFile, ...]:
    """Leave no row, message or sum of a repository; the sweep deletes the replaced files.

    Returns:
        Damaged files that hold rows of other repositories too: `repair.remove_damaged` removes
        them.

    Raises:
        StorageError, RemoteError: some files are rewritten; another call does the rest.
    """
    damaged: dict[str, ManifestFile] = {}  # by pair, or name
    while True:
        with database.write() as connection:
            manifest.remove_repository(connection, repository_id)
        with database.read() as connection:
            has_own = manifest.holds(schema.file_run.c.repository_id == repository_id)
            files = manifest.files(connection, None, has_own)
        intact = [file for file in files if (file.pair or file.name) not in damaged]
        batches = list(_batches(intact))
        if not batches:
            return tuple(damaged.values())
        for sources in batches:
            try:
                compactor.rewrite(sources, without_repository=repository_id)
            except FilesReplaced:  # by a compaction: the next round reads the manifest again
                continue
            except DamagedObject as error:
                file = next(file for file in sources if file.name == error.name)
                damaged[file.pair or file.name] = file


def prune(database: Database, compactor: Compactor, before_ms: int) -> None:
    """Delete the rows of runs that started before a time; their sums by test and day stay.

    Raises:
        DamagedObject: a file cannot be read; `repair.remove_damaged` removes it.
        StorageError, RemoteError: some files are rewritten; another call does the rest.
    """
    with database.read() as connection:
        files = manifest.files_with_old_runs(connection, before_ms)
    for sources in _batches(files):
        with suppress(FilesReplaced):  # by a compaction: they are pruned next time
            compactor.rewrite(sources, from_ms=before_ms)


def prune_answers(database: Database, objects: ObjectStore, before_ms: int) -> None:
    """Delete the answers of runs that started before a time; the rows of these runs stay.

    Raises:
        StorageError, RemoteError: some answers are deleted; another call does the rest.
    """
    with database.read() as connection:
        old = run_rows.answers(connection, before_ms=before_ms)
    while old:
        batch, old = old[:ANSWERS], old[ANSWERS:]
        # Objects before rows: after a kill between the two, the rows still name the objects.
        objects.delete([name for _, name in batch])
        with database.write() as connection:
            run_rows.clear_answers(connection, batch)


def _batches(files: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Yield the files of each pair, then arrivals in groups as large as compaction takes."""
    pairs: dict[str, list[ManifestFile]] = defaultdict(list)
    arrivals: list[ManifestFile] = []
    for file in files:
        (pairs[file.pair] if file.pair else arrivals).append(file)
    yield from pairs.values()
    while arrivals:
        batch = first_fitting([[file] for file in arrivals])
        yield batch
        arrivals = arrivals[len(batch) :]


def sweep(database: Database, objects: ObjectStore, cache: ObjectCache, now_s: float) -> int:
    """Delete objects under results/ that are unlisted and older than an hour; count them.

    Args:
        now_s: seconds since 1970, by the database's clock, as `writer.check_age` has it.
    """
    # Objects are listed before the manifest is read: a file that was added in between is new.
    old = {
        stored.name for stored in objects.list("results/") if now_s - stored.modified_at > MIN_AGE_S
    }
    with database.read() as connection:
        old -= {file.name for file in manifest.files(connection)}
    objects.delete(sorted(old))
    cache.forget(old)
    return len(old)


def replace_other_rows(
    database: Database,
    compactor: Compactor,
    writer: ResultsWriter,
    run: RunResults,
    confirm: Callable[[Connection], None],
) -> None:
    """Replace the rows of a run by these; a run without rows, or with pruned rows, is left alone.

    The new file is listed in the transaction that lists the rewritten files: a reader sees each row
    of one verdict once.

    Args:
        confirm: called in the transaction; an exception from it leaves the rows unchanged.

    Raises:
        DamagedObject: a file with the other rows cannot be read; `repair.remove_damaged` removes
            it.
        StorageError, RemoteError: the store or the database cannot be reached.
    """

    def add(connection: Connection) -> None:
        confirm(connection)
        check_age(connection, began_ms)
        manifest.add_arrival(connection, added, [run])

    while True:
        with database.read() as connection:
            if not (run.rows and manifest.has_other_rows(connection, run.key, run.digest)):
                return
            has_rows = manifest.holds(is_run(schema.file_run, run.key))
            sources = manifest.files(connection, None, has_rows)
            began_ms = read_clock_ms(connection)
        added = writer.put([run])
        with suppress(FilesReplaced):  # by a compaction: try again
            compactor.rewrite(sources, without_run=run.key, also=add)
            return
