"""Questions about results: runs, tests, the worst and the flaky ones, with damaged files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest
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
    run,
)

from ciguard.errors import UsageError
from ciguard.model import UnitKey
from ciguard.serve.objects import StorageError, open_objects
from ciguard.serve.results import manifest, read_model
from ciguard.serve.results.duckdb_engine import EngineError, fetch
from ciguard.serve.results.flaky_tests import MAX_RESULTS, Coverage, choose_runs
from ciguard.serve.results.manifest import ManifestFile
from ciguard.serve.results.parquet_columns import DAY_MS
from ciguard.serve.results.queries import ResultFilters, parse_filters
from ciguard.serve.results.read_model import CasePage, CaseSums
from ciguard.serve.state.database import open_database
from ciguard.serve.state.run_rows import CommitRun

RUN = run(
    1,
    [
        row("a::test_One", wall_s=3, peak_bytes=100, shard="unit-2", tries=2),
        row("a::test_two", "failed", wall_s=2, message="no: 'two'"),
        row("b", case="CASE%", wall_s=None, suite="slow"),
        row("b", "missing", wall_s=None, variant=""),
    ],
)


def units(page: CasePage) -> list[str]:
    return [one.case or one.unit for one in page.rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["b", "a::test_two", "CASE%", "a::test_One"]),
        ({"sort": "name"}, ["a::test_One", "a::test_two", "CASE%", "b"]),
        ({"sort": "-name"}, ["CASE%", "b", "a::test_two", "a::test_One"]),
        ({"sort": "wall"}, ["a::test_two", "a::test_One", "CASE%", "b"]),
        ({"sort": "-wall"}, ["a::test_One", "a::test_two", "CASE%", "b"]),
        ({"sort": "-peak"}, ["a::test_One", "CASE%", "b", "a::test_two"]),
        ({"text": "TEST_o"}, ["a::test_One"]),
        ({"text": "case%"}, ["CASE%"]),
        ({"text": "%"}, ["CASE%"]),
        ({"text": "'; DROP TABLE x"}, []),
        ({"outcome": "failed"}, ["a::test_two"]),
        ({"suite": "slow"}, ["CASE%"]),
        ({"variant": ""}, ["b"]),
        ({"shard": "unit-2", "other": "?"}, ["a::test_One"]),
    ],
)
def test_a_run_is_sorted_and_searched(
    results: Results, query: dict[str, str], expected: list[str]
) -> None:
    results.writer.write([RUN, run(2, [row("other")])])
    page = results.read.run_page(RUN.key, parse_filters(query)).value
    assert units(page) == expected
    assert page.sums.total == len(expected)


def test_a_run_has_counts_messages_and_pages(results: Results) -> None:
    results.writer.write([RUN])
    filters = ResultFilters(page=2, page_size=1)
    page = results.read.run_page(RUN.key, filters).value
    assert [(one.unit, one.message) for one in page.rows] == [("a::test_two", "no: 'two'")]
    assert page.sums == CaseSums(4, {"passed": 2, "failed": 1, "missing": 1}, 1, 1)
    beyond = results.read.run_page(RUN.key, replace(filters, page=99)).value
    assert beyond == replace(page, rows=())
    unknown = results.read.run_page(replace(RUN.key, run_attempt=9), filters)
    assert (unknown.value, unknown.missing_runs) == (CasePage(), ())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"sort": "wall_us; --"}, "sort: expected one of name, .* found 'wall_us; --'"),
        ({"outcome": "bad"}, "outcome: expected one of skipped, .* found 'bad'"),
        ({"page": "0"}, "page: expected a whole number from 1 to 100000, found '0'"),
        ({"page": "9" * 50}, "page: expected a whole number"),
        ({"size": "7"}, "size: expected one of 25, 50, 100"),
        ({"size": "\u0661"}, "size: expected one of 25, 50, 100"),
        ({"text": "x" * 501}, "text: expected at most 500 characters"),
    ],
)
def test_a_bad_filter_is_refused_in_words(query: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_filters(query)


def test_the_last_runs_of_a_test(results: Results) -> None:
    for number in range(1, 6):
        cases = [row("a", case="x", wall_s=number), row("a", "failed", case="y", wall_s=1)]
        results.writer.write([run(number, [*cases, row("b")])])
        if number == 3:
            compact_all(results)
    results.writer.write([run(3, [row("a", case="x", peak_bytes=7)], run_attempt=2)])
    key = UnitKey("unit", "py311", "a")
    found = results.read.unit_runs(REPOSITORY, key, limit=5).value
    assert [one.run_id for one in found] == [5, 4, 3, 3, 2]
    assert [one.run_attempt for one in found[2:4]] == [2, 1]
    assert (found[0].cases, found[0].wall_s, found[0].at_ms) == (2, 6.0, AT_MS + 5 * HOUR_MS)
    assert found[0].outcome == "failed"
    assert (found[2].cases, found[2].peak_bytes) == (1, 7)
    only = results.read.unit_runs(REPOSITORY, key, case="x").value
    assert (len(only), only[0].wall_s) == (6, 5.0)
    assert results.read.unit_runs(REPOSITORY + 1, key).value == ()


def test_ranking_is_sums_of_pairs_and_arrivals(results: Results) -> None:
    for number in range(6):
        if number == 4:
            compact_all(results)
        rows = [row("slow", wall_s=5), row("large", wall_s=1, peak_bytes=1000 + number)]
        flaky = row("flaky", tries=2 if number % 2 else 1, wall_s=None)
        results.writer.write([run(number, [*rows, flaky, row("slow", case="x", wall_s=5)])])
    results.writer.write([run(0, [row("slow", wall_s=999)], repository_id=REPOSITORY + 1)])
    slow, large = results.read.ranking(REPOSITORY, "time", 0).value
    assert (slow.unit, slow.runs, slow.results, slow.wall_s) == ("slow", 6, 12, 60.0)
    assert (slow.measured, large.wall_s, large.peak_bytes) == (6, 6.0, 1005)
    (largest,) = results.read.ranking(REPOSITORY, "peak", 0).value
    assert largest == large
    (flaky_sums,) = results.read.ranking(REPOSITORY, "flaky", 0).value
    assert (flaky_sums.unit, flaky_sums.flaky, flaky_sums.measured) == ("flaky", 3, 0)
    assert results.read.ranking(REPOSITORY, "failures", 0).value == ()
    assert results.read.ranking(REPOSITORY, "time", AT_MS + DAY_MS).value == ()


@pytest.mark.parametrize("compacted", [False, True])
def test_flaky_tests_passed_and_failed_at_one_commit(results: Results, compacted: bool) -> None:
    runs = [
        run(1, [row("retried", tries=2), row("both"), row("failing", "failed"), row("gone")]),
        run(1, [row("retried"), row("both", "failed"), row("failing", "failed")], run_attempt=2),
        run(2, [row("both"), row("failing"), row("gone", "failed")]),
    ]
    for one, head in zip(runs, ("aaa", "aaa", "bbb"), strict=True):
        results.writer.write([one])
        add_judged_run(results.database, one, head)
    if compacted:
        compact_all(results)
    found = results.read.flaky(REPOSITORY, 0).value
    assert (found.from_ms, found.is_partial) == (0, False)
    both, retried = found.tests
    assert (both.unit, both.retried, both.contradicted) == ("both", 0, 1)
    assert (both.last_run_id, both.last_run_attempt) == (1, 2)
    assert (retried.unit, retried.retried, retried.contradicted) == ("retried", 1, 0)
    assert results.read.flaky(REPOSITORY, AT_MS + DAY_MS).value.tests == ()


def test_flaky_tests_are_those_of_all_rows(results: Results) -> None:
    random = Random(7)
    names = [f"a.py::it's [{number}]" for number in range(40)]
    passed: dict[str, set[str]] = {name: set() for name in names}
    failed: dict[str, set[str]] = {name: set() for name in names}
    retried: dict[str, set[int]] = {name: set() for name in names}
    for number in range(1, 13):
        head, rows = f"commit {number // 3}", []
        for name in names:
            outcome, tries = random.choices(["passed", "failed", "skipped"], [8, 1, 1])[0], 1
            if outcome == "passed":
                passed[name].add(head)
                tries = random.choices([1, 2], [9, 1])[0]
                retried[name] |= {number} if tries == 2 else set()
            elif outcome == "failed":
                failed[name].add(head)
            rows.append(row(name, outcome, tries=tries))
        results.writer.write([run(number, rows)])
        add_judged_run(results.database, run(number, rows), head)
        if number == 8:
            compact_all(results)
    expected = {name: (len(retried[name]), len(passed[name] & failed[name])) for name in names}
    found = results.read.flaky(REPOSITORY, 0).value.tests
    assert {one.unit: (one.retried, one.contradicted) for one in found} == {
        name: numbers for name, numbers in expected.items() if any(numbers)
    }
    assert {numbers > (0, 0) for numbers in expected.values()} == {True, False}
    assert sum(contradicted for _, contradicted in expected.values()) > 10


def test_too_many_flaky_tests_are_those_of_a_later_time(results: Results) -> None:
    retried = [row(name, tries=2) for name in ("a", "b")]
    runs = [run(1, [*retried, row("c", "failed")]), run(2, retried), run(3, [row("c")])]
    for one in runs:
        results.writer.write([one])
        add_judged_run(results.database, one, "aaa")
    assert len(results.read.flaky(REPOSITORY, 0, limit=5).value.tests) == 3
    found = results.read.flaky(REPOSITORY, 0, limit=4).value
    assert (found.from_ms, found.is_partial) == (runs[0].at_ms + 1, True)
    later = results.read.flaky(REPOSITORY, found.from_ms).value
    assert later == replace(found, is_partial=False)
    assert {(one.retried, one.contradicted) for one in found.tests} == {(1, 0)}


@pytest.mark.parametrize(
    ("planned", "expected"),
    [
        (1, Coverage(0, [1, 2, 3, 4], is_partial=False)),
        (MAX_RESULTS // 3, Coverage(0, [1, 2], is_partial=True)),
    ],
)
def test_passes_are_looked_for_in_so_many_results(planned: int, expected: Coverage) -> None:
    heads = enumerate(("other", "a", "a", "b", "b", "c"))
    runs = [CommitRun(at, 1, "", head, 1000 * at, planned, False) for at, head in heads]
    troubled = [(5, 1, 5000, 1), (2, 1, 4000, 1), (4, 1, 2000, 1)]
    assert choose_runs(troubled, runs, 0) == expected


def test_runs_of_a_damaged_file_are_named_and_not_counted(results: Results) -> None:
    for number in range(3):
        results.writer.write([run(number, [row("a", wall_s=number + 1)])])
    damage(results, files(results, "arrival")[1])
    damaged = run(1, []).key
    page = results.read.run_page(damaged, ResultFilters())
    assert (page.value, page.missing_runs) == (CasePage(), (damaged,))
    assert results.read.run_page(run(0, []).key, ResultFilters()).missing_runs == ()
    found = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", "a"))
    assert [one.run_id for one in found.value] == [2, 0]
    assert found.missing_runs == (damaged,)
    sums = results.read.ranking(REPOSITORY, "time", 0)
    assert [one.wall_s for one in sums.value] == [4.0]
    assert sums.missing_runs == (damaged,)
    assert results.read.flaky(REPOSITORY, 0).missing_runs == (damaged,)


def test_runs_of_a_damaged_pair_are_those_of_the_repository(results: Results) -> None:
    for number in range(4):
        results.writer.write([run(number, [row("a")], repository_id=REPOSITORY + number % 2)])
    compact_all(results)
    (by_test,) = files(results, "by_test")
    damage(results, by_test)
    found = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", "a"))
    assert found.value == ()
    assert [one.run_id for one in found.missing_runs] == list(range(0, 4, 2))
    assert results.read.run_page(run(0, []).key, ResultFilters()).missing_runs == ()


def test_without_its_message_a_row_is_still_a_row(results: Results) -> None:
    for number in range(4):
        results.writer.write([run(number, [row("a", "failed", message="no")])])
    compact_all(results)
    damage(results, files(results, "messages")[0])
    page = results.read.run_page(run(0, []).key, ResultFilters())
    assert ([one.message for one in page.value.rows], page.missing_runs) == ([None], ())


def test_a_missing_file_is_damage(results: Results) -> None:
    results.writer.write([RUN])
    assert results.read.run_page(RUN.key, ResultFilters()).value.sums.total == 4
    results.objects.delete([files(results, "arrival")[0].name])
    page = results.read.run_page(RUN.key, ResultFilters())
    assert (page.value, page.missing_runs) == (CasePage(), (RUN.key,))


def test_files_that_are_replaced_while_asking_are_asked_again(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        results.writer.write([run(number, [row("a")])])
    find = manifest.files

    def find_then_replace(*arguments: object) -> list[ManifestFile]:
        monkeypatch.undo()
        found = find(*arguments)  # type: ignore[arg-type]  # as they come
        compact_all(results)
        results.objects.delete([one.name for one in found])
        return found

    monkeypatch.setattr(manifest, "files", find_then_replace)
    found = results.read.unit_runs(REPOSITORY, UnitKey("unit", "py311", "a"))
    assert (len(found.value), found.missing_runs) == (4, ())


def test_results_in_s3_are_read_through_the_cache(
    bucket: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'results.db'}")
    objects = open_objects(*bucket)
    with opened_results(database, objects, tmp_path / "cache") as results:
        results.writer.write([RUN])
        (arrival,) = files(results, "arrival")
        for _ in range(2):
            assert results.read.run_page(RUN.key, ResultFilters()).value.sums.total == 4
            objects.delete([arrival.name])
        results.cache.forget([arrival.name])
        assert results.read.run_page(RUN.key, ResultFilters()).missing_runs == (RUN.key,)
    database.close()


@pytest.mark.parametrize("statement", ["SELECT * FROM read_csv('/etc/passwd')", "SET threads = 4"])
def test_the_engine_touches_no_other_file(results: Results, statement: str) -> None:
    with pytest.raises((EngineError, duckdb.PermissionException, duckdb.InvalidInputException)):
        fetch(results.read._engine, statement, {})


def test_question_that_needs_too_much_memory_is_asked_once(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def count(*values: Any) -> Any:
        asked.append(values[1])
        return fetch(values[0], "SELECT list(repeat('x', 1000)) FROM range(1000000)", {})

    results.writer.write([RUN])
    monkeypatch.setattr(read_model, "fetch", count)
    with pytest.raises(StorageError, match="Out of Memory"):
        results.read.run_page(RUN.key, ResultFilters())
    assert len(asked) == 1
