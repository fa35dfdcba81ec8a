"""The arithmetic of pairs, beside scipy's own and beside what was put in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.experiment.measurement import PEAK, WALL, Metric
from ciguard.experiment.paired_test import Row, Series, evaluate_rows

MIB = 1024 * 1024
COUNT = Metric("count")


def series(a: list[float], b: list[float], metric: Metric = WALL, condition: int = 0) -> Series:
    return Series(condition, "b", metric, np.array(a), np.array(b))


def row(a: list[float], b: list[float], metric: Metric = WALL, level: float = 0.05) -> Row:
    (found,) = evaluate_rows([series(a, b, metric)], level)
    return found


def test_result_matches_the_paired_t_test_of_logarithms() -> None:
    a = [10.0, 11.0, 12.5, 10.5, 11.2, 12.0]
    b = [11.5, 12.1, 14.0, 11.4, 13.0, 13.1]
    found = row(a, b)
    expected = scipy.stats.ttest_rel(np.log(b), np.log(a))
    assert found.p == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((np.expm1(low), np.expm1(high)))
    assert found.differs
    assert found.after / found.before - 1 == pytest.approx(found.ratio)


def test_drift_of_the_machine_cancels() -> None:
    slower = [2.0 * 1.2**n for n in range(8)]
    found = row(slower, [1.1 * value for value in slower])
    assert found.ratio == pytest.approx(0.1)
    assert found.differs


def test_an_effect_of_the_order_is_no_difference() -> None:
    a = [10.0, 12.0, 10.1, 12.1, 9.9, 11.9, 10.0, 12.0]
    b = [12.0, 10.0, 12.1, 10.1, 11.9, 9.9, 12.0, 10.0]
    same = row(a, b)
    assert same.ratio == pytest.approx(0.0, abs=0.01)
    assert not same.differs


def test_noise_of_10_s_hides_an_effect_of_2_s() -> None:
    found = row([119.0, 129.0, 124.0], [127.0, 118.0, 121.0])
    assert (round(found.before), round(found.after)) == (124, 122)
    assert not found.differs
    assert not found.is_noisy


def test_one_run_per_arm_has_no_p_value() -> None:
    found = row([10.0], [20.0])
    assert (found.n, found.p, found.differs) == (1, None, False)
    assert found.ratio == pytest.approx(1.0)


def test_identical_values_confirm_no_tiny_change() -> None:
    """Two runs that agree to the byte are no proof of a change below what can be measured."""
    assert not row([100 * MIB] * 2, [100.2 * MIB] * 2, PEAK).differs
    assert row([100 * MIB] * 2, [130 * MIB] * 2, PEAK).differs
    assert not row([1.0] * 10, [1.005] * 10).differs, "sure, and too small to matter"


@pytest.mark.parametrize("metric", [WALL, COUNT])
def test_zero_values_are_compared_without_logarithm(metric: Metric) -> None:
    found = row([0.0, 1.0, 0.0, 2.0] * 2, [10.0, 12.0, 11.0, 12.0] * 2, metric)
    assert found.differs
    assert (found.before, found.after) == (0.75, 11.25)
    nothing = row([0.0] * 8, [0.0] * 8, metric)
    assert (nothing.differs, nothing.ratio, nothing.is_equivalent) == (False, None, True)
    assert row([0.0] * 8, [3.0] * 8, metric).differs


def test_p_values_are_corrected_for_many_rows() -> None:
    a = [10.0, 11.0, 12.5, 10.5, 11.2]
    b = [10.9, 11.3, 14.0, 10.9, 12.3]
    assert row(a, b, COUNT).differs
    quiet = [series(a, a[1:] + a[:1], COUNT, condition=n) for n in range(40)]
    assert not evaluate_rows([series(a, b, COUNT), *quiet], 0.05)[0].differs
    assert evaluate_rows([series(a, b), *quiet], 0.05)[0].differs, "wall time is its own family"


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=12), st.data())
def test_swapping_the_arms_inverts_the_ratio(a: list[float], data: st.DataObject) -> None:
    b = data.draw(st.lists(st.floats(0.01, 1e6), min_size=len(a), max_size=len(a)))
    there, back = row(a, b), row(b, a)
    assert there.p == pytest.approx(back.p, abs=1e-9)
    assert there.ratio is not None
    assert back.ratio is not None
    assert (1 + there.ratio) * (1 + back.ratio) == pytest.approx(1.0)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=12))
def test_x_against_x_is_never_a_difference(values: list[float]) -> None:
    assert not row(values, values).differs
