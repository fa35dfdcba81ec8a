from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.making import suite

from ciguard.model import PlannedUnit, Pool, Prediction, Shard
from ciguard.plan.limits import Limit, Spread, budget_bytes, limit, too_large, z_of_each
from ciguard.run.state import UNKNOWN_BASE_BYTES


@pytest.mark.parametrize(
    ("limit_s", "setup_s", "expected"),
    [
        (2700.0, 300.0, Limit(45, 50, 2610.0)),
        (2759.0, 301.0, Limit(46, 52, 2669.0)),
        (90.0, 60.0, Limit(2, 3, 72.0)),
        (180.0, 60.0, Limit(3, 4, 144.0)),
        (240.0, 60.0, Limit(4, 5, 150.0)),
        (20.0, 0.0, Limit(1, 2, 16.0)),
    ],
)
def test_limits_are_whole_minutes(limit_s: float, setup_s: float, expected: Limit) -> None:
    assert limit(limit_s, setup_s) == expected


@given(st.floats(0.001, 1e6), st.floats(0, 1e5))
def test_the_leg_stops_before_its_step_and_the_step_before_its_job(
    limit_s: float, setup_s: float
) -> None:
    found = limit(limit_s, setup_s)
    assert found.step_minutes >= 1
    assert 0 < found.deadline_s < min(limit_s, found.step_minutes * 60)
    assert found.step_minutes < found.job_minutes


def test_a_machine_slows_all_units_and_each_varies_by_itself() -> None:
    assert Spread(0.0, 1, 0.0).at(100.0, 1.645) == 100.0
    assert Spread(16.0, 1, 0.0).at(100.0, 2.0) == 108.0
    assert Spread(16.0, 4, 0.0).at(100.0, 2.0) == 104.0
    assert Spread(0.0, 1, 0.2).at(100.0, 2.0) == pytest.approx(100 * math.exp(0.4))


def test_each_shard_has_its_part_of_the_risk() -> None:
    assert z_of_each(0.05, 1) == pytest.approx(1.645, abs=1e-3)
    assert z_of_each(0.05, 64) > z_of_each(0.05, 2) > z_of_each(0.05, 1)


def test_the_budget_is_what_the_machine_leaves() -> None:
    assert budget_bytes(Pool("x")) is None
    assert budget_bytes(Pool("x", memory_bytes=10, reserve_bytes=4)) == 6
    assert budget_bytes(Pool("x", memory_bytes=4, reserve_bytes=10)) == 1


@pytest.mark.parametrize(
    ("base", "budget", "expected"),
    [
        (10, 109, [("a", 110)]),
        (10, 110, []),
        (None, 100, [("a", UNKNOWN_BASE_BYTES + 100)]),
        (10, None, []),
    ],
)
def test_a_unit_is_too_large_where_it_does_not_fit_a_fresh_process(
    base: int | None, budget: int | None, expected: list[tuple[str, int]]
) -> None:
    units = (PlannedUnit("a", peak_delta_bytes=100), PlannedUnit("never measured"))
    shard = Shard("01", "linux", units, Prediction(0, 0), budget_bytes=budget)
    assert list(too_large(shard, {"": suite(0.0, base)})) == expected
