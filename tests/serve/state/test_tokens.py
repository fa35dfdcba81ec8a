from __future__ import annotations

import sqlalchemy as sa

from ciguard.serve.state import repositories, tokens
from ciguard.serve.state.database import Database
from ciguard.serve.state.schema import token as table


def test_token_opens_one_repository_until_it_is_revoked(database: Database) -> None:
    with database.write() as connection:
        first, second = tokens.create(connection, 11), tokens.create(connection, 12)
    with database.read() as connection:
        assert tokens.repository_of(connection, first.secret) == 11
        assert tokens.repository_of(connection, second.secret) == 12
        assert tokens.repository_of(connection, first.secret[:-1]) is None
        assert tokens.repository_of(connection, "\udcff") is None
    with database.write() as connection:
        assert not tokens.revoke(connection, 12, first.id)
        assert tokens.revoke(connection, 11, first.id)
        assert not tokens.revoke(connection, 11, first.id)
        assert tokens.repository_of(connection, first.secret) is None
        assert tokens.repository_of(connection, second.secret) == 12
        repositories.delete_rows(connection, 12)
        assert tokens.repository_of(connection, second.secret) is None
        assert connection.scalars(sa.select(table.c.id)).all() == [first.id]


def test_database_and_repr_hold_no_secret(database: Database) -> None:
    with database.write() as connection:
        made = tokens.create(connection, 11)
        stored = str(connection.execute(sa.select(table)).all())
    assert made.id in stored
    random = made.secret.removeprefix("cgs_")
    assert len(bytes.fromhex(random)) == 32
    assert random not in stored
    assert random not in repr(made)
