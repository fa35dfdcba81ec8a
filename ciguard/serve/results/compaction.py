"""Replaces sixteen files, or fewer great ones, by one pair of the same rows: few files to read.

Arrivals become a pair, and sixteen pairs of like size a greater one: of n rows there are at most
15 log16(n / 50) pairs, and those that are as great as a pair gets. Every row is written once a
level. The work is throttled: flat out it took the intake's p99 to 7 s.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import CiguardError
from ciguard.serve.object_cache import DamagedObject, ObjectCache
from ciguard.serve.objects import ObjectStore, StorageError
from ciguard.serve.results import manifest
from ciguard.serve.results.duckdb_engine import WRITE_MEMORY, copy_to, fetch, open_engine
from ciguard.serve.results.manifest import FilesReplaced, ManifestFile
from ciguard.serve.results.parquet_columns import (
    OUT_OF_ROWS,
    PAIR,
    PARQUET,
    SUMS_PARQUET,
    select_compacted,
)
from ciguard.serve.results.writer import check_age, put_file
from ciguard.serve.state import lanes
from ciguard.serve.state.database import Database, read_clock_ms
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.results.parquet_columns import Kind

FAN_IN: Final = 16
MOST_ROWS: Final = 1 << 23  # of a pair: 160 MB, written in half a minute
# Of arrivals: sums are made of their rows at each question, 100,000 in a tenth of a second.
MANY_ROWS: Final = 1 << 18
LANE: Final = "results/compaction"
LEASE_S: Final = 600.0  # of the lane: it is not renewed
REST: Final = 3.0  # seconds of rest for each of work
IDLE_S: Final = 1.0
FAILED_S: Final = 10.0
NICENESS: Final = 10
NO_REPOSITORY: Final = -1
NO_RUN: Final = RunKey(NO_REPOSITORY, 0, 0)


def choose_sources(
    files: Iterable[ManifestFile], damaged: Collection[str] = ()
) -> list[ManifestFile]:
    """The files to replace next, of a pair all; none where that would not pay yet.

    Args:
        files: the manifest, the oldest first.
        damaged: names of files that cannot be read.
    """
    groups: dict[str, list[ManifestFile]] = defaultdict(list)
    for one in files:
        groups[one.pair or one.name].append(one)
    tiers: dict[tuple[bool, bool, int], list[list[ManifestFile]]] = defaultdict(list)
    for group in groups.values():
        if not any(one.name in damaged for one in group) and _size(group) <= MOST_ROWS // 2:
            is_pair, has_rows = bool(group[0].pair), any(one.kind == "by_run" for one in group)
            # Arrivals are of one tier, because there is no telling how many runs a second has.
            tier = _size(group).bit_length() // 4 if is_pair else 0
            tiers[is_pair, has_rows, tier].append(group)
    for (is_pair, *_), found in sorted(tiers.items()):
        if len(found) >= FAN_IN or (not is_pair and sum(map(_size, found)) >= MANY_ROWS):
            return _most_that_fit(found)
    return []


def _size(group: Sequence[ManifestFile]) -> int:
    return max(one.rows for one in group)


def _most_that_fit(groups: Sequence[Sequence[ManifestFile]]) -> list[ManifestFile]:
    sources: list[ManifestFile] = []
    rows = 0
    for group in groups[:FAN_IN]:
        rows += _size(group)
        if sources and rows > MOST_ROWS:
            break
        sources.extend(group)
    return sources


class Compactor:
    """Compacts, prunes and drops: everything that makes new files of old ones.

    Threads share it; one at a time rewrites.
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

    def run(self, stop: threading.Event, report: Callable[[CiguardError], None]) -> None:
        """Compact whenever there is enough, until `stop`; in a thread of its own.

        Args:
            report: is told of each failure; the next try follows after a while.
        """
        with suppress(OSError):  # a thread has a niceness of its own on Linux only
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        while not stop.is_set():
            began = time.monotonic()
            try:
                has_compacted = self.compact()
            except CiguardError as error:
                report(error)
                stop.wait(FAILED_S)
            else:
                worked_s = time.monotonic() - began
                stop.wait(REST * worked_s if has_compacted else IDLE_S)

    def compact(self) -> bool:
        """Replace one set of files; False where there is none, or another process is at it.

        Raises:
            StorageError, RemoteError: nothing was changed.
        """
        with self._database.read() as connection:
            sources = choose_sources(manifest.files(connection), self._damaged)
        if not sources:
            return False
        with self._database.write() as connection:
            # A second compactor would do no harm, only work in vain.
            if not lanes.acquire(connection, LANE, self._worker, LEASE_S):
                return False
        try:
            self.rewrite(sources)
        except FilesReplaced:
            return False
        except DamagedObject as error:
            self._damaged.add(error.name)  # the others go on; `check` says what to do
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
            also: is called in the transaction that replaces them.

        Raises:
            DamagedObject: a source is missing or changed.
            FilesReplaced: another process replaced some.
            StorageError: the store cannot be reached, or the disk is full.
        """
        with self._lock:
            with self._database.read() as connection:
                began_ms = read_clock_ms(connection)
            pair = uuid.uuid4().hex
            added: list[ManifestFile] = []
            try:
                with self._cache.open_files(one.stored for one in sources) as paths:
                    values = {
                        "without_repository": without_repository,
                        "run_repository": without_run.repository_id,
                        "run_id": without_run.run_id,
                        "run_attempt": without_run.run_attempt,
                        "from_ms": from_ms,
                    }
                    written = self._write_pair(sources, paths, values)
                    pruned = self._runs_before(sources, paths, from_ms) if from_ms else []
                is_whole = (without_repository, without_run, from_ms) == (NO_REPOSITORY, NO_RUN, 0)
                _check_rows(sources, written, is_filtered=not is_whole)
                for kind, (path, rows) in written.items():
                    added.append(put_file(self._objects, path, kind, pair, rows))
                with self._database.write() as connection:
                    check_age(connection, began_ms)
                    manifest.replace(
                        connection,
                        sources,
                        added,
                        dropped_repository=without_repository if without_repository >= 0 else None,
                        dropped_run=without_run if without_run != NO_RUN else None,
                        pruned=pruned,
                    )
                    also(connection)
            except FilesReplaced:
                self._objects.delete([one.name for one in added])
                raise  # after another error they may be listed: the sweep knows
            finally:
                for path in Path(self._folder.name).glob("*.parquet"):
                    path.unlink()

    def _write_pair(
        self,
        sources: Sequence[ManifestFile],
        paths: Mapping[str, Path],
        values: Mapping[str, Any],
    ) -> dict[Kind, tuple[Path, int]]:
        """By kind, a new file and its rows; none where it would be empty."""
        written: dict[Kind, tuple[Path, int]] = {}
        arrivals = [str(paths[one.name]) for one in sources if one.kind == "arrival"]
        for kind in PAIR:
            pairs = [str(paths[one.name]) for one in sources if one.kind == kind]
            has_rows = "by_run" in written
            if not (arrivals or pairs) or (kind in OUT_OF_ROWS and not has_rows):
                continue
            path = Path(self._folder.name) / f"{kind}.parquet"
            drops_run = values["run_repository"] != NO_REPOSITORY
            dropped = [str(paths[one.name]) for one in sources if one.kind == "by_test"]
            query = select_compacted(
                kind, arrivals=bool(arrivals), pairs=bool(pairs), drops_run=drops_run
            )
            known = {**values, "arrivals": arrivals, "pairs": pairs, "dropped": dropped}
            if has_rows:
                known["rows"] = str(written["by_run"][0])
            bound = {name: value for name, value in known.items() if f"${name}" in query}
            options = SUMS_PARQUET if kind == "by_day" else PARQUET
            rows = copy_to(self._engine, query, bound, path, options)
            if rows:
                written[kind] = path, rows
        return written

    def _runs_before(
        self, sources: Sequence[ManifestFile], paths: Mapping[str, Path], from_ms: int
    ) -> list[RunKey]:
        held = [str(paths[one.name]) for one in sources if one.kind in ("by_run", "arrival")]
        if not held:
            return []
        query = (
            "SELECT DISTINCT repository_id, run_id, run_attempt FROM read_parquet($files)"
            " WHERE at_ms < $from_ms"
        )
        found = fetch(self._engine, query, {"files": held, "from_ms": from_ms})
        return [RunKey(*row) for row in found]


def _check_rows(
    sources: Sequence[ManifestFile],
    written: Mapping[Kind, tuple[Path, int]],
    *,
    is_filtered: bool,
) -> None:
    """Both orders hold the same number of rows, and none is lost."""
    expected = sum(one.rows for one in sources if one.kind in ("arrival", "by_run"))
    by_run, by_test = (written.get(kind, (None, 0))[1] for kind in ("by_run", "by_test"))
    if by_run != by_test or (by_run != expected and not is_filtered):
        what = f"{expected} rows became {by_run} by run and {by_test} by test"
        raise StorageError(what, where=sources[0].name)
