"""Compares every file of the manifest with what was written: its SHA-256 and its rows."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ciguard.serve.objects import NoSuchObject, ObjectStore
from ciguard.serve.results import manifest
from ciguard.serve.state import schema
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy.engine import Connection

    from ciguard.serve.results.manifest import ManifestFile
    from ciguard.serve.state.database import Database


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that is not what was written, why, and whose rows it holds."""

    file: ManifestFile
    problem: str
    runs: tuple[RunKey, ...]


@dataclass(frozen=True, slots=True)
class ResultsCheck:
    """What was found.

    Attributes:
        files, rows: what was compared, each row of a pair once.
        unwritten: runs that were judged and have no rows.
    """

    files: int
    rows: int
    damaged: tuple[DamagedFile, ...] = ()
    unwritten: tuple[RunKey, ...] = ()


def check(database: Database, objects: ObjectStore) -> ResultsCheck:
    """Read every file and compare it; a file that is replaced meanwhile is left out.

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
        problem = _compare_content(objects, file)
        if problem:
            problems[file.name] = problem
    damaged = []
    with database.read() as connection:
        for file in files:
            if file.name in problems and manifest.is_listed(connection, [file.name]):
                runs = tuple(manifest.runs_of(connection, [file]))
                damaged.append(DamagedFile(file, problems[file.name], runs))
    rows = sum(file.rows for file in files if file.kind in ("arrival", "by_run"))
    return ResultsCheck(len(files), rows, tuple(damaged), unwritten)


def forget(database: Database, damaged: Sequence[DamagedFile]) -> list[RunKey]:
    """Take damaged files and the rest of their pairs out; give the runs that have no rows now.

    What has the raw artifacts of these runs still writes them again. Sums by day of runs whose
    rows were pruned are lost with their file.
    """
    pairs = {one.file.pair for one in damaged if one.file.pair}
    names = {one.file.name for one in damaged}
    with database.write() as connection:
        manifest.lock(connection)
        gone = [
            one
            for one in manifest.files(connection)
            if one.name in names or (one.pair and one.pair in pairs)
        ]
        runs = manifest.runs_of(connection, gone)
        manifest.remove(connection, [one.name for one in gone])
    return runs


def _unwritten(connection: Connection) -> Iterator[RunKey]:
    run, names = schema.run.c, ("repository_id", "run_id", "run_attempt")
    has_rows = sa.exists().where(*(schema.file_run.c[name] == run[name] for name in names))
    columns = [run[name] for name in names]
    query = sa.select(*columns).where(run.planned > 0, ~has_rows).order_by(*columns)
    for row in connection.execute(query):
        yield RunKey(*row)


def _compare_rows(files: Sequence[ManifestFile], run_rows: dict[str, int]) -> dict[str, str]:
    """By name, what is wrong with the counts of the manifest itself."""
    problems: dict[str, str] = {}
    rows: Counter[tuple[str, str]] = Counter({(file.pair, file.kind): file.rows for file in files})
    for file in files:
        expected = run_rows.get(file.name, 0)
        if file.kind in ("arrival", "by_run") and expected != file.rows:
            problems[file.name] = f"it has {file.rows} rows, its runs have {expected}"
        elif file.kind == "by_test" and rows[file.pair, "by_run"] != file.rows:
            problems[file.name] = f"it has {file.rows} rows, {rows[file.pair, 'by_run']} by run"
    return problems


def _compare_content(objects: ObjectStore, file: ManifestFile) -> str:
    digest = hashlib.sha256()
    try:
        for chunk in objects.chunks(file.name):
            digest.update(chunk)
    except NoSuchObject:
        return "it is missing"
    if digest.hexdigest() != file.sha256:
        return f"its SHA-256 is {digest.hexdigest():.12}..., stored: {file.sha256:.12}..."
    return ""
