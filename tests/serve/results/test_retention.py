"""Rows that go: of a dropped repository, of old runs whose sums stay, of a run judged again."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Connection
from stored_results import (
    AT_MS,
    HOUR_MS,
    REPOSITORY,
    Results,
    add_judged_run,
    compact_all,
    damage,
    files,
    opened_results,
    row,
    rows_of_run,
    run,
)

from ciguard.errors import RemoteError
from ciguard.model import UnitKey
from ciguard.serve.objects import FolderStore
from ciguard.serve.results import manifest
from ciguard.serve.results.compaction import (
    drop_repository,
    prune,
    prune_answers,
    replace_other_rows,
)
from ciguard.serve.results.rows import RunResults
from ciguard.serve.state import run_rows, schema
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import is_run
from ciguard.serve.work.repair import check, remove_damaged

OTHER = REPOSITORY + 1
RUNS = 5


def write(
    results: Results, runs: int, repository_id: int = REPOSITORY, first: int = 0
) -> list[RunResults]:
    """Runs with numbers from `first`, an hour apart, of which each has a file."""
    made = [
        run(number, [row("a"), row("b", "failed", message="no")], repository_id=repository_id)
        for number in range(first, first + runs)
    ]
    for one in made:
        results.writer.write([one])
        add_judged_run(results.database, one, "abc")
    return made


def test_a_dropped_repository_leaves_nothing(database: Database, tmp_path: Path) -> None:
    objects = FolderStore(tmp_path / "objects")
    with opened_results(database, objects, tmp_path / "cache") as results:
        write(results, 2)
        others = write(results, 2, OTHER)
        compact_all(results)
        write(results, 3, first=50)
        drop_repository(database, results.compactor, REPOSITORY)
        drop_repository(database, results.compactor, REPOSITORY)
        with database.read() as connection:
            held = manifest.runs_of(connection, manifest.files(connection))
        assert held == [one.key for one in others]
        assert all(len(rows_of_run(results, one.key)) == 2 for one in others)
        assert results.read.ranking(REPOSITORY, "time", 0).value == ()
        assert [one.runs for one in results.read.ranking(OTHER, "time", 0).value] == [2, 2]
        drop_repository(database, results.compactor, OTHER)
        assert files(results) == []


def test_damaged_file_keeps_nothing_of_a_dropped_repository_but_itself(results: Results) -> None:
    write(results, 1)
    damage(results, files(results, "arrival")[0])  # of no other repository: it need not be read
    others = write(results, 1, OTHER, first=1)
    write(results, 1, first=2)
    results.compactor.rewrite(files(results)[1:])
    write(results, 1, first=3)
    damage(results, files(results, "by_test")[0])
    (left,) = drop_repository(results.database, results.compactor, REPOSITORY)
    assert [one.pair for one in files(results)] == [left.pair] * len(files(results))
    lost = remove_damaged(results.database, check(results.database, results.objects).damaged)
    assert len(lost) == 2
    assert drop_repository(results.database, results.compactor, REPOSITORY) == ()
    results.writer.write(others)
    assert [len(rows_of_run(results, one.key)) for one in others] == [2]


@pytest.mark.parametrize("compacted", [True, False])
def test_sums_of_old_runs_stay(results: Results, compacted: bool) -> None:
    runs = write(results, RUNS)
    if compacted:
        compact_all(results)
    prune(results.database, results.compactor, AT_MS + 3 * HOUR_MS)
    assert [len(rows_of_run(results, one.key)) for one in runs] == [0] * 3 + [2] * 2
    found = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", "b")).value
    assert [(one.run_id, one.message) for one in found] == [(n, "no") for n in range(4, 2, -1)]
    assert [one.runs for one in results.read.ranking(REPOSITORY, "time", 0).value] == [5, 5]
    results.writer.write(runs)  # pruned runs are not written again
    assert [len(rows_of_run(results, one.key)) for one in runs] == [0] * 3 + [2] * 2
    before = files(results)
    prune(results.database, results.compactor, AT_MS + 3 * HOUR_MS)
    assert files(results) == before


def test_answers_of_old_runs_go(results: Results) -> None:
    runs = write(results, 2)
    names = [f"answers/{REPOSITORY}/{one.key.run_id}-1.json.gz" for one in runs]
    with results.database.write() as connection:
        for one, name in zip(runs, names, strict=True):
            results.objects.put_new(name, b"{}")
            is_it = is_run(schema.run, one.key)
            connection.execute(schema.run.update().where(is_it).values(answer=name))
    prune_answers(results.database, results.objects, AT_MS + HOUR_MS)
    with results.database.read() as connection:
        assert run_rows.answers(connection) == [(runs[1].key, names[1])]
        assert connection.execute(schema.run.select()).all()[0].planned == 2
    assert [one.name for one in results.objects.list("answers")] == names[1:]


def test_of_old_pairs_only_sums_stay(results: Results) -> None:
    runs = write(results, RUNS)
    compact_all(results)
    prune(results.database, results.compactor, AT_MS + 99 * HOUR_MS)
    assert [one.kind for one in files(results)] == ["by_day"]
    assert rows_of_run(results, runs[0].key) == []
    assert [one.failed for one in results.read.ranking(REPOSITORY, "failures", 0).value] == [5]
    write_later = [run(number, [row("a")]) for number in range(100, 100 + RUNS)]
    for one in write_later:
        results.writer.write([one])
    compact_all(results)
    totals = {one.unit: one.runs for one in results.read.ranking(REPOSITORY, "time", 0).value}
    assert totals == {"a": 10, "b": 5}
    assert check(results.database, results.objects).damaged == ()


def test_check_names_damaged_files_and_their_runs(results: Results) -> None:
    runs = write(results, RUNS)
    compact_all(results)
    runs += write(results, 1, first=RUNS)
    found = check(results.database, results.objects)
    assert (found.files, found.rows, found.damaged) == (6, 2 * (RUNS + 1), ())
    assert found.unwritten == ()
    by_kind = {one.kind: one for one in files(results)}
    damage(results, files(results, "arrival")[0])
    results.objects.delete([by_kind["by_test"].name])
    found = check(results.database, results.objects)
    problems = {one.file.kind: one.problem for one in found.damaged}
    assert set(problems) == {"arrival", "by_test"}
    assert problems["by_test"] == "the object is missing"
    assert problems["arrival"].startswith("its SHA-256 is ")
    lost = remove_damaged(results.database, found.damaged)
    assert len(lost) == RUNS + 1
    found = check(results.database, results.objects)
    assert (found.damaged, found.unwritten) == ((), tuple(sorted(lost)))
    results.writer.write(runs)
    assert all(len(rows_of_run(results, one.key)) == 2 for one in runs)
    assert [one.runs for one in results.read.ranking(REPOSITORY, "time", 0).value] == [6, 6]


FIRST = [run(number, [row("a"), row("b", "missing", wall_s=None)]) for number in range(3)]
AGAIN = run(1, [row("b", "failed", wall_s=3.0, message="no"), row("a")])


def judge(
    results: Results, judged: RunResults, confirm: Exception | None = None
) -> list[manifest.ManifestFile]:
    """Write the rows of a run as a worker does; the files there are then."""

    def check_lease(_: Connection) -> None:
        if confirm is not None:
            raise confirm

    results.writer.write([judged])
    replace_other_rows(results.database, results.compactor, results.writer, judged, check_lease)
    with results.database.read() as connection:
        return manifest.files(connection)


@pytest.fixture(params=["arrivals", "pair"])
def stored(request: pytest.FixtureRequest, results: Results) -> Results:
    for one in FIRST:
        judge(results, one)
        add_judged_run(results.database, one, "abc")
    if request.param == "pair":
        compact_all(results)
    return results


def runs_of(results: Results, unit: str) -> list[tuple[int, int, float | None]]:
    found = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", unit)).value
    return [(one.run_id, one.cases, one.wall_s) for one in found]


def test_rows_of_the_new_verdict_take_the_place_of_the_old_ones(stored: Results) -> None:
    judge(stored, AGAIN)
    assert rows_of_run(stored, AGAIN.key) == [("a", None, 1.0), ("b", None, 3.0)]
    assert rows_of_run(stored, FIRST[0].key) == [("a", None, 1.0), ("b", None, None)]
    assert runs_of(stored, "b") == [(2, 1, None), (1, 1, 3.0), (0, 1, None)]
    sums = stored.read.ranking(REPOSITORY, "time", 0).value
    assert {one.unit: (one.runs, one.failed, one.wall_s) for one in sums} == {
        "a": (3, 0, 3.0),
        "b": (3, 1, 3.0),
    }
    compact_all(stored)
    assert stored.read.ranking(REPOSITORY, "time", 0).value == sums
    found = check(stored.database, stored.objects)
    assert (found.rows, found.damaged, found.unwritten) == (6, (), ())


def test_same_rows_are_left_in_whatever_order(stored: Results) -> None:
    files = judge(stored, FIRST[1])
    assert judge(stored, run(1, reversed(FIRST[1].rows))) == files


def test_worker_that_lost_the_run_replaces_nothing(stored: Results) -> None:
    files = judge(stored, FIRST[1])
    with pytest.raises(RemoteError, match="another worker"):
        judge(stored, AGAIN, RemoteError("another worker has this run"))
    assert judge(stored, FIRST[1]) == files


def test_pruned_rows_are_not_written_again(stored: Results) -> None:
    prune(stored.database, stored.compactor, AT_MS + 2 * HOUR_MS)
    files = judge(stored, FIRST[2])
    assert judge(stored, AGAIN) == files


def test_a_run_alone_in_its_file_is_replaced(results: Results) -> None:
    judge(results, FIRST[1])
    compact_all(results)
    assert [one.kind for one in judge(results, AGAIN)] == ["arrival"]
    assert runs_of(results, "b") == [(1, 1, 3.0)]
