"""Flaky and broken tests by their failure rate on the default branch."""

from __future__ import annotations

from collections.abc import Container
from hashlib import sha256
from random import Random

import duckdb
import sqlalchemy as sa
from stored_results import (
    AT_MS,
    HOUR_MS,
    REPOSITORY,
    Results,
    add_judged_run,
    compact_all,
    files,
    row,
    run,
)

from ciguard.render.pages import FlakyTest
from ciguard.serve.results.flaky_tests import find_flaky_tests
from ciguard.serve.state import schema
from ciguard.serve.state.run_rows import CommitRun


def find(results: Results, *units: str) -> dict[str, FlakyTest]:
    return {one.unit: one for one in results.read.flaky(REPOSITORY, 0, units).value.tests}


def test_test_that_fails_15_percent_without_retry_is_flaky(results: Results) -> None:
    failing = {"flake": {3, 9, 17, 20, 21, 33}, "broken": range(30, 40), "over": range(10, 16)}
    for number in range(80):  # every second one of a pull request
        at, is_other = divmod(number, 2)
        rows = [
            row(name, "failed" if at in runs or is_other else "passed", wall_s=2.0)
            for name, runs in failing.items()
        ]
        if at % 4 == 0:
            rows.append(row("slow", suite="e2e", tries=3 if number == 8 else 1, wall_s=5.0))
        if number >= 74:  # from 2:00 of a day
            rows.append(row("new", "failed" if at in (37, 39) and not is_other else "passed"))
        results.writer.write([run(number, rows)])
        add_judged_run(results.database, run(number, rows), f"{number}", is_base=not is_other)
        if number == 40:
            compact_all(results)
    found = find(results)
    assert list(found) == ["flake", "new", "slow", "broken"]  # the broken ones last
    flake, new, slow, broken = found.values()
    assert (new.failures, new.runs) == (2, 3), "its own runs"
    assert (flake.failures, flake.runs, flake.interval, flake.base) == (6, 40, "7..29 %", "main")
    assert (flake.first_ms, flake.last_ms) == (AT_MS + 6 * HOUR_MS, AT_MS + 66 * HOUR_MS)
    assert (flake.last_run_id, flake.lost_s) == (66, 12.0)
    assert (broken.red_runs, broken.red_since_sha, broken.is_broken) == (10, "60", True)
    # A retry is a failure of the run, of the runs that have the suite; its failed tries are lost.
    assert (slow.failures, slow.runs, slow.retried, slow.lost_s) == (1, 10, 1, 10.0)
    assert find(results, "broken", "over") == {"broken": broken}
    compact_all(results)  # of the sums, the day is known
    assert find(results)["new"].runs == 4


def judge(failing: Container[int]) -> tuple[FlakyTest, ...]:
    runs = [CommitRun(at, 1, "main", f"{at}", at, 1, is_base_branch=True) for at in range(40)]
    troubled = [("u", "v", "a", at, 1, 1, 1, None) for at in range(40) if at in failing]
    return find_flaky_tests(troubled, [], [("u", "v", each) for each in runs], {})


def test_broken_is_what_chance_does_not_explain() -> None:
    always, newest, flaky_before = range(40), [39], [2, 5, *range(30, 40)]
    assert all(judge(failing)[0].is_broken for failing in (always, newest, flaky_before))
    often, twice = [at for at in range(40) if at % 3 or at > 36], [2, 39]
    assert not any(judge(failing)[0].is_broken for failing in (often, twice))


def test_flaky_tests_are_seldom_called_broken() -> None:
    random = Random(1)
    found = [judge([at for at in range(40) if random.random() < 0.15]) for _ in range(2000)]
    assert sum(one.is_broken for tests in found for one in tests) < 20
    assert found.count(()) < 60  # all failures in one period


def test_troubled_file_of_an_earlier_version_has_no_times(results: Results) -> None:
    for number, name in enumerate("ab"):
        judged = run(number, [row(name, tries=2, wall_s=3.0)])
        results.writer.write([judged])
        add_judged_run(results.database, judged, name)
        if name == "a":
            compact_all(results)
    (troubled,) = files(results, "troubled")
    path = results.objects.local_path(troubled.name)
    assert path is not None
    duckdb.sql(f"COPY (SELECT * EXCLUDE (wall_us) FROM '{path}') TO '{path}.old' (FORMAT parquet)")
    path.with_name(f"{path.name}.old").replace(path)
    results.cache.forget([troubled.name])
    update = sa.update(schema.file).where(schema.file.c.name == troubled.name)
    digest, size = sha256(path.read_bytes()).hexdigest(), path.stat().st_size
    with results.database.write() as connection:
        connection.execute(update.values(sha256=digest, bytes=size))
    assert {name: one.lost_s for name, one in find(results).items()} == {"b": 3.0, "a": None}
