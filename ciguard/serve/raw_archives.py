"""Raw archives of runs, each an object with its row: from GitHub, or pushed by a report job."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.codec.archive import member_names, members
from ciguard.codec.unpack_limits import ARCHIVE_LIMITS, PUSH_LIMITS
from ciguard.serve.object_cache import DamagedObject, read_checked
from ciguard.serve.objects import AlreadyStored
from ciguard.serve.service import Service
from ciguard.serve.state import schema
from ciguard.serve.state.database import engine_insert, is_older, now_ms
from ciguard.serve.state.run_key import RunKey, is_run, key_columns

# Limit of all files that are read of a run: any pull request decides what a run uploads, and a
# worker judges two runs at once. Records have 240 bytes a result: the limit allows a million
# results. In memory they take up to six times as much.
FILE_BYTES: Final = 1 << 28
ARCHIVE_BYTES: Final = 1 << 28  # of a run; archives beyond this limit are judged and not stored
BATCH: Final = 1000  # old archives that are deleted together
_ARTIFACT: Final = schema.artifact.c


@dataclass(frozen=True, slots=True)
class RawArtifact:
    """An archive: the name of its artifact, and the object with its content."""

    name: str
    object: str
    bytes: int
    sha256: str


def of_run(connection: Connection, key: RunKey) -> tuple[RawArtifact, ...]:
    columns = [_ARTIFACT[column.name] for column in fields(RawArtifact)]
    query = sa.select(*columns).where(is_run(schema.artifact, key))
    rows = connection.execute(query.order_by(_ARTIFACT.name))
    return tuple(RawArtifact(*row) for row in rows)


def stored_before(connection: Connection, days: float) -> tuple[str, ...]:
    """Return the objects that were stored more than so many days ago, the oldest first."""
    is_old = is_older(_ARTIFACT.stored_at_ms, days)
    query = sa.select(_ARTIFACT.object).where(is_old).order_by(_ARTIFACT.stored_at_ms)
    return tuple(connection.execute(query.limit(BATCH)).scalars())


def delete(connection: Connection, objects: Collection[str]) -> None:
    """Delete the rows of archives by the names of their objects."""
    connection.execute(sa.delete(schema.artifact).where(_ARTIFACT.object.in_(objects)))


PUSHED: Final = "/pushed"  # of the row; no artifact on GitHub has a slash in its name


def push(service: Service, key: RunKey, content: bytes) -> bool:
    """Store a push; return False if another one differs: an empty archive then replaces both."""
    with service.database.read() as connection:
        rows = [row for row in of_run(connection, key) if row.name == PUSHED]
    digest = hashlib.sha256(content).hexdigest()
    if all(row.sha256 == digest for row in rows) and store(service, key, PUSHED, content):
        return True
    store(service, key, PUSHED, b"")
    service.objects.delete([row.object for row in rows if row.bytes])
    return False


def store(service: Service, key: RunKey, name: str, content: bytes) -> bool:
    """Store an archive of a run unchanged, by its digest; its row replaces all but another push."""
    digest = hashlib.sha256(content).hexdigest()
    path = f"artifacts/{key.repository_id}/{key.run_id}-{key.run_attempt}-{digest[:32]}.zip"
    with contextlib.suppress(AlreadyStored):
        service.objects.put_new(path, content)
    row = {"name": name, "object": path, "bytes": len(content), "sha256": digest}
    with service.database.write() as connection:
        insert = engine_insert(connection, schema.artifact)
        insert = insert.values(**asdict(key), **row, stored_at_ms=now_ms())
        index = [*key_columns(schema.artifact), _ARTIFACT.name]
        may_replace = (_ARTIFACT.sha256 == digest) | sa.literal(name != PUSHED or not content)
        insert = insert.on_conflict_do_update(index_elements=index, set_=row, where=may_replace)
        return connection.execute(insert).rowcount == 1


def load(service: Service, key: RunKey, name: str) -> bytes | None:
    """Return the content of a stored archive of a run; None for none, or a damaged one."""
    with service.database.read() as connection:
        rows = {row.name: row for row in of_run(connection, key)}
    if name in rows:
        with contextlib.suppress(DamagedObject):
            return read_checked(service.objects, rows[name].object, rows[name].sha256, "archive")
    return None


def read_pushed(content: bytes) -> dict[str, bytes]:
    """Return the zips of a push, a zip of zips, by the names of their artifacts.

    Raises:
        InputError: damaged, or larger than what a report job sends; or one zip is refused.
    """
    zips = dict(members(io.BytesIO(content), "the records", PUSH_LIMITS))
    for name, archive in zips.items():
        member_names(io.BytesIO(archive), name, ARCHIVE_LIMITS)
    return zips
