"""Access tokens of a repository, stored as digests: the database holds no usable token.

A token is 256 random bits, so its plain SHA-256 cannot be reversed by guessing. Tokens are looked
up by an index over digests, so the time of a look-up reveals nothing about a stored token.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state.database import now_ms
from ciguard.serve.state.schema import token as table

# What a token reads is told by its prefix, which its digest includes: history and explanations of
# runs, or all pages too.
PREFIX: Final = "cgs_"
PAGES_PREFIX: Final = "cgp_"
SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token; its secret is stored nowhere."""

    id: str
    secret: str = field(repr=False)


def create(connection: Connection, repository_id: int, prefix: str = PREFIX) -> NewToken:
    """Create a token of one repository."""
    token = NewToken(secrets.token_hex(8), prefix + secrets.token_hex(SECRET_BYTES))
    values = {"id": token.id, "repository_id": repository_id, "sha256": digest(token.secret)}
    connection.execute(sa.insert(table).values(**values, created_at_ms=now_ms()))
    return token


def repository_of(connection: Connection, secret: str) -> int | None:
    """Return the id of the repository of a token; None if the token is unknown or revoked."""
    valid = (table.c.sha256 == digest(secret)) & table.c.revoked_at_ms.is_(None)
    repository_id: int | None = connection.scalar(sa.select(table.c.repository_id).where(valid))
    return repository_id


def revoke(connection: Connection, repository_id: int, token_id: str) -> bool:
    """Revoke a token; return False if the repository has no valid token with this id."""
    valid = (
        (table.c.id == token_id)
        & (table.c.repository_id == repository_id)
        & table.c.revoked_at_ms.is_(None)
    )
    done = connection.execute(sa.update(table).where(valid).values(revoked_at_ms=now_ms()))
    return done.rowcount == 1


def digest(secret: str) -> str:
    """Return the SHA-256 by which tables store the secret of a token or session."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
