"""Raw artifacts of runs as GitHub gave them, each an object; kept for a while."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

    from ciguard.serve.state.run_key import RunKey

# Anybody's pull request decides what a run uploads, and a worker judges two runs at once. Records
# have 240 bytes a result: these are of a million. In memory they take up to six times as much.
FILE_BYTES: Final = 1 << 28
ARCHIVE_BYTES: Final = 1 << 28  # stored of a run; what is more is judged and not stored
_ARTIFACT: Final = schema.artifact.c


@dataclass(frozen=True, slots=True)
class RawArtifact:
    """An archive by the name of its artifact, and the object that it is kept in."""

    name: str
    object: str
    bytes: int
    sha256: str


def record(connection: Connection, key: RunKey, artifact: RawArtifact) -> None:
    """Say where an artifact of a run is kept; of one name the one that came last."""
    values = {**asdict(key), **asdict(artifact), "stored_at_ms": now_ms()}
    statement = statements.insert(connection, schema.artifact).values(values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[*(_ARTIFACT[name] for name in asdict(key)), _ARTIFACT.name],
            set_={name: statement.excluded[name] for name in ("object", "bytes", "sha256")},
        )
    )


def of_run(connection: Connection, key: RunKey) -> tuple[RawArtifact, ...]:
    """What is kept of a run, by name."""
    columns = [_ARTIFACT[one.name] for one in fields(RawArtifact)]
    query = sa.select(*columns).where(statements.is_run(schema.artifact, key))
    rows = connection.execute(query.order_by(_ARTIFACT.name))
    return tuple(RawArtifact(*row) for row in rows)


def stored_before(connection: Connection, days: float, limit: int = 1000) -> tuple[str, ...]:
    """Objects that are older than that, the oldest first."""
    is_old = statements.is_older(_ARTIFACT.stored_at_ms, days)
    query = sa.select(_ARTIFACT.object).where(is_old).order_by(_ARTIFACT.stored_at_ms)
    return tuple(connection.execute(query.limit(limit)).scalars())


def forget(connection: Connection, objects: Collection[str]) -> None:
    """Forget what is kept no more."""
    connection.execute(sa.delete(schema.artifact).where(_ARTIFACT.object.in_(objects)))


def delete(connection: Connection, repository_id: int) -> None:
    """Forget all archives of a repository that is removed."""
    connection.execute(sa.delete(schema.artifact).where(_ARTIFACT.repository_id == repository_id))
