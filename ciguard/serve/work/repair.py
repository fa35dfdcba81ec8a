"""Repair of damaged objects: result rows from stored archives, the rest by judging runs again.

The archives of a run and its answer (the stored verdict) restore its rows without GitHub. If one of
them is lost too, the run is judged again from the artifacts that GitHub still has.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.codec import plan_file as plan_codec
from ciguard.codec.archive import members
from ciguard.errors import InputError
from ciguard.guard.record_selection import select
from ciguard.history.stores import load
from ciguard.model import Plan, Record, UnitKey
from ciguard.serve import stored_answers
from ciguard.serve.history_objects import ObjectHistory
from ciguard.serve.object_cache import DamagedObject, is_damaged, read_checked
from ciguard.serve.objects import NoSuchObject, ObjectStore
from ciguard.serve.results.rows import RunResults, run_results
from ciguard.serve.state import histories, raw_artifacts, run_rows, work_list
from ciguard.serve.state.raw_artifacts import FILE_BYTES, RawArtifact
from ciguard.sources.artifacts import (
    LIMITS,
    PLAN,
    PLAN_FILE,
    RECORD,
    is_record_file,
    records_of_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ciguard.serve.results.writer import ResultsWriter
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


def restore_results(
    database: Database, objects: ObjectStore, writer: ResultsWriter, keys: Iterable[RunKey]
) -> dict[RunKey, str]:
    """Write the rows of runs again; return the reasons of the runs for which that fails.

    Raises:
        StorageError, RemoteError: the store or the database cannot be reached.
    """
    problems = {}
    for key in keys:
        try:
            writer.write([_stored_results(database, objects, key)])
        except (InputError, DamagedObject) as error:
            problems[key] = str(error)
    return problems


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


def _stored_results(database: Database, objects: ObjectStore, key: RunKey) -> RunResults:
    """Make the rows of a run from its stored answer and archives.

    Raises:
        InputError, DamagedObject: the answer or an archive is missing or damaged.
    """
    with database.read() as connection:
        row = run_rows.get(connection, key)
        artifacts = raw_artifacts.of_run(connection, key)
    if row is None or not row.answer or not _is_intact(objects, key, row.answer):
        raise InputError("its answer is missing or damaged", where=f"run {key.run_id}")
    verdict = stored_answers.decode(objects.read(row.answer), row.answer).verdict
    if verdict is None:
        raise InputError("it could not be judged", where=f"run {key.run_id}")
    plan, records_of_run = _read_archives(objects, artifacts)
    # The verdict holds the attempt in which each shard ran last by GitHub, and which left a record.
    recorded = {leg["shard"]: leg["run_attempt"] for leg in verdict["legs"] if leg["recorded"]}
    attempts = {shard: attempt for shard, attempt in recorded.items() if attempt is not None}
    newest = select(plan, records_of_run, attempts, key.run_id).newest
    if not recorded.keys() <= newest.keys():
        raise InputError("records of it are not stored", where=f"run {key.run_id}")
    missing = [
        (UnitKey(unit["suite"], unit["variant"], unit["unit"]), unit["shard"])
        for unit in verdict["missing"]
    ]
    records = {shard: record for shard, record in newest.items() if shard in recorded}
    return run_results(key, row.started_at_ms, records, missing)


def _read_archives(
    objects: ObjectStore, artifacts: Sequence[RawArtifact]
) -> tuple[Plan, tuple[Record, ...]]:
    """Read plan and records of all judged attempts, as when the run was judged.

    Raises:
        InputError: no plan or several plans are stored, or a file cannot be read.
        DamagedObject: an archive is missing, or not what was stored.
        StorageError: the store cannot be reached.
    """
    plans = [artifact for artifact in artifacts if artifact.name.startswith(PLAN)]
    if len(plans) != 1:
        raise InputError(f"{len(plans)} plans are stored", where="artifacts")
    source = f"{plans[0].name}/{PLAN_FILE}"
    plan_files = _files(objects, plans[0], lambda name: name == PLAN_FILE, FILE_BYTES)
    if not plan_files:
        raise InputError(f"no {PLAN_FILE} in it", where=plans[0].name)
    files: list[tuple[str, bytes]] = []
    remaining_bytes = FILE_BYTES
    for artifact in artifacts:
        if artifact.name.startswith(RECORD):
            contents = _files(objects, artifact, is_record_file, remaining_bytes)
            remaining_bytes -= sum(len(content) for _, content in contents)
            files += [(f"{artifact.name}/{name}", content) for name, content in contents]
    return plan_codec.decode(plan_files[0][1], source), records_of_files(files)


def _files(
    objects: ObjectStore,
    artifact: RawArtifact,
    is_wanted: Callable[[str], bool],
    max_bytes: int,
) -> list[tuple[str, bytes]]:
    stream = io.BytesIO(read_checked(objects, artifact.object, artifact.sha256, "archive"))
    limits = replace(LIMITS, bytes=max_bytes)
    return list(members(stream, artifact.name, limits, is_wanted=is_wanted))
