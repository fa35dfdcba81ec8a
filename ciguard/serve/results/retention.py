"""Takes rows out of the results: those of a repository, or those of runs before a time.

Of runs before a time the answers go too; their rows of the database stay, which are small.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ciguard.serve.object_cache import DamagedObject
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import FAN_IN, MOST_ROWS
from ciguard.serve.results.manifest import FilesReplaced
from ciguard.serve.results.parquet_columns import KINDS
from ciguard.serve.state import run_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.results.compaction import Compactor
    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.state.database import Database

ANSWERS: Final = 500  # deleted at once


def drop_repository(
    database: Database, compactor: Compactor, repository_id: int
) -> tuple[ManifestFile, ...]:
    """Leave no row, message or sum of a repository; the sweep deletes the old files.

    Returns:
        Damaged files, which hold rows of other repositories too: `verify.forget` takes them out.

    Raises:
        StorageError, RemoteError: some files are done; call it again.
    """
    damaged: dict[str, ManifestFile] = {}  # by pair, or name
    while True:
        with database.write() as connection:
            manifest.remove_repository(connection, repository_id)
        with database.read() as connection:
            files = manifest.files_of_repository(connection, repository_id, KINDS)
        batches = list(_batches([one for one in files if (one.pair or one.name) not in damaged]))
        if not batches:
            return tuple(damaged.values())
        for sources in batches:
            try:
                compactor.rewrite(sources, without_repository=repository_id)
            except FilesReplaced:  # by a compaction: look again
                continue
            except DamagedObject as error:
                found = next(one for one in sources if one.name == error.name)
                damaged[found.pair or found.name] = found


def prune(database: Database, compactor: Compactor, before_ms: int) -> None:
    """Leave no row of a run that started before a time; its sums by test and day stay.

    Raises:
        DamagedObject: a file cannot be read; `verify.forget` takes it out.
        StorageError, RemoteError: some files are done; call it again.
    """
    with database.read() as connection:
        files = manifest.files_with_old_runs(connection, before_ms)
    for sources in _batches(files):
        with suppress(FilesReplaced):  # by a compaction: they are pruned next time
            compactor.rewrite(sources, from_ms=before_ms)


def prune_answers(database: Database, objects: ObjectStore, before_ms: int) -> None:
    """Delete the answers of runs that started before a time; what is listed of these runs stays.

    Raises:
        StorageError, RemoteError: some are deleted; call it again.
    """
    with database.read() as connection:
        old = run_rows.answers(connection, before_ms=before_ms)
    while old:
        batch, old = old[:ANSWERS], old[ANSWERS:]
        # The objects first: after a kill between the two, they are found by their rows again.
        objects.delete([name for _, name in batch])
        with database.write() as connection:
            run_rows.forget_answers(connection, batch)


def _batches(files: Sequence[ManifestFile]) -> Iterator[list[ManifestFile]]:
    """Pairs one at a time, arrivals as many as are compacted at once."""
    pairs: dict[str, list[ManifestFile]] = defaultdict(list)
    arrivals: list[ManifestFile] = []
    for one in files:
        (pairs[one.pair] if one.pair else arrivals).append(one)
    yield from pairs.values()
    batch: list[ManifestFile] = []
    for one in arrivals:
        if len(batch) == FAN_IN or sum(known.rows for known in batch) + one.rows > MOST_ROWS:
            yield batch
            batch = []
        batch.append(one)
    if batch:
        yield batch
