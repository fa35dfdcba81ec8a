"""Deletion of results: of a repository, of runs before a time, or of an earlier verdict of a run.

Files never change: files with such rows are rewritten without them, and the sweep deletes the
replaced files. Of runs before a time, the stored answers are deleted too. Their rows of the
database are small and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from sqlalchemy.engine import Connection

from ciguard.serve.object_cache import DamagedObject, ObjectCache
from ciguard.serve.objects import ObjectStore
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import Compactor, first_fitting
from ciguard.serve.results.manifest import FilesReplaced, ManifestFile
from ciguard.serve.results.rows import RunResults
from ciguard.serve.results.writer import ResultsWriter, check_age
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import Database, read_clock_ms
from ciguard.serve.state.run_key import is_run

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
        batches = list(
            _batches([file for file in files if (file.pair or file.name) not in damaged])
        )
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
        old -= manifest.all_names(connection)
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
