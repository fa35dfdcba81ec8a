"""The database of the service, SQLite or PostgreSQL: its tables' version, transactions and clock.

SQLite is one file for one machine; several machines share PostgreSQL. All SQL is SQLAlchemy Core.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.expression import FunctionElement

from ciguard.errors import InputError, RemoteError, UsageError
from ciguard.github.retry import retry_context

DEFAULT_URL: Final = "sqlite:///ciguard.db"
DAY_S: Final = 24 * 60 * 60
BUSY_S: Final = 30.0  # wait of a writer of SQLite for another writer
REVISION: Final = "0006"  # of the tables, as in the newest migration
MIGRATION_LOCK: Final = 0x63696775  # of pg_advisory_lock: one process migrates at a time
_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}
_VERSION: Final = sa.table("alembic_version", sa.column("version_num", sa.String))
_MIGRATIONS: Final = Path(__file__).with_name("migrations")
_FIXES: Final = {
    "sqlite": "see that its folder exists, and that this user can write to it",
    "postgresql": "see that the server runs, and that host, user and password are right",
}
_URL_FIX: Final = "pass --database sqlite:///FILE or postgresql://USER@HOST/NAME"


class now_ms(FunctionElement[int]):
    """SQL: the database's clock at this statement, milliseconds since 1970."""

    type = sa.BigInteger()
    inherit_cache = True


@compiles(now_ms, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:
    # unixepoch('subsec') needs SQLite 3.42; a double of days is exact to 0.1 ms.
    return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"


@compiles(now_ms, "postgresql")
def _postgresql_now(*_: Any, **__: Any) -> str:
    # Not now(): that is when the transaction began.
    return "CAST(extract(epoch from clock_timestamp()) * 1000 AS BIGINT)"


def after_ms(wait_s: float) -> sa.ColumnElement[int]:
    """Return the SQL of a time that is `wait_s` seconds from now, by the database's clock."""
    return now_ms() + round(wait_s * 1000)


def is_older(time_ms: sa.ColumnElement[int], days: float) -> sa.ColumnElement[bool]:
    """Return the condition that a time is more than so many days ago."""
    return time_ms < after_ms(-days * DAY_S)


def read_clock_ms(connection: Connection) -> int:
    """Return the time of the database's clock, milliseconds since 1970."""
    clock_ms: int = connection.execute(sa.select(now_ms())).scalar_one()
    return clock_ms


def engine_insert(connection: Connection, table: sa.Table) -> Any:
    """Return an INSERT of this engine, which has `on_conflict_do_nothing` and `_do_update`.

    Insert many rows in the order of their keys: two transactions of PostgreSQL that insert the same
    rows in different orders wait for each other.
    """
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


@dataclass(frozen=True, slots=True)
class Database:
    """An open database; threads may share it, and each transaction is one connection."""

    engine: Engine
    statement_s: float | None = None  # after which PostgreSQL ends a statement of `read`

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; commit it if the block ends without an exception.

        SQLite has one writer at a time: the database is locked from the start, so that no
        transaction fails because another wrote before it.
        """
        with (
            _explain(self.engine),
            self.engine.connect().execution_options(is_writing=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that reads: one state of SQLite, in PostgreSQL one a statement."""
        with _explain(self.engine), self.engine.connect() as connection, connection.begin():
            if self.statement_s is not None and self.is_shared:
                limit_ms = round(self.statement_s * 1000)
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit_ms}")
            yield connection

    @property
    def is_shared(self) -> bool:
        """Return whether processes of several machines can use the database."""
        return self.engine.dialect.name == "postgresql"

    def close(self) -> None:
        self.engine.dispose()


def open_database(url: str) -> Database:
    """Open a database and migrate its tables, one process at a time.

    Raises:
        UsageError: the URL is malformed, or of another kind of database.
        RemoteError: the database cannot be reached, or refuses.
        InputError: a newer ciguard wrote the tables.
    """
    database = Database(_engine(url))
    try:
        with database.write() as connection:
            if database.is_shared:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
            migrate(connection)
    except BaseException:
        database.close()
        raise
    return database


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for a database in memory or another URL."""
    with contextlib.suppress(ArgumentError):
        parsed = sa.make_url(url)
        if parsed.get_backend_name() == "sqlite" and parsed.database:
            return Path(parsed.database)
    return None


def has_current_tables(connection: Connection) -> bool:
    """Return whether the tables have the version of this ciguard."""
    return _revision(connection) == REVISION


def _revision(connection: Connection) -> str | None:
    """Return the version of the tables; None without tables."""
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()


def _engine(url: str) -> Engine:
    try:
        parsed = sa.make_url(url)
        drivername = _DRIVERS[parsed.drivername]
    except (ArgumentError, KeyError) as error:
        # Not the URL, which may hold a password.
        what = f"expected {' or '.join(f'{name}://...' for name in _DRIVERS)}"
        raise UsageError(what, where="--database", fix=_URL_FIX) from error
    parsed = parsed.set(drivername=drivername)
    # Values of statements are digests, addresses and texts of people, which belong in no log.
    if parsed.get_backend_name() == "sqlite":
        engine = sa.create_engine(parsed, hide_parameters=True, connect_args={"timeout": BUSY_S})
        sa.event.listen(engine, "connect", _on_sqlite_connect)
        sa.event.listen(engine, "begin", _on_sqlite_begin)
        return engine
    try:
        return sa.create_engine(
            parsed, hide_parameters=True, pool_pre_ping=True, pool_size=10, pool_timeout=BUSY_S
        )
    except (ArgumentError, NoSuchModuleError) as error:
        raise UsageError(str(error), where="--database", fix=_URL_FIX) from error


def _on_sqlite_connect(connection: Any, _: object) -> None:
    connection.isolation_level = None  # `_on_sqlite_begin` begins transactions
    # If two processes switch a new file to WAL, SQLite lets one fail without the wait of BUSY_S,
    # because each may hold the lock for which the other waits.
    retries = retry_context(
        on=lambda error: getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY,
        attempts=None,
        timeout=BUSY_S,
        wait_initial=0.01,
        wait_max=0.2,
        wait_jitter=0.05,
    )
    for attempt in retries:
        with attempt:
            connection.execute("PRAGMA journal_mode=WAL")
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _on_sqlite_begin(connection: Connection) -> None:
    is_writing = connection.get_execution_options().get("is_writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to a revision; raise InputError if a newer ciguard wrote them."""
    current = _revision(connection)
    if current == REVISION:
        return
    # Imported here: the tables of most processes are up to date.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        what = f"its tables have the version {current}, which this ciguard does not know"
        fix = "run the ciguard that wrote it, or a newer one"
        raise InputError(what, where="--database", fix=fix)
    command.upgrade(config, revision)


@contextlib.contextmanager
def _explain(engine: Engine) -> Iterator[None]:
    """Turn the driver's exceptions about the connection into errors with advice."""
    try:
        yield
    except sa.exc.TimeoutError as error:  # of the pool, which is no error of the driver
        what, fix = "no connection became free in time", "start more processes"
        raise RemoteError(what, where=engine.url.render_as_string(), fix=fix) from error
    except DBAPIError as error:
        if not (error.connection_invalidated or isinstance(error, sa.exc.OperationalError)):
            raise
        backend = engine.url.get_backend_name()
        where = engine.url.set(drivername=backend).render_as_string(hide_password=True)
        first = str(error.orig).strip().partition("\n")[0]
        raise RemoteError(first, where=where, fix=_FIXES[backend]) from error
