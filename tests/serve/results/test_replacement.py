"""The rows of a run that is judged again: those of one verdict, and each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from stored_results import (
    AT_MS,
    HOUR_MS,
    REPOSITORY,
    Results,
    add_judged_run,
    compact_all,
    row,
    rows_of_run,
    run,
)

from ciguard.errors import RemoteError
from ciguard.model import UnitKey
from ciguard.serve.results import manifest
from ciguard.serve.results.retention import prune, replace_other_rows
from ciguard.serve.results.verify import check

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

    from ciguard.serve.results.rows import RunResults

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
