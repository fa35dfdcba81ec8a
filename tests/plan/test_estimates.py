from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.history.query import CHUNK_GROUPS
from ciguard.plan.estimates import (
    DEFAULT_S,
    MIN_S,
    NEW_SPREAD_RATIO,
    SPEED_SPREAD,
    SPREAD_FROM_S,
    SPREAD_RATIO,
    WINDOW,
    Estimates,
    Observations,
    estimate_units,
    no_observations,
    split_process_starts,
)
from ciguard.run.policy.state import UNKNOWN_DELTA_BYTES

NAN = float("nan")
Row = tuple[int, float, float, bool]  # unit, wall, peak, is a lower bound


def past(*rows: Row) -> Observations:
    """Rows in order: by unit, oldest first."""
    unit, wall_s, peak, bound = zip(*rows, strict=True)
    return Observations(
        np.array(unit, np.int32),
        np.array(wall_s, np.float64),
        np.array(peak, np.float64),
        np.zeros(len(rows)),
        np.array(bound, np.bool_),
    )


def of(
    rows: Observations, count: int = 1, ancestors: dict[int, list[str]] | None = None
) -> Estimates:
    names = [(ancestors or {}).get(unit, ["all"]) for unit in range(count)]

    def members(name: str) -> list[int]:
        return [unit for unit in range(count) if name in names[unit]]

    return estimate_units(rows, count, names.__getitem__, members)


def timed(rows: tuple[tuple[int, float], ...] | list[tuple[int, float]], count: int) -> Estimates:
    """Completed times only."""
    return of(past(*((unit, wall_s, NAN, False) for unit, wall_s in rows)), count)


def test_estimates_without_history_are_equal() -> None:
    found = of(no_observations(), 3)
    assert found.wall_s.tolist() == [DEFAULT_S] * 3
    assert not found.has_history.any()
    assert np.isnan(found.peak_delta_bytes).all()
    assert found.speed_spread == SPEED_SPREAD


def test_no_observations_has_no_rows() -> None:
    nothing = no_observations()
    columns = (nothing.unit, nothing.wall_s, nothing.peak_delta_bytes, nothing.retained_bytes)
    assert {len(column) for column in (*columns, nothing.is_lower_bound)} == {0}


def test_newer_values_have_more_weight() -> None:
    rising = of(past((0, 1.0, NAN, False), (0, 2.0, NAN, False))).wall_s[0]
    falling = of(past((0, 2.0, NAN, False), (0, 1.0, NAN, False))).wall_s[0]
    assert falling < 1.5 < rising


def test_many_units_have_separate_estimates() -> None:
    count = 2 * CHUNK_GROUPS + 3
    found = timed([(unit, 1.0 + unit) for unit in range(count) for _ in range(2)], count)
    assert found.wall_s.tolist() == [1.0 + unit for unit in range(count)]


def test_only_the_last_values_count() -> None:
    old = [(0, 100.0, 9e9, False)] * 5
    new = [(0, 1.0, 5.0, False)] * WINDOW
    found = of(past(*old, *new))
    assert found.wall_s[0] == 1.0
    assert found.peak_delta_bytes[0] == 5.0


INVALID = (NAN, float("inf"), -float("inf"), -1.0)


@pytest.mark.parametrize(
    ("rows", "wall_s", "peak_bytes"),
    [
        ([(1.0, 5.0, False), (1.0, 7.0, False), (1.0, 6.0, False)], 1.0, 7.0),
        ([(10.0, NAN, False), (600.0, NAN, True)], 600.0, NAN),
        # A cut run made its slowest tests look free: the one mistake that feeds itself.
        ([(10.0, 100.0, False), (0.1, 1.0, True)], 10.0, 100.0),
        # A later completion disproves a lower bound.
        ([(10.0, NAN, False), (600.0, NAN, True), (10.0, NAN, False)], 10.0, NAN),
        *(([(2.0, NAN, False), (bad, bad, False), (bad, bad, True)], 2.0, NAN) for bad in INVALID),
    ],
)
def test_estimate_of_one_unit(
    rows: list[tuple[float, float, bool]], wall_s: float, peak_bytes: float
) -> None:
    found = of(past(*((0, *row) for row in rows)))
    assert found.wall_s[0] == wall_s
    assert found.peak_delta_bytes[0] == pytest.approx(peak_bytes, rel=0, nan_ok=True)
    assert found.has_history[0]


@pytest.mark.parametrize(
    ("clean", "least_s", "spread_s"),
    [([], 300.0, 299.0), ([10.0, 10.0], 300.0, 290.0), ([10.0, 10.0], 9.0, 0.0)],
)
def test_raised_estimate_has_the_raise_as_uncertainty(
    clean: list[float], least_s: float, spread_s: float
) -> None:
    """Of a unit stopped at its limit nobody knows how long it takes."""
    found = of(past(*((0, wall_s, NAN, False) for wall_s in clean), (0, least_s, NAN, True)))
    assert np.sqrt(found.variance_s2[0]) == pytest.approx(spread_s, rel=0.01)


def test_never_completed_unit_takes_at_least_the_sibling_mean() -> None:
    ancestors = {0: ["f", "all"], 1: ["f", "all"]}
    low = of(past((0, 1.0, NAN, True), (1, 30.0, NAN, False)), 2, ancestors)
    assert low.wall_s.tolist() == [30.0, 30.0]
    high = of(past((0, 90.0, NAN, True), (1, 30.0, NAN, False)), 2, ancestors)
    assert high.wall_s.tolist() == [90.0, 30.0]


def test_a_new_unit_takes_the_mean_of_its_nearest_siblings() -> None:
    ancestors = {
        0: ["function", "file", "all"],
        1: ["function", "file", "all"],
        2: ["other", "file", "all"],
        3: ["far", "far file", "all"],
        4: ["new", "file", "all"],
        5: ["new", "new file", "all"],
        6: ["function", "file", "all"],
    }
    rows = [
        (0, 1.0, 5.0, False),
        (1, 3.0, 9.0, False),
        (2, 8.0, NAN, False),
        (3, 100.0, 7e9, False),
    ]
    found = of(past(*rows), 7, ancestors)
    assert found.wall_s[6] == 2.0
    assert found.wall_s[4] == 4.0
    assert found.wall_s[5] == 28.0
    assert found.peak_delta_bytes[4] == 9.0
    assert np.isnan(found.peak_delta_bytes[5]), "one heavy test must not make every new one heavy"
    assert found.has_history.tolist() == [True] * 4 + [False] * 3


def test_new_unit_has_a_minimum_time() -> None:
    found = of(past((0, 0.0, NAN, False)), 2)
    assert found.wall_s.tolist() == [0.0, MIN_S]
    assert MIN_S == 0.001


def test_unit_measured_once_takes_the_relative_spread_of_others() -> None:
    rows = [(0, 9.0, NAN, False), (0, 11.0, NAN, False), (1, 100.0, NAN, False)]
    found = of(past(*rows), 2)
    ratio = np.sqrt(found.variance_s2) / found.wall_s
    assert 0.05 < ratio[0] < 0.2
    assert ratio[1] == pytest.approx(ratio[0], rel=1e-6)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.floats(allow_nan=True, allow_infinity=True, width=32),
            st.floats(0, 1e12),
            st.booleans(),
        ),
        max_size=60,
    )
)
def test_estimates_are_finite_and_not_negative(rows: list[Row]) -> None:
    found = of(past(*sorted(rows, key=lambda row: row[0])) if rows else no_observations(), 6)
    assert np.isfinite(found.wall_s).all()
    assert (found.wall_s >= 0).all()
    assert np.isfinite(found.variance_s2).all()
    assert (found.variance_s2 >= 0).all()


def test_weighted_mean_and_variance_of_a_unit() -> None:
    """10 s, then 20 s: weights 1/3 and 2/3, mean 50/3, variance 200/9 over 1 - 1/9 - 4/9."""
    found = timed([(0, 10.0), (0, 20.0)], 1)
    assert found.wall_s.tolist() == pytest.approx([50 / 3], abs=1e-6)
    assert found.variance_s2.tolist() == pytest.approx([50])
    three = timed([(0, 1.0), (0, 1.0), (0, 8.0)], 1)
    mean_s = (0.25 + 0.5 + 8) / 1.75
    squares = (0.75 * (mean_s - 1) ** 2 + (8 - mean_s) ** 2) / 1.75
    assert three.variance_s2.tolist() == pytest.approx([squares / (1 - (1 + 4 + 16) / 49)])


@pytest.mark.parametrize("values", [2, 3, 8])
def test_variance_estimate_is_unbiased(values: int) -> None:
    walls = np.random.default_rng(values).normal(100.0, 1.0, (20_000, values))
    rows = [(unit, wall_s) for unit, found in enumerate(walls.tolist()) for wall_s in found]
    assert timed(rows, len(walls)).variance_s2.mean() == pytest.approx(1.0, rel=0.05)


def test_spread_of_units_measured_once_is_the_pooled_one() -> None:
    """Units of 40 and 80 s spread by 10 and 30 %, the one of a millisecond by far more."""
    rows: list[tuple[int, float]] = []
    for unit, (first_s, second_s) in enumerate([(40.0, 44.0), (80.0, 100.0), (0.001, 0.009)]):
        rows += [(unit, first_s), (unit, second_s)]
    found = timed([*rows, (3, 10.0)], 4)
    ratios = np.sqrt(found.variance_s2) / found.wall_s
    assert ratios[3] == pytest.approx((ratios[0] + ratios[1]) / 2)
    alone = timed([(0, 10.0)], 1)
    assert np.sqrt(alone.variance_s2).tolist() == [SPREAD_RATIO * 10.0] == [3.0]
    same = timed([(0, 10.0), (0, 10.0), (1, 10.0)], 2)
    assert np.sqrt(same.variance_s2[1]) == SPREAD_RATIO * 10.0, "equal times tell nothing"


def test_spreads_of_units_below_50_ms_are_not_pooled() -> None:
    """0.05 and 0.4 s: variances far below 1 s2, and the shorter one just long enough to tell."""
    rows = [(0, 0.4), (0, 0.44), (1, 10.0)]
    found = timed(rows, 2)
    ratios = np.sqrt(found.variance_s2) / found.wall_s
    assert ratios[1] == pytest.approx(ratios[0])
    for more, reports in ((1.001, True), (0.999, False)):
        border_s = SPREAD_FROM_S * more
        near = timed([(0, border_s / 2), (0, border_s * 1.25), (1, 10.0)], 2)
        assert near.wall_s[0] == pytest.approx(border_s)
        ratios = np.sqrt(near.variance_s2) / near.wall_s
        own = np.sqrt(9 / 32)
        assert ratios[0] == pytest.approx(own)
        assert ratios[1] == pytest.approx(own if reports else SPREAD_RATIO)


def test_new_unit_has_a_large_uncertainty() -> None:
    found = timed([(0, 4.0)], 2)
    assert found.wall_s.tolist() == [4.0, 4.0]
    assert np.sqrt(found.variance_s2[1]) == NEW_SPREAD_RATIO * 4.0
    assert NEW_SPREAD_RATIO == DEFAULT_S == 1.0


def test_values_beyond_the_window_are_ignored() -> None:
    rows = [(0, 100.0), *((0, 1.0) for _ in range(WINDOW))]
    assert timed(rows, 1).wall_s.tolist() == [1.0]
    assert timed(rows[:-1], 1).wall_s[0] > 1.0
    assert WINDOW == 8


def test_times_are_rounded_to_microseconds() -> None:
    assert timed([(0, 1.2345678)], 1).wall_s.tolist() == [1.234568]


def test_retained_memory_is_the_mean_of_completed_values() -> None:
    rows = past((0, 1.0, 5.0, False), (0, 1.0, 5.0, True), (1, 1.0, 5.0, True))
    stored = np.array([100.0, 900.0, 900.0])
    found = of(replace(rows, retained_bytes=stored), 2)
    assert found.memory.retained_bytes[0] == 100.0
    assert np.isnan(found.memory.retained_bytes[1]), (
        "nobody knows what it would have kept in the end"
    )
    unknown = of(replace(rows, retained_bytes=np.full(3, NAN)), 2)
    assert np.isnan(unknown.memory.retained_bytes).all()


GIB = float(1 << 30)


def bounded(*rows: tuple[float, float, float]) -> float:
    """The peak of one unit by its (least, exact, most) of each run."""
    least, exact, most = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    times = past(*((0, 1.0, float(size), False) for size in exact))
    return float(
        of(replace(times, lower_bound_bytes=least, upper_bound_bytes=most)).peak_delta_bytes[0]
    )


def test_smallest_upper_bound_counts() -> None:
    assert bounded((NAN, NAN, 3 * GIB), (NAN, NAN, GIB), (NAN, NAN, 2 * GIB)) == GIB


def test_upper_bound_is_at_least_any_measured_peak() -> None:
    assert bounded((2 * GIB, NAN, 5 * GIB), (NAN, NAN, GIB)) == 2 * GIB
    assert bounded((NAN, 2 * GIB, NAN), (NAN, NAN, GIB)) == 2 * GIB


def test_lower_or_upper_bounds_alone_suffice() -> None:
    rows = past((0, 1.0, NAN, False), (0, 1.0, NAN, False))
    bounds = np.array([2 * GIB, GIB])
    assert of(replace(rows, upper_bound_bytes=bounds)).peak_delta_bytes[0] == GIB
    assert of(replace(rows, lower_bound_bytes=bounds)).peak_delta_bytes[0] == 2 * GIB
    a_little = np.array([1e6, NAN])
    assert np.isnan(of(replace(rows, lower_bound_bytes=a_little)).peak_delta_bytes[0])


def test_upper_bound_of_the_tree_raises_the_process_peak() -> None:
    assert bounded((GIB, GIB, 3 * GIB)) == 3 * GIB


def test_lower_bound_of_a_death_raises_the_peak_if_large() -> None:
    assert bounded((6 * GIB, NAN, NAN), (NAN, GIB, NAN)) == 6 * GIB
    assert bounded((6 * GIB, NAN, NAN)) == 6 * GIB
    assert np.isnan(bounded((1e6, NAN, NAN)))
    assert np.isnan(bounded((float(UNKNOWN_DELTA_BYTES), NAN, NAN))), "no more than any unknown one"


def starts(*rows: tuple[int, float, bool]) -> Observations:
    """Rows of unit, time, and whether the unit began its process."""
    unit, wall_s, begins = zip(*rows, strict=True)
    none = np.full(len(rows), np.nan)
    return Observations(
        np.array(unit, np.int32), np.array(wall_s), none, none, np.zeros(len(rows), np.bool_),
        begins_process=np.array(begins),
    )  # fmt: skip


def estimated_starts(observations: Observations, units: int) -> tuple[list[float], list[float]]:
    own, once_s = split_process_starts(observations, np.zeros(units, np.int64))
    found = estimate_units(own, units, lambda _: ["all"], lambda _: range(units))
    return found.wall_s.tolist(), once_s.tolist()


def test_what_a_process_pays_once_is_no_time_of_its_first_unit() -> None:
    rows = starts((0, 6.0, True), (0, 1.0, False), (1, 2.0, False), (1, 7.5, True))
    assert estimated_starts(rows, 2) == ([1.0, 2.0], [5.25])
    # Unit 2 was always the first: the rest of its time is its own.
    more = starts(
        (0, 6.0, True), (0, 1.0, False), (1, 2.0, False), (1, 7.0, True), (2, 5.5, True)
    )  # fmt: skip
    assert estimated_starts(more, 3) == ([1.0, 2.0, 0.5], [5.0])


def test_after_one_run_the_least_excess_of_several_processes_counts() -> None:
    """Four shards of a suite whose first file transforms everything: one first file is slow too."""
    firsts = [(unit, 5.0 + 3.0 * (unit == 3), True) for unit in range(4)]
    others = [(unit, 0.1, False) for unit in range(4, 20)]
    walls_s, once_s = estimated_starts(starts(*firsts, *others), 20)
    assert once_s == [pytest.approx(4.9)]
    assert walls_s == pytest.approx([0.1, 0.1, 0.1, 3.1, *[0.1] * 16])


def test_one_slow_first_unit_keeps_its_time() -> None:
    rows = starts((0, 60.0, True), (1, 0.1, False), (2, 0.1, False))
    assert estimated_starts(rows, 3) == ([60.0, 0.1, 0.1], [0.0])


def test_stopped_first_unit_keeps_its_bound() -> None:
    rows = starts((0, 1.0, False), (0, 600.0, True))
    rows = replace(rows, is_lower_bound=np.array([False, True]))
    assert estimated_starts(rows, 1) == ([600.0], [0.0])


def test_small_excess_of_first_units_is_noise() -> None:
    rows = starts((0, 1.04, True), (0, 1.0, False))
    assert estimated_starts(rows, 1) == ([1.0], [0.0])
