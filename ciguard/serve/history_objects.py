"""The history of a repository as immutable objects; a row of the database names the current one.

    history/<repository id>/<version>-<SHA-256>.ciguard

An object is stored first, and then becomes current by compare-and-swap, so that every row has its
object. Earlier objects are kept for a while: readers may still read them, and a damaged history
restarts from the newest intact one. Any number of workers may add runs of the base branch, as
`ciguard history add` does, also the same run several times, in any order.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.history import file as history_codec
from ciguard.history.file import DamagedHistory, StoredBytes
from ciguard.history.ingest import RunMetadata, check_is_merged, history_of
from ciguard.history.stores import update
from ciguard.model import Plan, Record
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.objects import AlreadyStored, ObjectStore
from ciguard.serve.state.database import Database, engine_insert, now_ms
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.schema import history as table


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A history file: its object, digest and size. The first version is 1."""

    repository_id: int
    object: str
    sha256: str
    bytes: int
    version: int


_SELECT: Final = sa.select(*(table.c[column.name] for column in fields(HistoryRow)))


def current_row(connection: Connection, repository_id: int) -> HistoryRow | None:
    """Return the row of a repository; None before its first run."""
    rows = connection.execute(_SELECT.where(table.c.repository_id == repository_id))
    return next((HistoryRow(**row) for row in rows.mappings()), None)


def current_rows(connection: Connection) -> tuple[HistoryRow, ...]:
    """Return the rows of all repositories, by their ids."""
    rows = connection.execute(_SELECT.order_by(table.c.repository_id))
    return tuple(HistoryRow(**row) for row in rows.mappings())


def replace_row(connection: Connection, row: HistoryRow, expected_version: int) -> bool:
    """Replace the row of the expected version; 0 adds the first row.

    Returns:
        False, with nothing changed, if the current version is another.
    """
    values = {**asdict(row), "updated_at_ms": now_ms()}
    if expected_version:
        is_expected = table.c.version == expected_version
        of_repository = table.c.repository_id == row.repository_id
        statement = sa.update(table).where(is_expected, of_repository).values(values)
    else:
        statement = engine_insert(connection, table).values(values).on_conflict_do_nothing()
    counted = statement.execution_options(preserve_rowcount=True)
    return bool(connection.execute(counted).rowcount == 1)


PREFIX: Final = "history"
EARLIER_VERSIONS: Final = 3  # that are kept besides the current one, of any age
READERS_S: Final = 3600.0  # maximum time of a reader with a version
WAIT_S: Final = 0.05  # before the second try to add, if another worker was faster
REPAIR_FIX: Final = "run ciguard serve check --repair"
_NAME: Final = re.compile(rf"{PREFIX}/(\d+)/(\d+)-([0-9a-f]{{64}})\.ciguard")


@dataclass(frozen=True, slots=True)
class ObjectHistory:
    """The history of one repository as a store for `ciguard.history.stores.update`."""

    database: Database
    objects: ObjectStore
    repository_id: int

    @property
    def location(self) -> str:
        return f"{PREFIX}/{self.repository_id}"

    def recovery_advice(self, error: DamagedHistory) -> str:  # noqa: ARG002  # the same for all
        """Return the advice for a damaged history: the service makes it again from its runs."""
        return REPAIR_FIX

    def current(self) -> HistoryRow | None:
        with self.database.read() as connection:
            return current_row(connection, self.repository_id)

    def read(self) -> StoredBytes:
        """Return the current version.

        Raises:
            DamagedObject, StorageError: as `read_checked`.
        """
        row = self.current()
        if row is None:
            return StoredBytes(None, "0")
        content = read_checked(self.objects, row.object, row.sha256, "history")
        return StoredBytes(content, str(row.version))

    def write(self, content: bytes, expected: StoredBytes) -> bool:
        """Store a new current version; return False if the current one is not the expected one."""
        before = int(expected.version)
        digest = hashlib.sha256(content).hexdigest()
        name = f"{self.location}/{before + 1}-{digest}.ciguard"
        row = HistoryRow(self.repository_id, name, digest, len(content), before + 1)
        # An object of this name has the same content: of a writer that was slower, or that died.
        with contextlib.suppress(AlreadyStored):
            self.objects.put_new(name, content)
        with self.database.write() as connection:
            return replace_row(connection, row, before)

    def restart(self) -> int:
        """Go back to the newest intact version, or to the empty history.

        The caller adds later runs again, in any order.

        Returns:
            The version whose content is current now; 0 for the empty history.
        """
        row = self.current()
        expected = StoredBytes(None, str(row.version) if row else "0")
        for version in sorted(_versions(self.objects, self.location), key=_newest_first):
            with contextlib.suppress(DamagedObject):
                stored = version.row
                content = read_checked(self.objects, stored.object, stored.sha256, "history")
                self.write(content, expected)
                return stored.version
        self.write(history_codec.encode(history_codec.empty()), expected)
        return 0


def delete_history(database: Database, objects: ObjectStore, repository_id: int) -> None:
    """Delete the history of a removed repository: the row before the objects."""
    with database.write() as connection:
        connection.execute(sa.delete(table).where(table.c.repository_id == repository_id))
    objects.delete([stored.name for stored in objects.list(f"{PREFIX}/{repository_id}")])


def sweep_histories(database: Database, objects: ObjectStore, now_s: float) -> int:
    """Delete versions that are neither current nor among the last few, and older than an hour.

    Versions of a repository without a row, and versions newer than the current one, are kept: a
    writer may be about to make them current.

    Args:
        now_s: seconds since 1970.

    Returns:
        Number of deleted versions.
    """
    stored = defaultdict(list)
    for version in _versions(objects, PREFIX):
        stored[version.row.repository_id].append(version)
    with database.read() as connection:
        rows = current_rows(connection)
    old: list[str] = []
    for row in rows:
        versions = [it for it in stored[row.repository_id] if it.row.version <= row.version]
        earlier = [it for it in versions if it.row.object != row.object]
        superseded = sorted(earlier, key=_newest_first)[EARLIER_VERSIONS:]
        old += [it.row.object for it in superseded if it.modified_at < now_s - READERS_S]
    objects.delete(old)
    return len(old)


class _Version(NamedTuple):
    row: HistoryRow
    modified_at: float


def _versions(objects: ObjectStore, prefix: str) -> Iterator[_Version]:
    """Yield the stored versions, by their names."""
    for stored in objects.list(prefix):
        if match := _NAME.fullmatch(stored.name):
            repository_id, version = int(match[1]), int(match[2])
            row = HistoryRow(repository_id, stored.name, match[3], stored.bytes, version)
            yield _Version(row, stored.modified_at)


def _newest_first(version: _Version) -> tuple[int, float]:
    return -version.row.version, -version.modified_at


def update_history(
    database: Database,
    objects: ObjectStore,
    key: RunKey,
    *,
    plan: Plan | None,
    records: Iterable[Record],
    facts: RunMetadata,
    keep: Sequence[str] = (),
) -> bool:
    """Add a run of the base branch; return False, with nothing written, if the history has it.

    Args:
        plan: plan of the run; tests of a shard without a record, or of a dead job, count as lost.
        records: records of the newest attempt of each job; after "Re-run failed jobs" they are of
            several run attempts.
        facts: GitHub's facts about the run (`sha`, `branch`, `event`, `at`); ids are from `key`.
        keep: `[metrics] keep` of the base branch.

    Raises:
        InputError: the run is of a pull request or merge group, or a record contradicts GitHub, the
            plan, or the history of this run.
        DamagedObject: the stored history is damaged; call `ObjectHistory.restart` first.
        RemoteError: the database or the store cannot be reached, or others were faster each time.
    """
    where = f"run {key.run_id} of repository {key.repository_id}"
    check_is_merged(facts.event, "it", where)
    facts = replace(facts, run_id=key.run_id, run_attempt=None)
    addition = history_of(records, facts, plan, keep)
    for run in addition.runs:
        check_is_merged(run.event, "a record of it", where)
    store = ObjectHistory(database, objects, key.repository_id)
    return update(store, addition, wait_s=WAIT_S).changed
