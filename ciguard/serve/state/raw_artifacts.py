"""Rows of raw artifacts: archives of runs from GitHub or a report job, each an object."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import schema
from ciguard.serve.state.database import engine_insert, is_older, now_ms
from ciguard.serve.state.run_key import RunKey, is_run

# Limit of all files that are read of a run: any pull request decides what a run uploads, and a
# worker judges two runs at once. Records have 240 bytes a result: the limit allows a million
# results. In memory they take up to six times as much.
FILE_BYTES: Final = 1 << 28
ARCHIVE_BYTES: Final = 1 << 28  # of a run; archives beyond this limit are judged and not stored
_ARTIFACT: Final = schema.artifact.c


@dataclass(frozen=True, slots=True)
class RawArtifact:
    """An archive: the name of its artifact, and the object with its content."""

    name: str
    object: str
    bytes: int
    sha256: str


def record(connection: Connection, key: RunKey, artifact: RawArtifact) -> None:
    """Add or replace the row of an artifact of a run."""
    values = {**asdict(key), **asdict(artifact), "stored_at_ms": now_ms()}
    statement = engine_insert(connection, schema.artifact).values(values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[*(_ARTIFACT[name] for name in asdict(key)), _ARTIFACT.name],
            set_={name: statement.excluded[name] for name in ("object", "bytes", "sha256")},
        )
    )


def of_run(connection: Connection, key: RunKey) -> tuple[RawArtifact, ...]:
    columns = [_ARTIFACT[column.name] for column in fields(RawArtifact)]
    query = sa.select(*columns).where(is_run(schema.artifact, key))
    rows = connection.execute(query.order_by(_ARTIFACT.name))
    return tuple(RawArtifact(*row) for row in rows)


def stored_before(connection: Connection, days: float, limit: int = 1000) -> tuple[str, ...]:
    """Return the objects that were stored more than so many days ago, the oldest first."""
    is_old = is_older(_ARTIFACT.stored_at_ms, days)
    query = sa.select(_ARTIFACT.object).where(is_old).order_by(_ARTIFACT.stored_at_ms)
    return tuple(connection.execute(query.limit(limit)).scalars())


def delete(connection: Connection, objects: Collection[str]) -> None:
    """Delete the rows of archives by the names of their objects."""
    connection.execute(sa.delete(schema.artifact).where(_ARTIFACT.object.in_(objects)))
