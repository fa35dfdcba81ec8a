"""Sessions of people who signed in: the login, and the private repositories visible to it.

A session is stored under the SHA-256 of its secret: the database alone allows no sign-in.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ciguard.serve.state import schema
from ciguard.serve.state.database import after_ms, now_ms
from ciguard.serve.state.tokens import digest

LIFETIME_S: Final = 8 * 3600.0  # after that time the person signs in again, by one click
_SESSION: Final = schema.session.c


@dataclass(frozen=True, slots=True)
class Session:
    """A session that has not ended.

    Attributes:
        visible: numbers of the private repositories that the person may see; None if GitHub did not
            answer.
        age_s: age of `visible`, by the database's clock.
    """

    login: str
    visible: frozenset[int] | None
    age_s: float


def add(connection: Connection, secret: str, login: str, visible: Collection[int]) -> None:
    """Begin a session, and delete sessions that have ended."""
    connection.execute(sa.delete(schema.session).where(_SESSION.until_ms <= now_ms()))
    session = sa.insert(schema.session).values(
        sha256=digest(secret),
        login=login,
        visible=sorted(visible),
        visible_at_ms=now_ms(),
        until_ms=after_ms(LIFETIME_S),
    )
    connection.execute(session)


def find(connection: Connection, secret: str) -> Session | None:
    """Return the session with this secret; None if it is unknown or has ended."""
    age_ms = (now_ms() - _SESSION.visible_at_ms).label("age_ms")
    is_current = (_SESSION.sha256 == digest(secret)) & (_SESSION.until_ms > now_ms())
    query = sa.select(_SESSION.login, _SESSION.visible, age_ms).where(is_current)
    row = connection.execute(query).first()
    if row is None:
        return None
    visible = None if row.visible is None else frozenset(row.visible)
    return Session(row.login, visible, row.age_ms / 1000)


def set_visible(connection: Connection, secret: str, visible: Collection[int] | None) -> None:
    """Store GitHub's current answer; None if GitHub does not answer."""
    value = None if visible is None else sorted(visible)
    values = {"visible": value, "visible_at_ms": now_ms()}
    where = _SESSION.sha256 == digest(secret)
    connection.execute(sa.update(schema.session).where(where).values(values))


def end(connection: Connection, secret: str) -> None:
    connection.execute(sa.delete(schema.session).where(_SESSION.sha256 == digest(secret)))
