from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest

from ciguard.errors import InputError
from ciguard.history import file as history_codec
from ciguard.history.file import StoredBytes
from ciguard.history.ingest import RunMetadata
from ciguard.history.stores import load
from ciguard.model import EndLine, Record, Result, ShardLine
from ciguard.serve import history_objects
from ciguard.serve.history_objects import (
    ObjectHistory,
    delete_history,
    sweep_histories,
    update_history,
)
from ciguard.serve.object_cache import DamagedObject
from ciguard.serve.objects import FolderStore
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey

FACTS = RunMetadata(sha="5" * 40, branch="main", event="push", at=datetime(2026, 11, 1, tzinfo=UTC))


@pytest.fixture
def objects(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "objects")


def record(run_id: int, attempt: int = 1, shard: str = "01") -> Record:
    at = f"2026-11-02T10:00:{run_id:02}+00:00"
    header = ShardLine(
        run_id=run_id, run_attempt=attempt, shard=shard, plan_id="p", started_at=at,
        head_sha="5" * 40, branch="main", event="push",
    )  # fmt: skip
    results = (Result(f"{shard}.py::t", "passed", wall_s=float(run_id)),)
    return Record(f"record {run_id} {shard}", header, results=results, end=EndLine("completed"))


def add(database: Database, objects: FolderStore, run_id: int, *records: Record) -> bool:
    key = RunKey(11, run_id, 1)
    found = records or (record(run_id),)
    return update_history(database, objects, key, plan=None, records=found, facts=FACTS)


def stored_runs(store: ObjectHistory) -> list[int]:
    return sorted(run.run_id for run in load(store).history.runs)


def names(objects: FolderStore) -> list[str]:
    return sorted(one.name for one in objects.list("history"))


def test_run_is_added_once_however_often_it_is_judged(
    database: Database, objects: FolderStore
) -> None:
    store = ObjectHistory(database, objects, 11)
    assert not load(store).exists
    assert add(database, objects, 1)
    assert add(database, objects, 2)
    before = names(objects)
    assert not add(database, objects, 1)
    assert names(objects) == before
    assert stored_runs(store) == [1, 2]
    row = store.current()
    assert row is not None
    assert (row.version, row.object) == (2, before[-1])
    assert row.bytes == len(objects.read(row.object))
    assert not load(ObjectHistory(database, objects, 12)).exists


def test_attempts_of_one_run_become_one(database: Database, objects: FolderStore) -> None:
    add(database, objects, 1, record(1, shard="01"), record(1, shard="02"))
    newest = (record(1, shard="01"), record(1, attempt=2, shard="02"))
    assert update_history(
        database, objects, RunKey(11, 1, 2), plan=None, records=newest, facts=FACTS
    )
    (run,) = load(ObjectHistory(database, objects, 11)).history.runs
    assert [leg.run_attempt for leg in run.legs] == [1, 2]


def test_proposed_and_foreign_runs_are_refused(database: Database, objects: FolderStore) -> None:
    facts = replace(FACTS, event="pull_request")
    with pytest.raises(InputError, match="no runs of proposed changes"):
        update_history(
            database, objects, RunKey(11, 1, 1), plan=None, records=[record(1)], facts=facts
        )
    header = record(1).header
    assert header is not None
    proposed = replace(record(1), header=replace(header, event="merge_group"))
    with pytest.raises(InputError):
        add(database, objects, 1, proposed)
    with pytest.raises(InputError, match="2"):
        add(database, objects, 1, record(2))
    assert names(objects) == []


def test_of_workers_at_once_none_loses_its_run(database: Database, objects: FolderStore) -> None:
    barrier = Barrier(4)

    def work(run_id: int) -> None:
        barrier.wait(10)
        add(database, objects, run_id)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(1, 5)))
    assert stored_runs(ObjectHistory(database, objects, 11)) == [1, 2, 3, 4]


def test_object_of_a_writer_that_died_is_used_again(
    database: Database, objects: FolderStore, tmp_path: Path
) -> None:
    other = FolderStore(tmp_path / "other")
    add(database, other, 1)
    (name,) = names(other)
    objects.put_new(name, other.read(name))
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM history")
    assert add(database, objects, 1)
    assert names(objects) == [name]


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_damaged_history_is_refused_and_begins_again_with_the_one_before(
    database: Database, objects: FolderStore, damage: str
) -> None:
    store = ObjectHistory(database, objects, 11)
    for run_id in (1, 2, 3):
        add(database, objects, run_id)
    row = store.current()
    assert row is not None
    if damage == "missing":
        objects.delete([row.object])
    else:
        path = objects.local_path(row.object)
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(DamagedObject, match=damage.replace("flipped", "damaged")):
        add(database, objects, 4)
    assert store.restart() == 2
    assert stored_runs(store) == [1, 2]
    for run_id in (4, 3):
        assert add(database, objects, run_id)
    assert stored_runs(store) == [1, 2, 3, 4]


def test_history_of_damaged_objects_only_begins_empty(
    database: Database, objects: FolderStore
) -> None:
    store = ObjectHistory(database, objects, 11)
    add(database, objects, 1)
    objects.delete(names(objects))
    assert store.restart() == 0
    assert stored_runs(store) == []
    assert add(database, objects, 1)


def test_sweep_deletes_what_no_reader_can_be_at(database: Database, objects: FolderStore) -> None:
    store = ObjectHistory(database, objects, 11)
    for run_id in range(1, 8):
        add(database, objects, run_id)
    row = store.current()
    assert row is not None
    assert row.version == 7
    content = history_codec.encode(history_codec.empty())
    lost = f"history/11/7-{'0' * 64}.ciguard"
    next_one = f"history/11/8-{'0' * 64}.ciguard"
    unknown = f"history/99/1-{'0' * 64}.ciguard"
    for name in (lost, next_one, unknown):
        objects.put_new(name, content)
    for name in names(objects):
        os.utime(objects.local_path(name), (1000, 1000))
    everything = names(objects)
    assert sweep_histories(database, objects, 1000 + history_objects.READERS_S) == 0
    assert names(objects) == everything
    # Of 8 that are not current, the newest three are left.
    assert sweep_histories(database, objects, 1001 + history_objects.READERS_S) == 4
    left = {name.split("-")[0] for name in names(objects)}
    assert left == {f"history/11/{version}" for version in (5, 6, 7, 8)} | {"history/99/1"}
    assert {row.object, lost, next_one, unknown} <= set(names(objects))
    assert stored_runs(store) == list(range(1, 8))


def test_history_of_a_removed_repository_is_deleted(
    database: Database, objects: FolderStore
) -> None:
    add(database, objects, 1)
    add(database, objects, 2)
    other = ObjectHistory(database, objects, 110)
    assert other.write(b"of another", StoredBytes(None, "0"))
    delete_history(database, objects, 11)
    assert [name.split("/")[1] for name in names(objects)] == ["110"]
    assert not load(ObjectHistory(database, objects, 11)).exists
    assert other.read().content == b"of another"
    assert add(database, objects, 1)
