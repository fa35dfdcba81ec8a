"""Files become fewer, and every row stays there exactly once in either order."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from stored_results import (
    REPOSITORY,
    Interrupted,
    KilledStore,
    Results,
    compact_all,
    damage,
    files,
    opened_results,
    row,
    rows_of_run,
    run,
)

from ciguard.model import UnitKey
from ciguard.serve.objects import ObjectStore, StorageError
from ciguard.serve.results import compaction
from ciguard.serve.results.compaction import FAN_IN, MAX_ROWS, MIN_AGE_S, choose_sources, sweep
from ciguard.serve.results.manifest import FilesReplaced, ManifestFile
from ciguard.serve.results.parquet_columns import Kind
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import lanes
from ciguard.serve.state.database import Database, open_database
from ciguard.serve.state.run_key import RunKey


def write_each(results: Results, runs: Sequence[RunResults]) -> None:
    for one in runs:
        results.writer.write([one])


def kinds(results: Results) -> list[str]:
    return sorted(one.kind for one in files(results))


def rows_of_test(results: Results, unit: str) -> list[tuple[int, float | None]]:
    answer = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", unit))
    assert not answer.missing_runs
    return [(one.run_id, one.wall_s) for one in answer.value]


def test_sixteen_arrivals_become_a_pair(
    database: Database, objects: ObjectStore, tmp_path: Path
) -> None:
    runs = [run(number, [row("a", wall_s=number), row("b")]) for number in range(FAN_IN)]
    with opened_results(database, objects, tmp_path / "cache") as results:
        write_each(results, runs[:-1])
        assert not results.compactor.compact()
        write_each(results, runs[-1:])
        assert results.compactor.compact()
        assert kinds(results) == ["by_day", "by_run", "by_test"]
        assert {one.rows for one in files(results) if one.kind != "by_day"} == {2 * FAN_IN}
        for number, one in enumerate(runs):
            found = rows_of_run(results, one.key)
            assert found == [("a", None, number * 1.0), ("b", None, 1.0)]
        expected = [(number, number * 1.0) for number in reversed(range(FAN_IN))]
        assert rows_of_test(results, "a") == expected
        assert not results.compactor.compact()


def test_files_are_sorted_and_their_columns_are_whole_numbers(results: Results) -> None:
    units = ["b", "a", "c"]
    write_each(
        results,
        [run(number, [row(unit, cpu_s=0.5) for unit in units]) for number in range(3, 0, -1)],
    )
    compact_all(results)
    (by_run,), (by_test,) = files(results, "by_run"), files(results, "by_test")
    path = str(results.objects.local_path(by_run.name))
    found = duckdb.execute("SELECT run_id, unit FROM read_parquet($p)", {"p": path}).fetchall()
    assert found == [(n, unit) for n in range(1, 3 + 1) for unit in sorted(units)]
    path = str(results.objects.local_path(by_test.name))
    found = duckdb.execute("SELECT key, run_id FROM read_parquet($p)", {"p": path}).fetchall()
    assert found == sorted(found)
    types = duckdb.execute("DESCRIBE SELECT * FROM read_parquet($p)", {"p": path}).fetchall()
    assert {name: type_ for name, type_, *_ in types} == {
        "key": "BIGINT",
        "repository_id": "BIGINT",
        "run_id": "BIGINT",
        "run_attempt": "INTEGER",
        "at_ms": "BIGINT",
        **dict.fromkeys(("suite", "variant", "unit", "case"), "VARCHAR"),
        **dict.fromkeys(("outcome", "ending", "status", "tries"), "UTINYINT"),
        **dict.fromkeys(("wall_us", "peak_bytes", "peak_delta_bytes", "message"), "BIGINT"),
    }


def test_a_message_is_stored_once(results: Results) -> None:
    text = "AssertionError: " + "x" * 3000
    for number in range(3):
        failed = [row(unit, "failed", message=text) for unit in "abc"]
        results.writer.write([run(number, failed)])
    compact_all(results)
    (messages,) = files(results, "messages")
    assert messages.rows == 1
    answer = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", "a"))
    assert {one.message for one in answer.value} == {text}


def test_sums_that_no_column_holds_are_not_measured(results: Results) -> None:
    longest = [row("a", "failed", case=f"{number}", wall_s=1e9) for number in range(700)]
    write_each(results, [run(number, longest) for number in range(FAN_IN)])
    assert results.compactor.compact()
    (sums,) = results.read.ranking(REPOSITORY, "failures", 0).value
    assert (sums.failed, sums.wall_s) == (700 * FAN_IN, None)


def test_pairs_become_greater_ones(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN_IN", 2)
    for number in range(8):
        results.writer.write([run(number, [row(unit) for unit in "abcd"])])
        while results.compactor.compact():
            pass
    assert [one.rows for one in files(results, "by_run")] == [32]
    assert kinds(results) == ["by_day", "by_run", "by_test"]
    assert [number for number, _ in rows_of_test(results, "c")] == list(range(7, -1, -1))
    assert all(len(rows_of_run(results, run(number, []).key)) == 4 for number in range(8))
    (sums,) = results.read.ranking(REPOSITORY, "time", 0, limit=1).value
    assert (sums.runs, sums.wall_s) == (8, 8.0)


def fake(number: int, rows: int, kind: Kind = "by_run", pair: str | None = None) -> ManifestFile:
    own = f"pair-{number}" if pair is None else pair
    return ManifestFile(f"results/{kind}/{number}", kind, own, rows, rows * 10, "0")


def pair(number: int, rows: int) -> list[ManifestFile]:
    return [fake(number, rows, kind) for kind in ("by_run", "by_test")]


def test_pairs_of_like_size_are_chosen_until_they_are_great() -> None:
    assert choose_sources([]) == []
    arrivals = [fake(number, 10, "arrival", "") for number in range(FAN_IN + 3)]
    assert choose_sources(arrivals) == arrivals[:FAN_IN]
    big_runs = [fake(number, 100_000, "arrival", "") for number in range(3)]
    assert choose_sources(big_runs[:2]) == []
    assert choose_sources(big_runs) == big_runs
    small = [one for number in range(FAN_IN) for one in pair(number, 1000 + number)]
    assert choose_sources(small) == small
    assert choose_sources([*small[:-2], *pair(99, 100_000)]) == []
    great = [one for number in range(FAN_IN) for one in pair(number, MAX_ROWS // 3)]
    assert choose_sources(great) == great[:6]
    full = [one for number in range(FAN_IN) for one in pair(number, MAX_ROWS // 2 + 1)]
    assert choose_sources(full) == []
    assert choose_sources(arrivals[:FAN_IN], damaged={arrivals[3].name}) == []


def test_the_number_of_files_is_logarithmic() -> None:
    listed: list[ManifestFile] = []
    for number in range(3000):
        listed.append(fake(number, 50, "arrival", ""))
        while sources := choose_sources(listed):
            rows = sum(one.rows for one in sources if one.kind in ("arrival", "by_run"))
            listed = [one for one in listed if one not in sources]
            listed += pair(number + 1_000_000 + rows, rows)
        assert len(listed) < 2 * FAN_IN * 4


def test_one_process_compacts_at_a_time(results: Results) -> None:
    write_each(results, [run(number, [row("a")]) for number in range(FAN_IN)])
    with results.database.write() as connection:
        assert lanes.acquire(connection, compaction.LANE, "another")
    assert not results.compactor.compact()
    with results.database.write() as connection:
        lanes.release(connection, compaction.LANE, "another")
    assert results.compactor.compact()


def test_a_second_compaction_of_the_same_files_changes_nothing(
    database: Database, tmp_path: Path, objects: ObjectStore
) -> None:
    with opened_results(database, objects, tmp_path / "cache") as results:
        write_each(results, [run(number, [row("a")]) for number in range(3)])
        sources = files(results)
        results.compactor.rewrite(sources)
        with pytest.raises(FilesReplaced):
            results.compactor.rewrite(sources)
        assert [number for number, _ in rows_of_test(results, "a")] == list(range(2, -1, -1))
        assert len(list(objects.list("results"))) == 3 + len(files(results))


def test_threads_that_rewrite_do_not_mix_their_files(results: Results) -> None:
    """A compaction, and what is dropped or pruned meanwhile."""
    sources = []
    for first in range(0, 16, 2):
        known = {one.name for one in files(results)}
        runs = [run(number, [row("a"), row("b")]) for number in (first, first + 1)]
        write_each(results, runs)
        sources.append([one for one in files(results) if one.name not in known])
    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(results.compactor.rewrite, sources))
    assert all(len(rows_of_run(results, RunKey(REPOSITORY, one, 1))) == 2 for one in range(16))


def test_a_thread_compacts_after_a_failure_too(results: Results) -> None:
    write_each(results, [run(number, [row("a")]) for number in range(FAN_IN)])
    folder = results.objects.local_path("results/by_run")
    assert folder is not None
    folder.write_bytes(b"")  # no file can be put there
    stop = threading.Event()
    with pytest.raises(StorageError):
        results.compactor.run(stop)
    folder.unlink()
    thread = threading.Thread(target=results.compactor.run, args=(stop,))
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while kinds(results) != ["by_day", "by_run", "by_test"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        stop.set()
        thread.join()


def test_a_damaged_file_is_left_and_the_others_go_on(results: Results) -> None:
    write_each(results, [run(number, [row("a")]) for number in range(FAN_IN + 1)])
    damage(results, files(results)[2])
    assert not results.compactor.compact()
    assert results.compactor.compact()
    assert kinds(results) == ["arrival", "by_day", "by_run", "by_test"]


def test_the_sweep_deletes_what_is_not_listed_after_an_hour(
    objects: ObjectStore, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'results.db'}")
    with opened_results(database, objects, tmp_path / "cache") as results:
        write_each(results, [run(number, [row("a")]) for number in range(3)])
        compact_all(results)
        objects.put_new("results/arrival/no/nobodys.parquet", b"1")
        objects.put_new("artifacts/no/nobodys.zip", b"1")
        assert sweep(database, objects, results.cache, time.time() + MIN_AGE_S - 60) == 0
        assert sweep(database, objects, results.cache, time.time() + MIN_AGE_S + 60) == 4
        assert sorted(one.name for one in objects.list("results")) == sorted(
            one.name for one in files(results)
        )
        assert len(list(objects.list("artifacts"))) == 1
        assert len(rows_of_test(results, "a")) == 3
    database.close()


class ManyProcesses(RuleBasedStateMachine):
    """Writes, compactions, sweeps and kills in any order: each row is there exactly once."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        place = Path(self.folder.name)
        self.database = open_database(f"sqlite:///{place / 'results.db'}")
        self.store = KilledStore(place / "objects")
        self.opened = opened_results(self.database, self.store, place / "cache")
        self.results = self.opened.__enter__()
        self.written: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            self.opened.__exit__(None, None, None)
            self.database.close()
            self.folder.cleanup()

    @rule(number=st.integers(0, 12), rows=st.integers(1, 3), kill_at=st.sampled_from([None, 0, 1]))
    def write(self, number: int, rows: int, kill_at: int | None) -> None:
        self.store.kill_at(kill_at)
        try:
            self.results.writer.write([run(number, [row(unit) for unit in "abc"[:rows]])])
        except Interrupted:
            return
        self.written.setdefault(number, rows)

    @rule(kill_at=st.sampled_from([None, 0, 1, 2, 3]))
    def compact(self, kill_at: int | None) -> None:
        self.store.kill_at(kill_at)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(compaction, "FAN_IN", 3)
                self.results.compactor.compact()
        except Interrupted:
            pass

    @rule()
    def sweep(self) -> None:
        sweep(self.database, self.store, self.results.cache, time.time() + MIN_AGE_S + 60)

    @invariant()
    def every_row_is_there_once(self) -> None:
        if not hasattr(self, "opened"):
            return
        for number, rows in self.written.items():
            assert [name for name, *_ in rows_of_run(self.results, run(number, []).key)] == list(
                "abc"[:rows]
            )
        for position, unit in enumerate("abc"):
            expected = sorted(
                (n for n, rows in self.written.items() if rows > position), reverse=True
            )
            assert [number for number, _ in rows_of_test(self.results, unit)] == expected


ManyProcesses.TestCase.settings = settings(
    max_examples=3, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestManyProcesses = ManyProcesses.TestCase


@pytest.mark.soak
class TestManyMoreProcesses(ManyProcesses.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(ManyProcesses.TestCase.settings, max_examples=100, stateful_step_count=40)
