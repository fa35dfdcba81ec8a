"""Check and repair of stored objects: the service judges again the runs of damaged ones.

SHA-256 and rows of each result file must be those of the manifest. The service judges from the
artifacts that GitHub still has, otherwise from their stored archives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from ciguard.history.file import VALUES_PER_KEY
from ciguard.history.stores import load
from ciguard.serve import raw_archives, stored_answers
from ciguard.serve.history_objects import HistoryRow, ObjectHistory, current_rows
from ciguard.serve.object_cache import DamagedObject, compare_content, is_damaged
from ciguard.serve.objects import NoSuchObject, ObjectStore
from ciguard.serve.results import manifest
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.state import run_rows, schema, work_list
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey, is_same_run, key_columns


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
        has_rows = sa.exists().where(is_same_run(schema.file_run, schema.run))
        planned = sa.select(*key_columns(schema.run)).where(schema.run.c.planned > 0, ~has_rows)
        rows_of_key = connection.execute(planned.order_by(*key_columns(schema.run)))
        unwritten = tuple(RunKey(*row) for row in rows_of_key)
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


def damaged_answers(database: Database, objects: ObjectStore) -> dict[RunKey, str]:
    """Return the names of answers that are missing or damaged, by run.

    Raises:
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    with database.read() as connection:
        answers = run_rows.answers(connection)
    return {key: name for key, name in answers if not _is_intact(objects, key, name)}


def damaged_histories(database: Database, objects: ObjectStore) -> list[HistoryRow]:
    """Return the rows of histories that are missing or damaged.

    Raises:
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    with database.read() as connection:
        rows = current_rows(connection)
    return [row for row in rows if is_damaged(objects, row.object, row.sha256)]


def restart_history(database: Database, objects: ObjectStore, repository_id: int) -> list[RunKey]:
    """Go back to the last intact version of a history; return the runs that are missing in it.

    Raises:
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    store = ObjectHistory(database, objects, repository_id)
    store.restart()
    run_ids = {run.run_id for run in load(store).history.runs}
    with database.read() as connection:
        newest = run_rows.newest(
            connection, repository_id, is_base_branch=True, limit=VALUES_PER_KEY
        )
    return [run.key for run in newest if run.run_id not in run_ids]


def judge_again(database: Database, objects: ObjectStore, keys: Iterable[RunKey]) -> int:
    """Put runs back on the work list; return their number.

    Damaged objects of the runs are deleted first, because an object is stored only under a free
    name. Intact archives stay: GitHub may have deleted the artifacts.
    """
    count = 0
    for key in keys:
        with database.read() as connection:
            stored = raw_archives.of_run(connection, key)
            row = run_rows.get(connection, key)
        damaged = [
            archive.object
            for archive in stored
            if is_damaged(objects, archive.object, archive.sha256)
        ]
        if row is not None and row.answer and not _is_intact(objects, key, row.answer):
            damaged.append(row.answer)
        objects.delete(damaged)
        with database.write() as connection:
            raw_archives.delete(connection, damaged)
            count += work_list.retry(connection, key)
    return count


def _is_intact(objects: ObjectStore, key: RunKey, name: str) -> bool:
    """Return whether the content of an answer has the digest in its name."""
    try:
        return stored_answers.object_name(key, objects.read(name)) == name
    except NoSuchObject:
        return False
