"""Rows of deliveries, histories, tokens and sessions, on SQLite and on PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain

import sqlalchemy as sa

from ciguard.serve import webhooks
from ciguard.serve.history_objects import HistoryRow, current_row, current_rows, replace_row
from ciguard.serve.state import repositories, schema, sessions, tokens
from ciguard.serve.state.database import Database
from ciguard.serve.state.schema import token as table
from ciguard.serve.state.sessions import Session
from ciguard.serve.webhooks import Delivery


def delivery(id: str) -> Delivery:
    return Delivery(id, "workflow_run", "completed", 1)


def test_a_delivery_is_new_once(database: Database) -> None:
    with database.write() as connection:
        both = webhooks.record(connection, [delivery("b"), delivery("a"), delivery("a")])
        assert both == {"a", "b"}
        assert webhooks.record(connection, [delivery("b"), delivery("c")]) == {"c"}


def test_threads_that_get_the_same_deliveries_agree_on_one(database: Database) -> None:
    ids = [f"{number:03}" for number in range(400)]

    def record(order: list[str]) -> frozenset[str]:
        with database.write() as connection:
            return webhooks.record(connection, [delivery(id) for id in order])

    with ThreadPoolExecutor(6) as pool:
        new = pool.map(record, [ids, ids[::-1]] * 3)
        assert sorted(chain.from_iterable(new)) == ids


def test_old_deliveries_are_forgotten(database: Database) -> None:
    with database.write() as connection:
        webhooks.record(connection, [delivery("old"), delivery("new")])
        connection.execute(
            sa.update(schema.delivery)
            .where(schema.delivery.c.id == "old")
            .values(received_at_ms=schema.delivery.c.received_at_ms - 3 * 86_400_000)
        )
        assert webhooks.prune_deliveries(connection, days=4) == 0
        assert webhooks.prune_deliveries(connection, days=2) == 1
        assert connection.execute(sa.select(schema.delivery.c.id)).scalars().all() == ["new"]


ROW = HistoryRow(11, "history/11/1-a.ciguard", "a" * 64, 10, 1)


def test_row_changes_only_from_the_version_that_was_read(database: Database) -> None:
    second, third = (replace(ROW, version=number) for number in (2, 3))
    with database.write() as connection:
        assert current_row(connection, 11) is None
        assert not replace_row(connection, second, 1)
        assert replace_row(connection, ROW, 0)
        assert not replace_row(connection, second, 0)
        assert replace_row(connection, second, 1)
        assert not replace_row(connection, third, 1)
        assert current_row(connection, 11) == second
        assert current_row(connection, 12) is None
        assert replace_row(connection, replace(ROW, repository_id=5), 0)
        assert [row.repository_id for row in current_rows(connection)] == [5, 11]


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
        sessions.add(connection, "old", "octocat", [3])
        connection.execute(sa.update(schema.session).values(until_ms=1))
        assert sessions.find(connection, "old") is None
        sessions.add(connection, "new", "octocat", [3])
        count = sa.select(sa.func.count()).select_from(schema.session)
        assert connection.execute(count).scalar_one() == 1
