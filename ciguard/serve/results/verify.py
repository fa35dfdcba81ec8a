"""A check of all result files: the SHA-256 and the rows of each must be those of the manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ciguard.serve.object_cache import DamagedObject, compare_content
from ciguard.serve.results import manifest
from ciguard.serve.state import schema
from ciguard.serve.state.run_key import RunKey, is_same_run, key_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.objects import ObjectStore
    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.state.database import Database


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that differs from the manifest, the difference, and the runs whose rows it holds."""

    file: ManifestFile
    problem: str
    runs: tuple[RunKey, ...]


@dataclass(frozen=True, slots=True)
class ResultsCheck:
    """The result of a check.

    Attributes:
        files, rows: numbers of files and rows that were compared; a row that is in both files of a
            pair counts once.
        unwritten: judged runs that have no rows.
    """

    files: int
    rows: int
    damaged: tuple[DamagedFile, ...] = ()
    unwritten: tuple[RunKey, ...] = ()


def check(database: Database, objects: ObjectStore) -> ResultsCheck:
    """Read every file and compare it; leave out a file that is replaced during the check.

    Raises:
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    with database.read() as connection:
        files = manifest.files(connection)
        listed = schema.file_run.c
        query = sa.select(listed.file, sa.func.sum(listed.rows)).group_by(listed.file)
        run_rows = {name: int(rows) for name, rows in connection.execute(query)}
        unwritten = tuple(_unwritten(connection))
    problems = _compare_rows(files, run_rows)
    for file in files:
        try:
            compare_content(objects, file.stored)
        except DamagedObject as error:
            problems[file.name] = error.what
    damaged = []
    with database.read() as connection:
        for file in files:
            if file.name in problems and manifest.is_listed(connection, [file.name]):
                runs = tuple(manifest.runs_of(connection, [file]))
                damaged.append(DamagedFile(file, problems[file.name], runs))
    rows = sum(file.rows for file in files if file.kind in ("arrival", "by_run"))
    return ResultsCheck(len(files), rows, tuple(damaged), unwritten)


def remove_damaged(database: Database, damaged: Sequence[DamagedFile]) -> list[RunKey]:
    """Remove damaged files, with the rest of their pairs; return the runs without rows now.

    Sums by day of runs whose rows were pruned are lost with their file.
    """
    pairs = {damage.file.pair for damage in damaged if damage.file.pair}
    names = {damage.file.name for damage in damaged}
    with database.write() as connection:
        manifest.lock(connection)
        removed = [
            file
            for file in manifest.files(connection)
            if file.name in names or (file.pair and file.pair in pairs)
        ]
        runs = manifest.runs_of(connection, removed)
        manifest.remove(connection, [file.name for file in removed])
    return runs


def _unwritten(connection: Connection) -> Iterator[RunKey]:
    has_rows = sa.exists().where(is_same_run(schema.file_run, schema.run))
    columns = key_columns(schema.run)
    query = sa.select(*columns).where(schema.run.c.planned > 0, ~has_rows).order_by(*columns)
    for row in connection.execute(query):
        yield RunKey(*row)


def _compare_rows(files: Sequence[ManifestFile], run_rows: dict[str, int]) -> dict[str, str]:
    """Compare the counts of the manifest with one another; return problems by name of the file."""
    problems: dict[str, str] = {}
    rows: Counter[tuple[str, str]] = Counter({(file.pair, file.kind): file.rows for file in files})
    for file in files:
        expected = run_rows.get(file.name, 0)
        if file.kind in ("arrival", "by_run") and expected != file.rows:
            problems[file.name] = f"it has {file.rows} rows, its runs have {expected}"
        elif file.kind == "by_test" and rows[file.pair, "by_run"] != file.rows:
            problems[file.name] = f"it has {file.rows} rows, {rows[file.pair, 'by_run']} by run"
    return problems
