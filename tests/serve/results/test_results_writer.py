"""Writing runs: durable, listed, and each once."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stored_results import (
    Interrupted,
    KilledStore,
    Results,
    files,
    opened_results,
    row,
    rows_of_run,
    run,
)

from ciguard.serve.objects import FolderStore, ObjectStore, StorageError, StorageFull
from ciguard.serve.results import writer
from ciguard.serve.results.manifest import FilesReplaced
from ciguard.serve.results.writer import BIG_RUN_ROWS, ResultsWriter
from ciguard.serve.state.database import Database, open_database


def test_rows_are_read_as_they_were_written(
    database: Database, objects: ObjectStore, tmp_path: Path
) -> None:
    first = run(1, [row("b", wall_s=0.0000015), row("a", wall_s=None), row("a", case="x")])
    other = run(1, [row("c")], run_attempt=2)
    with opened_results(database, objects, tmp_path / "cache") as results:
        results.writer.write([first, other])
        assert rows_of_run(results, first.key) == [
            ("a", None, None),
            ("a", "x", 1.0),
            ("b", None, 2e-06),
        ]
        assert rows_of_run(results, other.key) == [("c", None, 1.0)]
        (arrival,) = files(results)
        assert (arrival.kind, arrival.rows) == ("arrival", 4)


def test_a_run_is_written_once(results: Results) -> None:
    results.writer.write([run(1, [row("a")])])
    results.writer.write([run(1, [row("other")]), run(2, [row("b")])])
    assert rows_of_run(results, run(1, []).key) == [("a", None, 1.0)]
    assert [one.rows for one in files(results)] == [1, 1]


def test_runs_written_at_once_share_a_file(results: Results) -> None:
    slow = ResultsWriter(results.database, results.objects, results.cache.scratch, batch_s=1.0)
    slow.write([run(0, [row("a")])])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: slow.write([run(number, [row("a")])]), range(1, 9)))
    slow.close()
    rows = [file.rows for file in files(results)]
    assert (rows[0], sum(rows)) == (1, 9)
    assert len(rows) <= 4  # a busy machine may not start all within a second


def test_a_big_run_is_a_file_of_its_own(results: Results) -> None:
    big = run(1, [row(f"test_{number}") for number in range(BIG_RUN_ROWS)])
    results.writer.write([big, run(2, [row("a")])])
    assert sorted(one.rows for one in files(results)) == [1, BIG_RUN_ROWS]


def test_a_run_without_rows_is_no_file(results: Results) -> None:
    results.writer.write([run(1, [])])
    results.writer.write([])
    assert files(results) == []


def test_writers_of_one_run_leave_it_once(database: Database, tmp_path: Path) -> None:
    objects = FolderStore(tmp_path / "objects")
    with (
        opened_results(database, objects, tmp_path / "cache") as one,
        opened_results(database, objects, tmp_path / "cache") as other,
        ThreadPoolExecutor(2) as pool,
    ):
        for number in range(5):
            written = run(number, [row("a")])
            list(pool.map(lambda it, runs=[written]: it.writer.write(runs), (one, other)))
        assert sum(one.rows for one in files(one)) == 5


def test_after_a_kill_before_the_listing_it_is_written_again(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'results.db'}")
    store = KilledStore(tmp_path / "objects")
    with opened_results(database, store, tmp_path / "cache") as results:
        store.kill_at(1)
        with pytest.raises(Interrupted):
            results.writer.write([run(1, [row("a")])])
        assert rows_of_run(results, run(1, []).key) == []
        results.writer.write([run(1, [row("a")])])
        assert rows_of_run(results, run(1, []).key) == [("a", None, 1.0)]
        assert len(list(store.list("results"))) == 2
    database.close()


def test_a_full_disk_leaves_nothing(results: Results) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
    try:
        with pytest.raises(StorageFull, match="the disk is full"):
            results.writer.write([run(1, [row(f"test_{number}") for number in range(1000)])])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(results) == []
    assert list(results.objects.list("results")) == []
    results.writer.write([run(1, [row("a")])])
    assert rows_of_run(results, run(1, []).key) == [("a", None, 1.0)]


def test_an_unwritable_store_is_named(results: Results, tmp_path: Path) -> None:
    (tmp_path / "objects/results").write_bytes(b"")
    with pytest.raises(StorageError):
        results.writer.write([run(1, [row("a")])])


def test_a_file_is_not_listed_long_after_it_was_put(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LIST_WITHIN_S", -1.0)  # or the clock jumped meanwhile
    with pytest.raises(FilesReplaced, match="the clock has jumped"):
        results.writer.write([run(1, [row("a")])])
    assert files(results) == []


def test_strange_texts_and_numbers_are_stored(results: Results) -> None:
    strange = run(
        1,
        [
            row("half \ud83d surrogate", message="\ud83d"),
            row("nul \0, \U0001f600", wall_s=1e300, cpu_s=float("nan"), peak_bytes=2**60),
            row("", suite="", variant="", shard="", peak_delta_bytes=-4096),
        ],
        repository_id=2**62,
    )
    results.writer.write([strange])
    assert rows_of_run(results, strange.key) == [
        ("", None, 1.0),
        ("half ? surrogate", None, 1.0),
        ("nul \0, \U0001f600", None, None),
    ]
