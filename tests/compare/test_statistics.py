"""The arithmetic of scales, medians and speeds, against literals and against numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy
from compare.compare_factories import column_run
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ciguard.compare.baseline_matrix import baseline_matrix
from ciguard.compare.statistics import (
    benjamini_hochberg,
    count_values,
    holm,
    medians,
    moderated_scale,
    prediction_error,
    student_975,
    student_p,
)
from ciguard.compare.suite_speed import (
    NormalizedBaseline,
    NormalizedRun,
    normalize_baseline,
    normalize_run,
)

TABLES = arrays.arrays(
    np.float64,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.floats(-1e6, 1e6) | st.just(math.nan),
)


@given(TABLES)
def test_medians_match_numpy(table: np.ndarray[Any, Any]) -> None:
    found = medians(table)
    for row, median in zip(table, found, strict=True):
        numbers = row[~np.isnan(row)]
        if len(numbers):
            assert median == pytest.approx(float(np.median(numbers)))
        else:
            assert math.isnan(median)
    assert count_values(table).tolist() == [int((~np.isnan(row)).sum()) for row in table]


def test_moderated_scale_matches_the_published_formula() -> None:
    generator = np.random.default_rng(1)
    table = generator.normal(0, 0.1, (400, 9))
    scale = moderated_scale(table, np.ones(400))
    residuals = (table - table.mean(axis=1)[:, None]) * math.sqrt(9 / 8)
    pool = 1.4826 * float(np.median(np.abs(residuals)))
    own = table.var(axis=1, ddof=1)
    assert scale == pytest.approx(np.sqrt((4 * pool**2 + 8 * own) / 12))
    assert pool == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("count", [2, 3, 5, 20])
def test_scale_is_unbiased_for_any_number_of_runs(count: int) -> None:
    table = np.random.default_rng(count).normal(0, 0.05, (4000, count))
    found = float(np.sqrt((moderated_scale(table, np.ones(4000)) ** 2).mean()))
    assert found == pytest.approx(0.05, rel=0.05)


def test_row_is_moderated_by_rows_of_similar_size() -> None:
    generator = np.random.default_rng(2)
    size = np.repeat([1.0, 2.0], 500)
    table = generator.normal(0, 1, (1000, 5)) * np.where(size == 1.0, 0.01, 0.2)[:, None]
    table[0, 1:] = np.nan  # one value: the pool alone
    scale = moderated_scale(table, size)
    assert scale[0] == pytest.approx(0.01, rel=0.15)
    assert np.median(scale[500:]) == pytest.approx(0.2, rel=0.15)


def test_no_scale_without_two_values_in_a_row() -> None:
    table = np.array([[1.0, math.nan], [math.nan, 2.0]])
    assert np.isnan(moderated_scale(table, np.ones(2))).all()


def test_empty_table_gives_empty_statistics() -> None:
    empty = np.zeros((0, 20))
    assert len(medians(empty)) == len(moderated_scale(empty, np.zeros(0))) == 0


def test_prediction_error_by_sample_size() -> None:
    found = prediction_error(np.array([0.1, 0.1, 0.1]), np.array([1, 2, 157]))
    expected = [0.1 * math.sqrt(2), 0.1 * math.sqrt(1.785), 0.1 * math.sqrt(1.01)]
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("degrees", [*range(1, 31), 100, 1000])
def test_quantiles_of_students_t(degrees: int) -> None:
    expected = scipy.stats.t.ppf(0.975, degrees)
    assert student_975(degrees) == pytest.approx(expected, 1e-12)
    for t in (0.0, 1e-3, 0.7, 2.0, 5.0, -40.0, 1e3, 1e160):
        assert student_p(t, degrees) == pytest.approx(2 * scipy.stats.t.sf(abs(t), degrees), 1e-11)


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.5))
def test_false_discoveries_are_controlled_as_scipy_does(chances: list[float], rate: float) -> None:
    adjusted = scipy.stats.false_discovery_control(chances) if chances else np.zeros(0)
    clear = np.abs(adjusted - rate) > 1e-12
    found = benjamini_hochberg(chances, rate)
    assert found[clear].tolist() == (adjusted <= rate)[clear].tolist()


def test_holm_stops_at_the_first_change_that_may_be_chance() -> None:
    assert holm([0.04, 0.01, 0.02], 0.06).tolist() == [True, True, True]
    assert holm([0.05, 0.01, 0.031], 0.06).tolist() == [False, True, False]
    assert holm([], 0.05).tolist() == []


def normalize(
    walls: list[np.ndarray[Any, Any]], leg: np.ndarray[Any, Any]
) -> tuple[NormalizedBaseline, NormalizedRun]:
    """The last of the runs against the others."""
    runs = [column_run(wall, run_id=n + 1, leg=leg) for n, wall in enumerate(walls)]
    table = baseline_matrix(runs[-1], None, (), runs[:-1])
    baseline = normalize_baseline(table.wall_s, table.wall_group, table.run_of_group)
    speeds = normalize_run(runs[-1].wall_s, runs[-1].leg, len(runs[-1].legs), baseline)
    return baseline, speeds


@pytest.mark.parametrize("seed", [0, 3, 6, 7])
def test_second_normalisation_pass_removes_the_remaining_leg_effect(seed: int) -> None:
    """Half of the legs are 30 % slower and tests are dealt anew in each run: the median of a test
    is that of slow runners as often as not, and one pass leaves 7 to 11 % of that in its values."""
    generator = np.random.default_rng(seed)
    tests, runs, legs = 200, 5, 2
    usual = np.linspace(0.1, 3.0, tests)
    wall, group = np.full((tests, 20), np.nan), np.full((tests, 20), -1, np.int64)
    for run in range(runs):
        leg = generator.integers(0, legs, tests)
        slow = np.array([1.3 if generator.random() < 0.5 else 1.0 for _ in range(legs)])
        wall[:, run], group[:, run] = usual * slow[leg], run * legs + leg
    baseline = normalize_baseline(wall, group, np.repeat(np.arange(runs), legs))
    values = baseline.log_wall[:, :runs]
    assert (values - values.mean(axis=1, keepdims=True)).std() < 1e-9


def test_slow_runner_is_a_speed_factor_not_a_change() -> None:
    wall = np.linspace(0.1, 2.0, 60)
    leg = np.arange(60) % 2
    slow = wall * np.where(leg == 1, 1.3, 1.0)
    _, speeds = normalize([wall, wall, wall, slow], leg)
    assert speeds.speed_factor == pytest.approx([1.0, 1.3])
    assert np.exp(speeds.log_wall) == pytest.approx(wall)
    assert speeds.has_speed.all()


def test_slow_runners_in_the_baseline_do_not_move_the_reference() -> None:
    wall = np.linspace(0.1, 2.0, 60)
    leg = np.arange(60) % 2
    slow = wall * np.where(leg == 0, 1.5, 1.0)
    baseline, speeds = normalize([slow, slow, wall, wall, wall, wall], leg)
    assert np.exp(baseline.reference) == pytest.approx(wall)
    assert speeds.speed_factor == pytest.approx([1.0, 1.0])


def test_small_leg_uses_the_speed_of_its_run() -> None:
    wall = np.linspace(0.1, 2.0, 60)
    leg = np.where(np.arange(60) < 5, 1, 0)
    _, speeds = normalize([wall, wall, wall, wall * 1.2], leg)
    assert speeds.speed_factor == pytest.approx([1.2, 1.2])


@pytest.mark.parametrize("tests", [5, 19])
def test_small_run_uses_the_smaller_of_two_change_estimates(tests: int) -> None:
    wall = np.linspace(0.1, 2.0, tests)
    leg = np.zeros(tests, np.int32)
    for pace, own in ((1.2, 1.0), (1.0, 2.0), (1.2, 2.0), (0.8, 2.0), (1.2, 0.5), (2.0, 0.5)):
        now = wall * pace
        now[3] *= own
        _, speeds = normalize([wall, wall, wall, now], leg)
        assert np.isnan(speeds.speed_factor).all()
        assert not speeds.has_speed.any()
        assert speeds.low_confidence.all()
        raw = pace * own
        lesser = min(raw, own) if min(raw, own) > 1 else max(raw, own) if max(raw, own) < 1 else 1
        expected = wall.copy()
        expected[3] *= lesser
        assert np.exp(speeds.log_wall) == pytest.approx(expected)


def test_four_tests_are_too_few_for_a_speed_factor() -> None:
    wall = np.linspace(0.1, 2.0, 4)
    _, speeds = normalize([wall, wall, wall, wall * 1.2], np.zeros(4, np.int32))
    assert not speeds.has_speed.any()
    assert not speeds.low_confidence.any()
    assert np.exp(speeds.log_wall) == pytest.approx(wall * 1.2)


def test_short_tests_give_no_speed_factor() -> None:
    wall = np.full(60, 0.049)
    baseline, speeds = normalize([wall, wall, wall, wall * 2], np.zeros(60, np.int32))
    assert not baseline.steady.any()
    assert np.isnan(speeds.speed_factor).all()


@given(st.floats(0.2, 5.0))
def test_common_speed_factor_changes_no_normalised_value(factor: float) -> None:
    wall = np.random.default_rng(3).lognormal(0, 1, (5, 80))
    leg = np.arange(80) % 3
    _, plain = normalize(list(wall), leg)
    _, scaled = normalize([*wall[:-1], wall[-1] * factor], leg)
    assert np.allclose(plain.log_wall, scaled.log_wall)


def test_noise_of_a_run_is_relative_to_the_baseline() -> None:
    generator = np.random.default_rng(4)
    size = generator.lognormal(0, 1, 2000)
    noise = [generator.normal(0, 0.05, 2000) for _ in range(10)]
    leg = np.zeros(2000, np.int32)
    walls = [size * np.exp(one) for one in noise]
    baseline, calm = normalize([*walls, size * np.exp(generator.normal(0, 0.05, 2000))], leg)
    ratio = calm.noise_ratio(baseline)
    assert ratio is not None
    assert ratio == pytest.approx(1.0, abs=0.1)
    _, loud = normalize([*walls, size * np.exp(generator.normal(0, 0.15, 2000))], leg)
    ratio = loud.noise_ratio(baseline)
    assert ratio is not None
    assert ratio > 2
