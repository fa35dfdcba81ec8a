"""The tables of the service, on SQLite and on PostgreSQL."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from ciguard.errors import InputError, RemoteError, UsageError
from ciguard.serve.state import migrations
from ciguard.serve.state.database import REVISION, Database, migrate, now_ms, open_database
from ciguard.serve.state.schema import METADATA, lane, repository

REVISIONS = sorted(
    path.name[:4] for path in Path(migrations.__file__).parent.glob("versions/[0-9]*.py")
)
VALUES: dict[type, object] = {bool: True, int: 1, float: 1.5, str: "text", object: {"1": 2}}


def fill_tables(connection: sa.Connection) -> dict[str, dict[str, object]]:
    """One row of equal values in each table, so that rows refer to one another."""
    tables = sa.MetaData()
    tables.reflect(connection)
    tables.remove(tables.tables["alembic_version"])
    rows = {
        table.name: {column.name: VALUES[column.type.python_type] for column in table.columns}
        for table in tables.sorted_tables
    }
    for table in tables.sorted_tables:
        connection.execute(table.insert().values(rows[table.name]))
    return rows


@pytest.mark.parametrize("revision", REVISIONS)
def test_tables_of_each_earlier_version_are_brought_up_to_date(
    database_url: str, revision: str
) -> None:
    driver_url = database_url.replace("postgresql:", "postgresql+psycopg:")
    old = Database(sa.create_engine(driver_url))
    with old.write() as connection:
        migrate(connection, revision)
        rows = fill_tables(connection)
    old.close()
    again = open_database(database_url)
    with again.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
        assert context.get_current_revision() == REVISION
        for name, row in rows.items():
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            found = connection.execute(sa.select(*(table.c[column] for column in row))).mappings()
            assert [dict(one) for one in found] == [row]
        shown = sa.select(repository.c.base_state, repository.c.base_run_id)
        if revision < "0004":
            assert connection.execute(shown).one() == ("red", 1)
    again.close()
    assert len(rows) >= len(REVISIONS)


def test_processes_that_start_together_migrate_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        for database in pool.map(open_database, [database_url] * 4):
            database.close()


def test_a_new_file_of_sqlite_that_another_process_makes_is_waited_for(tmp_path: Path) -> None:
    opened: list[Database] = []
    path = tmp_path / "new.db"
    url = f"sqlite:///{path}"
    # Not WAL yet and locked for writing: SQLite refuses WAL at once, however long it is to wait.
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = threading.Thread(target=lambda: opened.append(open_database(url)))
        start.start()
        start.join(0.2)
        assert start.is_alive()
        other.execute("COMMIT")
        start.join()
    (database,) = opened
    with database.read() as connection:
        assert connection.execute(sa.text("PRAGMA journal_mode")).scalar_one() == "wal"
    database.close()


def test_tables_of_a_newer_program_are_refused(database_url: str, database: Database) -> None:
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(InputError, match="version 9999") as caught:
        open_database(database_url)
    assert "newer" in caught.value.fix


def test_the_clock_is_the_databases(database: Database) -> None:
    with database.read() as connection:
        before = connection.execute(sa.select(now_ms())).scalar_one()
        after = connection.execute(sa.select(now_ms())).scalar_one()
    assert abs(before / 1000 - time.time()) < 60
    assert after >= before


def test_a_failed_block_leaves_nothing(database: Database) -> None:
    def fail() -> None:
        with database.write() as connection:
            connection.execute(lane.insert().values(key="a", worker="w", until_ms=1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.read() as connection:
        assert connection.execute(sa.select(lane)).all() == []


def test_writers_wait_for_one_another(database: Database) -> None:
    with database.write() as connection:
        connection.execute(lane.insert().values(key="a", worker="", until_ms=0))

    def add(_: int) -> None:
        for _ in range(25):
            with database.write() as connection:
                # Locked for update: without, PostgreSQL's default isolation would lose some.
                query = sa.select(lane.c.until_ms).where(lane.c.key == "a").with_for_update()
                seen = connection.execute(query).scalar_one()
                connection.execute(lane.update().values(until_ms=seen + 1))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    with database.read() as connection:
        assert connection.execute(sa.select(lane.c.until_ms)).scalar_one() == 100


@pytest.mark.parametrize("url", ["mysql://root:secret@localhost/x", "ciguard.db", "", "sqlite"])
def test_another_kind_of_database_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_database(url)
    assert "secret" not in str(caught.value)
    assert "postgresql://" in str(caught.value)


def test_a_database_out_of_reach_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(RemoteError) as caught:
        open_database("postgresql://me:secret@127.0.0.1:1/none")
    assert caught.value.where == "postgresql://me:***@127.0.0.1:1/none"
    assert "secret" not in str(caught.value)
    with pytest.raises(RemoteError, match="unable to open") as caught:
        open_database(f"sqlite:///{tmp_path}/none/ciguard.db")
    assert "folder exists" in caught.value.fix


def test_a_used_up_pool_is_no_bug(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ciguard.db'}"
    database = Database(sa.create_engine(url, pool_size=1, max_overflow=0, pool_timeout=0.01))
    with database.read(), pytest.raises(RemoteError, match="no connection"), database.read():
        pass
    database.close()


def test_values_of_a_statement_are_in_no_error(database: Database) -> None:
    row = {"key": "a", "worker": "the digest of a secret", "until_ms": 0}
    with pytest.raises(sa.exc.IntegrityError) as caught, database.write() as connection:
        connection.execute(lane.insert(), [row, row])
    assert "the digest" not in str(caught.value)
