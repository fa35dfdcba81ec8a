from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.plan_factories import suite

from ciguard.model import PlannedUnit, Pool, Prediction, Shard
from ciguard.plan.risk import (
    WallTimeSpread,
    budget_bytes,
    limit_for_risk,
    over_budget,
    overrun_probability,
)
from ciguard.plan.time_limits import TimeLimits, time_limits
from ciguard.run.policy.state import UNKNOWN_BASE_BYTES


@pytest.mark.parametrize(
    ("limit_s", "setup_s", "expected"),
    [
        (2700.0, 300.0, TimeLimits(45, 50, 2610.0)),
        (2759.0, 301.0, TimeLimits(46, 52, 2669.0)),
        (90.0, 60.0, TimeLimits(2, 3, 72.0)),
        (180.0, 60.0, TimeLimits(3, 4, 144.0)),
        (240.0, 60.0, TimeLimits(4, 5, 150.0)),
        (20.0, 0.0, TimeLimits(1, 2, 16.0)),
    ],
)
def test_limits_are_whole_minutes(limit_s: float, setup_s: float, expected: TimeLimits) -> None:
    assert time_limits(limit_s, setup_s) == expected


@given(st.floats(0.001, 1e6), st.floats(0, 1e5))
def test_deadline_precedes_step_limit_and_step_limit_job_limit(
    limit_s: float, setup_s: float
) -> None:
    found = time_limits(limit_s, setup_s)
    assert found.step_minutes >= 1
    assert 0 < found.deadline_s < min(limit_s, found.step_minutes * 60)
    assert found.step_minutes < found.job_minutes


def test_residual_spread_of_a_shard() -> None:
    assert WallTimeSpread(0.0, 1, 0.0).residual_s(100.0) == pytest.approx(2.0)
    assert WallTimeSpread(1e4, 1, 0.0).residual_s(0.0) == pytest.approx(35.0)
    assert WallTimeSpread(1e4, 4, 0.0).residual_s(0.0) == pytest.approx(17.5)
    assert WallTimeSpread(0.0, 4, 0.0, overhead_spread_s=3.0).residual_s(200.0) == pytest.approx(
        5.0
    )


def test_overrun_probability_of_one_shard_follows_students_t() -> None:
    own = WallTimeSpread(1e4, 1, 0.0)  # scale 35 s
    for point, over in ((0.0, 0.5), (0.765, 0.25), (1.638, 0.1), (2.353, 0.05), (4.541, 0.01)):
        limit_s = 1.0 + point * own.residual_s(1.0)
        assert overrun_probability(limit_s, [1.0], [own]) == pytest.approx(over, abs=2e-4)


def test_machine_speed_affects_all_shards_together() -> None:
    # All of the doubt is the machine's: then 50 shards are over together, or none is.
    machine = WallTimeSpread(0.0, 1, 0.5)
    one = overrun_probability(300.0, [100.0], [machine])
    many = overrun_probability(300.0, [100.0] * 50, [machine] * 50)
    assert 0 < one <= many < 3 * one
    own = WallTimeSpread(1e4, 1, 0.0)
    alone = overrun_probability(300.0, [100.0], [own])
    assert overrun_probability(300.0, [100.0] * 50, [own] * 50) == pytest.approx(
        1 - (1 - alone) ** 50
    )


@pytest.mark.parametrize("shards", [1, 16])
@pytest.mark.parametrize("speed_spread", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("risk", [0.001, 0.01, 0.2])
def test_overrun_probability_integrates_over_machine_speeds(
    risk: float, speed_spread: float, shards: int
) -> None:
    """Against 18,001 speeds: what is accepted as .001 must not be .006."""
    walls_s = [600.0] * shards
    limit_s = limit_for_risk(risk, walls_s, [WallTimeSpread(0.0, 1, speed_spread)] * shards)
    normal = np.linspace(-9, 9, 18_001)
    off = (limit_s / np.exp(speed_spread * normal) - 600.0) / (0.02 * 600.0) / math.sqrt(3)
    stored = (0.5 + (off / (1 + off**2) + np.arctan(off)) / math.pi) ** shards
    over = 1 - np.average(stored, weights=np.exp(-(normal**2) / 2))
    assert over == pytest.approx(risk, rel=0.1)


@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e6)), min_size=1, max_size=8),
    st.floats(0.001, 0.9),
    st.floats(0, 0.3),
)
def test_limit_for_risk_is_the_smallest_that_meets_the_risk(
    shards: list[tuple[float, float]], risk: float, speed_spread: float
) -> None:
    walls_s = [wall_s for wall_s, _ in shards]
    spreads = [WallTimeSpread(variance_s2, 1, speed_spread) for _, variance_s2 in shards]
    found = limit_for_risk(risk, walls_s, spreads)
    assert overrun_probability(found, walls_s, spreads) <= risk
    if max(walls_s) > 1 and found > 0.01:  # else any limit would do
        assert overrun_probability(found * 0.998, walls_s, spreads) > risk


def test_p95_is_near_the_limit_for_a_risk_of_5_percent() -> None:
    for spread in (
        WallTimeSpread(0.0, 1, 0.1),
        WallTimeSpread(400.0, 1, 0.0),
        WallTimeSpread(2500.0, 1, 0.08),
    ):
        assert spread.p95_s(100.0) == pytest.approx(
            limit_for_risk(0.05, [100.0], [spread]), rel=0.03
        )


def test_budget_is_memory_minus_reserve() -> None:
    assert budget_bytes(Pool("x")) is None
    assert budget_bytes(Pool("x", memory_bytes=10, reserve_bytes=4)) == 6


@pytest.mark.parametrize(
    ("base", "budget", "expected"),
    [
        (10, 109, [("a", 110)]),
        (10, 110, []),
        (None, 100, [("a", UNKNOWN_BASE_BYTES + 100)]),
        (10, None, []),
    ],
)
def test_unit_is_too_large_if_a_fresh_process_exceeds_the_budget(
    base: int | None, budget: int | None, expected: list[tuple[str, int]]
) -> None:
    units = (PlannedUnit("a", peak_delta_bytes=100), PlannedUnit("never measured"))
    shard = Shard("01", "linux", units, Prediction(0, 0), budget_bytes=budget)
    assert list(over_budget(shard, {"": suite(0.0, base)})) == expected
