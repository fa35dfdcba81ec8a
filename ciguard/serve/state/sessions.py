"""Sessions of people who signed in: whose they are, and what GitHub said that they may see.

A session is known by the SHA-256 of its secret: nobody who reads the database can use it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import schema, statements
from ciguard.serve.state.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy.engine import Connection

LIFETIME_S: Final = 8 * 3600.0  # then the person signs in again, which takes no more than a click
_SESSION: Final = schema.session.c


@dataclass(frozen=True, slots=True)
class Session:
    """A session that has not ended.

    Attributes:
        visible: numbers of the private repositories that its person may see; None where GitHub
            did not answer that.
        age_s: of `visible`, by the database's clock.
    """

    login: str
    visible: frozenset[int] | None
    age_s: float


def add(
    connection: Connection,
    secret: str,
    login: str,
    visible: Collection[int],
    lifetime_s: float = LIFETIME_S,
) -> None:
    """Begin a session, and forget those that have ended."""
    connection.execute(sa.delete(schema.session).where(_SESSION.until_ms <= now_ms()))
    connection.execute(
        sa.insert(schema.session).values(
            sha256=_digest(secret),
            login=login,
            visible=sorted(visible),
            visible_at_ms=now_ms(),
            until_ms=statements.after_ms(lifetime_s),
        )
    )


def find(connection: Connection, secret: str) -> Session | None:
    """The session with this secret; None where there is none, or it has ended."""
    age_ms = (now_ms() - _SESSION.visible_at_ms).label("age_ms")
    query = sa.select(_SESSION.login, _SESSION.visible, age_ms).where(
        _SESSION.sha256 == _digest(secret), _SESSION.until_ms > now_ms()
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    visible = None if row.visible is None else frozenset(row.visible)
    return Session(row.login, visible, row.age_ms / 1000)


def set_visible(connection: Connection, secret: str, visible: Collection[int] | None) -> None:
    """Write what GitHub says now; None where it does not answer."""
    value = None if visible is None else sorted(visible)
    values = {"visible": value, "visible_at_ms": now_ms()}
    where = _SESSION.sha256 == _digest(secret)
    connection.execute(sa.update(schema.session).where(where).values(values))


def end(connection: Connection, secret: str) -> None:
    """End a session."""
    connection.execute(sa.delete(schema.session).where(_SESSION.sha256 == _digest(secret)))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
