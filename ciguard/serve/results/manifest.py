"""The manifest: the list of result files in tables `file` and `file_run`.

Each result row is in one arrival file, or in one pair: files with the same rows in two orders, with
their messages and sums. `file_run` lists each run once: at its arrival file, at the file by run of
its pair, or, if its rows were pruned, at the sums of its pair. Every change is one transaction
under one lock, so that no run gets rows twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.errors import RemoteError
from ciguard.serve.object_cache import CheckedObject
from ciguard.serve.results.parquet_columns import Kind
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import schema
from ciguard.serve.state.database import now_ms
from ciguard.serve.state.run_key import RunKey, is_run, is_same_run, key_columns

MANIFEST_LOCK: Final = 0x66696C65  # of pg_advisory_xact_lock
_FILE: Final = schema.file.c
_FILE_RUN: Final = schema.file_run.c
_KEY: Final = key_columns(schema.file_run)
NO_REPOSITORY: Final = -1
NO_RUN: Final = RunKey(NO_REPOSITORY, 0, 0)


class FilesReplaced(RemoteError):
    """Another process has replaced one of the files: read the manifest again and retry."""

    is_lasting = False


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A file of results; `pair` is "" for an arrival."""

    name: str
    kind: Kind
    pair: str
    rows: int
    bytes: int
    sha256: str

    @property
    def stored(self) -> CheckedObject:
        return CheckedObject(self.name, self.sha256, self.bytes)


def lock(connection: Connection) -> None:
    """Lock the manifest until this transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer anyway
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MANIFEST_LOCK)))


def written_runs(connection: Connection, keys: Collection[RunKey]) -> set[RunKey]:
    """Return those of the runs that have rows; SQLite takes 10,922 runs, and a batch has 500."""
    numbers = [key.numbers() for key in keys]
    query = sa.select(*_KEY).where(sa.tuple_(*_KEY).in_(numbers)).distinct()
    return {RunKey(*row) for row in connection.execute(query)}


def has_other_rows(connection: Connection, key: RunKey, digest: str) -> bool:
    """Return whether a run has rows with another digest; pruned rows do not count."""
    query = sa.select(_FILE_RUN.digest).join(schema.file, _FILE.name == _FILE_RUN.file)
    query = query.where(is_run(schema.file_run, key), _FILE.kind.in_(("arrival", "by_run")))
    return any(known != digest for known in connection.execute(query).scalars())


def files(
    connection: Connection,
    kinds: Iterable[Kind] | None = None,
    condition: sa.ColumnElement[bool] | None = None,
) -> list[ManifestFile]:
    """Return files of these kinds that meet a condition (`holds`), the oldest first."""
    query = sa.select(*(_FILE[column.name] for column in fields(ManifestFile)))
    if kinds is not None:
        query = query.where(_FILE.kind.in_(list(kinds)))
    if condition is not None:
        query = query.where(condition)
    ordered = query.order_by(_FILE.added_at_ms, _FILE.name)
    return [ManifestFile(*row) for row in connection.execute(ordered)]


def holds(*conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that `file_run` lists such a run at a file, or at one of its pair."""
    listed = sa.select(_FILE_RUN.file).where(*conditions)
    holder = schema.file.alias()
    pairs = sa.select(holder.c.pair).where(holder.c.name.in_(listed), holder.c.pair != "")
    return sa.or_(_FILE.name.in_(listed), _FILE.pair.in_(pairs))


def files_with_old_runs(connection: Connection, before_ms: int) -> list[ManifestFile]:
    """Return arrivals and pairs with rows of runs that started before a time."""
    is_old = sa.exists().where(
        is_same_run(schema.run, schema.file_run), schema.run.c.started_at_ms < before_ms
    )
    # A run that is listed at the sums of a pair has no rows.
    with_rows = sa.select(_FILE.name).where(_FILE.kind.in_(("arrival", "by_run")))
    return files(connection, None, holds(is_old, _FILE_RUN.file.in_(with_rows)))


def runs_of(
    connection: Connection, damaged: Iterable[ManifestFile], repository_id: int | None = None
) -> list[RunKey]:
    """Return the runs whose rows these files hold, in order; of one repository, or of all."""
    files = list(damaged)
    pairs = {file.pair for file in files if file.pair}
    holders = sa.select(_FILE.name).where(
        sa.or_(_FILE.name.in_([file.name for file in files]), _FILE.pair.in_(pairs))
    )
    query = sa.select(*_KEY).where(_FILE_RUN.file.in_(holders)).distinct().order_by(*_KEY)
    if repository_id is not None:
        query = query.where(_FILE_RUN.repository_id == repository_id)
    return [RunKey(*row) for row in connection.execute(query)]


def is_listed(connection: Connection, names: Collection[str]) -> bool:
    """Return whether all these files are still listed."""
    query = sa.select(sa.func.count()).where(_FILE.name.in_(list(names)))
    return connection.execute(query).scalar_one() == len(set(names))


def add_arrival(connection: Connection, added: ManifestFile, runs: Iterable[RunResults]) -> None:
    """Add an arrival file, whose runs have no other rows."""
    _insert(connection, [added])
    values = [
        {"file": added.name, **asdict(run.key), "rows": len(run.rows), "digest": run.digest}
        for run in sorted(runs, key=lambda run: run.key)
    ]
    connection.execute(sa.insert(schema.file_run), values)


def replace(
    connection: Connection,
    sources: Sequence[ManifestFile],
    pair: Sequence[ManifestFile],
    *,
    dropped_repository: int = NO_REPOSITORY,
    dropped_run: RunKey = NO_RUN,
    pruned: Iterable[RunKey] = (),
) -> None:
    """Replace arrivals and pairs by the files of one pair with the same rows.

    Args:
        sources: files to replace, of a pair all.
        pair: at least the sums, unless all rows are of the dropped repository or run.
        pruned: runs of which the new pair has only sums.

    Raises:
        FilesReplaced: a source is no longer listed.
    """
    lock(connection)
    names = [file.name for file in sources]
    if not is_listed(connection, names):
        raise FilesReplaced("another process has replaced these files", where="results")
    _insert(connection, pair)
    from_sources = _FILE_RUN.file.in_(names)
    is_dropped = sa.or_(
        _FILE_RUN.repository_id == dropped_repository, is_run(schema.file_run, dropped_run)
    )
    connection.execute(sa.delete(schema.file_run).where(from_sources, is_dropped))
    by_kind = {file.kind: file.name for file in pair}
    holder = by_kind.get("by_run", by_kind.get("by_day"))
    if holder is not None:
        moved = sa.update(schema.file_run)
        for key in pruned:
            condition = sa.and_(from_sources, is_run(schema.file_run, key))
            connection.execute(moved.where(condition).values(file=by_kind["by_day"]))
        # Pruned runs stay with the sums of their pair.
        sums = [file.name for file in sources if file.kind == "by_day"]
        connection.execute(moved.where(_FILE_RUN.file.in_(sums)).values(file=by_kind["by_day"]))
        connection.execute(moved.where(from_sources).values(file=holder))
    connection.execute(sa.delete(schema.file).where(_FILE.name.in_(names)))


def remove_repository(connection: Connection, repository_id: int) -> None:
    """Remove the files with rows of this repository only, readable or not."""
    lock(connection)
    has_own = holds(_FILE_RUN.repository_id == repository_id)
    has_others = holds(_FILE_RUN.repository_id != repository_id)
    own = files(connection, None, sa.and_(has_own, ~has_others))
    remove(connection, [file.name for file in own])


def remove(connection: Connection, names: Collection[str]) -> None:
    """Remove files and their runs from the manifest; the sweep deletes the objects."""
    lock(connection)
    connection.execute(sa.delete(schema.file_run).where(_FILE_RUN.file.in_(list(names))))
    connection.execute(sa.delete(schema.file).where(_FILE.name.in_(list(names))))


def _insert(connection: Connection, added: Iterable[ManifestFile]) -> None:
    for file in added:
        connection.execute(sa.insert(schema.file).values(added_at_ms=now_ms(), **asdict(file)))
