"""A run that is in the history is counted once, however it is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from compare.compare_factories import case, files_of, run_of

from ciguard.codec.record.reader import read_records
from ciguard.compare.baseline_selection import match_in_history
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import headline, run_text
from ciguard.history.file import History, decode, encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge

WALL = {1: 10.000001, 2: 10.123457, 3: 10.5}


def legs(n: int) -> dict[str, list[Any]]:
    return {
        "01": [case("a", 1.000123 * n, 100), case("b", 0.2)],
        "02": [case("c", 0.3, outcome="failed"), case("d", None)],
    }


def facts(n: int) -> dict[str, Any]:
    """Of a run by hand: no id, no attempt, no branch."""
    return {
        "run_id": None,
        "run_attempt": None,
        "branch": None,
        "wall_s": WALL[n],
        "started_at": f"2026-11-{n:02}T10:00:00Z",
    }


def by_hand(n: int) -> Run:
    return run_of(legs(n), f"run{n}", **facts(n))


@pytest.fixture(scope="module")
def history() -> History:
    """Runs 1 and 2 as `history add RUN --run-id N` keeps them, written and read."""
    found = [
        history_of(
            read_records(files_of(legs(n), **facts(n)).items()),
            RunMetadata(run_id=n, sha=f"{n}" * 40, branch="main"),
        )
        for n in (1, 2)
    ]
    return decode(encode(merge(*found)), "history")


def test_run_without_id_is_matched_by_its_measurements(history: History) -> None:
    known = match_in_history(by_hand(2), history)
    assert (known.run_id, known.branch, known.in_history, known.name) == (2, "main", True, "run2")
    assert known.is_same_as(match_in_history(by_hand(2), history))
    assert not match_in_history(by_hand(3), history).in_history


@pytest.mark.parametrize("changed", ["wall", "value", "shard"])
def test_run_with_different_measurements_is_not_matched(history: History, changed: str) -> None:
    run = by_hand(2)
    wall_s = run.wall_s.copy()
    if changed == "value":
        wall_s[0] += 0.000001
    rest = tuple(
        replace(
            leg,
            wall_s=9.0 if changed == "wall" else leg.wall_s,
            shard="07" if changed == "shard" else leg.shard,
        )
        for leg in run.legs
    )
    assert match_in_history(replace(run, wall_s=wall_s, legs=rest), history).run_id is None


def test_run_id_takes_precedence_over_measurements(history: History) -> None:
    assert match_in_history(replace(by_hand(2), run_id=7), history).run_id == 7
    assert not match_in_history(replace(by_hand(2), run_id=7), history).in_history
    assert match_in_history(replace(by_hand(3), run_id=1), history).in_history


def test_base_without_id_counts_once_in_the_baseline(history: History) -> None:
    found = compare_run(by_hand(3), history, [by_hand(2)])
    assert [run.run_id for run in found.baseline.runs] == [1, 2]
    assert found.baseline.ordered_by_date == len(found.baseline.runs)
    assert found.base is not None
    assert run_text(found.base).startswith("run2, run 2 of the history, 2222222, main, ")
    assert found.memory.verdict == "not enough data"
    assert "3 baseline runs on; there are 2" in headline(found)


def test_the_candidate_is_never_in_its_own_baseline(history: History) -> None:
    found = compare_run(by_hand(2), history, [by_hand(1)])
    assert [run.run_id for run in found.baseline.runs] == [1]
    assert [one.reason for one in found.baseline.excluded_runs] == ["candidate"]
    alone = compare_run(by_hand(2), history)
    assert alone.base is not None
    assert alone.base.run_id == 1


def test_run_without_id_compared_with_its_history_entry_is_same_run(history: History) -> None:
    found = compare_run(by_hand(2), history, [match_in_history(by_hand(2), history)])
    assert headline(found) == (
        "INCONCLUSIVE: both runs are the same, so there is nothing to compare"
    )
