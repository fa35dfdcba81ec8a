"""Sessions on both engines: by a secret that is not stored, for a time, with what may be seen."""

from __future__ import annotations

import sqlalchemy as sa

from ciguard.serve.state import schema, sessions
from ciguard.serve.state.database import Database
from ciguard.serve.state.sessions import Session


def test_session_lives_from_sign_in_to_its_end(database: Database) -> None:
    with database.write() as connection:
        sessions.add(connection, "secret-1", "octocat", {3, 12})
        sessions.add(connection, "secret-2", "mallory", ())
    with database.read() as connection:
        found = sessions.find(connection, "secret-1")
        assert found is not None
        assert found == Session("octocat", frozenset({3, 12}), found.age_s)
        assert 0 <= found.age_s < 30
        assert sessions.find(connection, "secret-3") is None
        assert sessions.find(connection, "") is None
        assert "secret" not in str(connection.execute(sa.select(schema.session)).all())
    with database.write() as connection:
        sessions.end(connection, "secret-1")
        assert sessions.find(connection, "secret-1") is None
        assert sessions.find(connection, "secret-2") is not None


def test_what_may_be_seen_changes(database: Database) -> None:
    with database.write() as connection:
        sessions.add(connection, "secret", "octocat", [3])
        old = schema.session.c.visible_at_ms - 400_000
        connection.execute(sa.update(schema.session).values(visible_at_ms=old))
        found = sessions.find(connection, "secret")
        assert found is not None
        assert 400 <= found.age_s < 430
        for visible in ([5], None, []):
            sessions.set_visible(connection, "secret", visible)
            found = sessions.find(connection, "secret")
            assert found is not None
            assert found.visible == (None if visible is None else set(visible))
            assert found.age_s < 30


def test_session_that_has_ended_is_none_and_is_deleted(database: Database) -> None:
    with database.write() as connection:
        sessions.add(connection, "old", "octocat", [3], lifetime_s=-1)
        assert sessions.find(connection, "old") is None
        sessions.add(connection, "new", "octocat", [3])
        count = sa.select(sa.func.count()).select_from(schema.session)
        assert connection.execute(count).scalar_one() == 1
