"""Repair of damaged objects: the service judges again the runs that they belong to.

It judges them from the artifacts that GitHub still has, else from their stored archives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.history.stores import load
from ciguard.serve import stored_answers
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.object_cache import is_damaged
from ciguard.serve.objects import NoSuchObject, ObjectStore
from ciguard.serve.state import histories, raw_artifacts, run_rows, work_list

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ciguard.serve.state.database import Database
    from ciguard.serve.state.histories import HistoryRow
    from ciguard.serve.state.run_key import RunKey

HISTORY_RUNS: Final = 20  # a history keeps so many values of each test


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
        rows = histories.all_current(connection)
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
        newest = run_rows.newest(connection, repository_id, is_base_branch=True, limit=HISTORY_RUNS)
    return [run.key for run in newest if run.run_id not in run_ids]


def judge_again(database: Database, objects: ObjectStore, keys: Iterable[RunKey]) -> int:
    """Put runs back on the work list; return their number.

    Damaged objects of the runs are deleted first, because an object is stored only under a free
    name. Intact archives stay: GitHub may have deleted the artifacts.
    """
    count = 0
    for key in keys:
        with database.read() as connection:
            stored = raw_artifacts.of_run(connection, key)
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
            raw_artifacts.delete(connection, damaged)
            count += work_list.retry(connection, key)
    return count


def _is_intact(objects: ObjectStore, key: RunKey, name: str) -> bool:
    """Return whether the content of an answer has the digest in its name."""
    try:
        return stored_answers.object_name(key, objects.read(name)) == name
    except NoSuchObject:
        return False
