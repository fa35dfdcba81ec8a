"""DuckDB in this process, with limits of memory, threads and folders.

All SQL is ours, and values are bound, never formatted into it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from ciguard.serve.objects import StorageError, StorageFull
from ciguard.serve.results.parquet_columns import PARQUET

READ_THREADS: Final = 2
READ_MEMORY: Final = "96MB"
WRITE_MEMORY: Final = "192MB"  # a larger sort uses the disk


class EngineError(StorageError):
    """DuckDB could not read or write a file."""


def open_engine(
    folders: Iterable[Path], spill: Path, *, threads: int, memory: str
) -> duckdb.DuckDBPyConnection:
    """Open an empty database in memory, with access to these folders only.

    Args:
        folders: folders for reading and writing files.
        spill: folder for sorts that are larger than the memory.
    """
    allowed = [f"{folder}/" for folder in (*folders, spill)]
    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": threads,
            "memory_limit": memory,
            "temp_directory": str(spill),
            # Else the process keeps a hundred megabytes after a large query.
            "allocator_flush_threshold": "8MB",
            "allocator_background_threads": True,
            "autoload_known_extensions": False,
            "autoinstall_known_extensions": False,
        },
    )
    connection.execute("SET allowed_directories = $allowed", {"allowed": allowed})
    # For all cursors, not only this one; files never change.
    connection.execute("SET GLOBAL parquet_metadata_cache = true")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def copy_to(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    values: Mapping[str, Any],
    path: Path,
    options: str = PARQUET,
) -> int:
    """Write the rows of a query to a new Parquet file, and return their number."""
    statement = f"COPY ({query}) TO $path {options}"
    with explain_engine():
        bound = _parameters(statement, {**values, "path": str(path)})
        written = connection.execute(statement, bound).fetchone()
    assert written is not None
    return int(written[0])


def fetch(
    connection: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, Any]
) -> Sequence[tuple[Any, ...]]:
    """Return all rows of a query; threads may call it at once."""
    with explain_engine(), connection.cursor() as cursor:
        return cursor.execute(query, _parameters(query, values)).fetchall()


def _parameters(query: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the query uses: DuckDB refuses others."""
    return {name: value for name, value in values.items() if f"${name}" in query}


@contextlib.contextmanager
def explain_engine() -> Iterator[None]:
    """Turn DuckDB's exceptions about files and memory into errors with advice."""
    try:
        yield
    except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
        first = str(error).partition("\n")[0]
        if "No space left" in first or "File too large" in first:
            raise StorageFull("the disk is full", where="DuckDB") from error
        kind = EngineError if isinstance(error, duckdb.IOException) else StorageError
        raise kind(first, where="DuckDB") from error
