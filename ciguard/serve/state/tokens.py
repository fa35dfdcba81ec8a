"""Access tokens of a repository's jobs, stored as digests: whoever reads the database has none.

A token is 256 random bits, so a plain SHA-256 of it cannot be guessed from, and it is found by the
index: no comparison takes longer the more of it is right.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state.database import now_ms
from ciguard.serve.state.schema import token as table

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

PREFIX: Final = "cgs_"
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token as it is made: its secret is nowhere else."""

    id: str
    secret: str = field(repr=False)


def create(connection: Connection, repository_id: int) -> NewToken:
    """Make a token that reads the history of one repository."""
    made = NewToken(secrets.token_hex(8), PREFIX + secrets.token_hex(_SECRET_BYTES))
    values = {"id": made.id, "repository_id": repository_id, "sha256": _digest(made.secret)}
    connection.execute(sa.insert(table).values(**values, created_at_ms=now_ms()))
    return made


def repository_of(connection: Connection, secret: str) -> int | None:
    """The id of the repository that a token belongs to; None for one unknown or revoked."""
    valid = (table.c.sha256 == _digest(secret)) & table.c.revoked_at_ms.is_(None)
    found: int | None = connection.scalar(sa.select(table.c.repository_id).where(valid))
    return found


def revoke(connection: Connection, repository_id: int, token_id: str) -> bool:
    """End a token; False where the repository has no such token that is valid."""
    valid = (
        (table.c.id == token_id)
        & (table.c.repository_id == repository_id)
        & table.c.revoked_at_ms.is_(None)
    )
    done = connection.execute(sa.update(table).where(valid).values(revoked_at_ms=now_ms()))
    return done.rowcount == 1


def delete(connection: Connection, repository_id: int) -> None:
    """Forget the tokens of a repository that is removed."""
    connection.execute(sa.delete(table).where(table.c.repository_id == repository_id))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
