from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.history.file import History, empty, of_columns
from ciguard.history.query import (
    CHUNK_GROUPS,
    all_legs,
    chunks,
    group_bounds,
    in_complete_leg,
    is_censored,
    leg_positions,
    newest_values,
    speed_factors,
    units_of_keys,
)
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey

NAN = float("nan")
RUNS = (
    HistoryRun(1, legs=(HistoryLeg("01", complete=True), HistoryLeg("02"))),
    HistoryRun(2, legs=(HistoryLeg("01", complete=True),)),
)


def history(
    keys: list[CaseKey], rows: list[tuple[int, int, int]], runs: Any = RUNS, **columns: Any
) -> History:
    """Rows as (key, run, leg); other columns by name."""
    count = len(rows)
    places = np.array(rows, np.int32).reshape(-1, 3)
    codes = {"outcome": 1, "ending": 1, "measured_by": 0, "try_number": 1}
    reported = {
        name: np.array(columns.pop(name, [code] * count), np.uint8) for name, code in codes.items()
    }
    measures = {name: np.array(column, np.float64) for name, column in columns.items()}
    where = {name: places[:, at] for at, name in enumerate(("key", "run", "leg"))}
    return History(of_columns({**where, **reported, **measures}), runs, tuple(keys))


A, A2, B = CaseKey("", "", "a", "1"), CaseKey("", "", "a", "2"), CaseKey("s", "", "a", "a")
THREE = history(
    [A, A2, B],
    [(0, 0, 0), (0, 1, 0), (1, 1, 0), (2, 0, 1)],
    wall_s=[1.0, 2.0, 4.0, 8.0],
    ending=[1, 1, 2, 1],
)


def test_legs_of_all_runs_are_numbered_in_sequence() -> None:
    assert [leg.shard for leg in all_legs(THREE)] == ["01", "02", "01"]
    assert leg_positions(THREE, THREE.values).tolist() == [0, 2, 2, 1]
    assert in_complete_leg(THREE, THREE.values).tolist() == [True, True, True, False]
    assert is_censored(THREE.values).tolist() == [False, False, True, False]


def test_unknown_outcome_is_not_censored() -> None:
    durations = history([A], [(0, 0, 0)], outcome=[0], ending=[0])
    assert is_censored(durations.values).tolist() == [False]


@pytest.mark.parametrize("runs", [(), RUNS])
def test_empty_history_gives_empty_series(runs: Any) -> None:
    nothing = History(empty().values, runs)
    assert units_of_keys(nothing)[0] == ()
    assert newest_values(nothing.values.wall_s, nothing.values.key, 0).shape == (0, 20)
    assert speed_factors(nothing).shape == (len(all_legs(nothing)),)
    assert in_complete_leg(nothing, nothing.values).tolist() == []


@given(st.lists(st.lists(st.floats(0, 9), max_size=6), max_size=8), st.integers(1, 7))
@settings(deadline=None)
def test_newest_values_are_the_end_of_each_series(series: list[list[float]], depth: int) -> None:
    group = np.array([at for at, one in enumerate(series) for _ in one], np.int32)
    column = np.array([item for one in series for item in one])
    table = newest_values(column, group, len(series), depth)
    for row, one in zip(table, series, strict=True):
        stored = one[-depth:]
        assert row[depth - len(stored) :].tolist() == stored
        assert np.isnan(row[: depth - len(stored)]).all()
    edges = group_bounds(group, len(series))
    assert [column[a:b].tolist() for a, b in pairwise(edges)] == series


def test_parts_cover_all_groups_and_rows_in_order() -> None:
    lengths = np.arange(2 * CHUNK_GROUPS + 7) % 3  # every third group is empty
    group = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    found = list(chunks(group, len(lengths)))
    assert [groups for groups, _ in found] == [
        slice(0, CHUNK_GROUPS),
        slice(CHUNK_GROUPS, 2 * CHUNK_GROUPS),
        slice(2 * CHUNK_GROUPS, 2 * CHUNK_GROUPS + 7),
    ]
    for groups, rows in found:
        assert set(group[rows].tolist()) <= set(range(groups.start, groups.stop))
    np.testing.assert_array_equal(np.concatenate([group[rows] for _, rows in found]), group)


def test_slow_leg_is_distinguished_from_slow_tests() -> None:
    keys = [CaseKey("", "", f"{number:02d}", "") for number in range(30)]
    runs = tuple(HistoryRun(number, legs=(HistoryLeg("01"),)) for number in range(5))
    rows = [(key, run, 0) for key in range(30) for run in range(5)]
    wall = [(1.0 + key) * (1.3 if run == 3 else 1.0) for key, run, _ in rows]
    factors = speed_factors(history(keys, rows, runs, wall_s=wall))
    np.testing.assert_allclose(factors, [1, 1, 1, 1.3, 1])
    few = history(keys[:19], rows[: 19 * 5], runs, wall_s=wall[: 19 * 5])
    assert np.isnan(speed_factors(few)).all()
    quick = history(keys, rows, runs, wall_s=[item / 1000 for item in wall])
    assert np.isnan(speed_factors(quick)).all()
