"""The predicted peak of shards: simulated, and corrected by what past shards took."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from plan.plan_factories import suite

from ciguard.history.file import empty
from ciguard.history.runs import HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import PlannedUnit, Prediction, Runner, Shard, UnitKey
from ciguard.plan.estimates import Observations, estimate_units, no_observations
from ciguard.plan.risk import Moments, leg_overrun_probability
from ciguard.plan.shard_memory import (
    PRIOR_SPREAD,
    UNCORRECTED,
    Correction,
    learn_corrections,
    predict_memory,
)

MIB = 1 << 20
SUITES = {"": suite(3.0, 100 * MIB)}
KIND = ("linux", frozenset({("", "")}))


def shard(*sizes: int | None, processes: int = 1, budget_mib: int | None = None) -> Shard:
    units = tuple(
        PlannedUnit(f"u{place}", wall_s=4.0, peak_delta_bytes=size and size * MIB)
        for place, size in enumerate(sizes)
    )
    budget_bytes = budget_mib and budget_mib * MIB
    return Shard("01", "linux", units, Prediction(0, 0), processes, budget_bytes=budget_bytes)


def predict(
    planned: Shard, correction: Correction = UNCORRECTED, lower_mib: float = 0.0
) -> tuple[Prediction, float | None]:
    """Predict from one past value of each unit: its planned peak, and a child's above it."""
    sizes = [unit.peak_delta_bytes or math.nan for unit in planned.units]
    count, none = len(sizes), np.full(len(sizes), math.nan)
    rows = Observations(
        np.arange(count, dtype=np.int32), none, np.array(sizes), none, np.zeros(count, np.bool_),
        lower_bound_bytes=np.full(count, lower_mib * MIB),
    )  # fmt: skip
    estimates = estimate_units(rows, count, lambda _: ["all"])
    keys = [unit.key for unit in planned.units]
    (shard,), risk = predict_memory([planned], SUITES, keys, estimates, {KIND: correction})
    return shard.predicted, risk


def test_peak_is_the_largest_moment_of_the_simulated_processes() -> None:
    assert predict(shard(50, 70))[0].peak_bytes == 170 * MIB
    assert predict(shard(50, 70, processes=2))[0].peak_bytes == (150 + 170) * MIB
    apart = predict(shard(700, 700, processes=2, budget_mib=1024))[0]
    assert apart.peak_bytes == 800 * MIB  # one after the other


def test_children_of_a_test_are_in_its_peak() -> None:
    assert predict(shard(50, 70), lower_mib=120)[0].peak_bytes == 220 * MIB


def test_correction_multiplies_the_peak_and_widens_the_risk() -> None:
    planned = shard(50, 70, budget_mib=220)
    plain, risk = predict(planned)
    corrected, more = predict(planned, Correction(1.2, 0.1))
    assert (plain.peak_bytes, plain.simulated_peak_bytes) == (170 * MIB, 170 * MIB)
    assert (corrected.peak_bytes, corrected.simulated_peak_bytes) == (204 * MIB, 170 * MIB)
    assert risk is not None
    assert more is not None
    assert more > 3 * risk
    _, wider = predict(planned, Correction(1.2, 0.3))
    assert wider is not None
    assert wider > more


def test_shard_without_a_measured_test_has_no_predicted_peak() -> None:
    assert predict(shard(None, None, budget_mib=220)) == (Prediction(0, 0), None)


def test_plan_states_no_risk_without_budget_or_memory() -> None:
    planned = shard(60, budget_mib=200)
    keys = [UnitKey("", "", "u0")]
    estimates = estimate_units(no_observations(), 1, lambda _: ["all"])
    _, known = predict_memory([planned], SUITES, keys, estimates, {})
    # Not measured: 50 MiB, give or take 50, and 100 MiB are left.
    moment = Moments(np.array([150.0 * MIB]), np.array([(50.0 * MIB) ** 2]), np.array([0]))
    expected = leg_overrun_probability(200 * MIB, replace(moment, spread=PRIOR_SPREAD))
    assert known == pytest.approx(expected)
    free = replace(planned, budget_bytes=None)
    assert predict_memory([free], SUITES, keys, estimates, {})[1] is None
    without = replace(estimates, memory_spread=None)
    assert predict_memory([planned], SUITES, keys, without, {}) == ((planned,), None)


def leg(job: str, measured_mib: int, simulated_mib: int | None, **facts: bool) -> HistoryLeg:
    return HistoryLeg(
        "01", job, complete=facts.get("complete", True), runner=Runner("linux"),
        peak_bytes=measured_mib * MIB, overheads=(SuiteOverhead(base_bytes=1),),
        simulated_peak_bytes=simulated_mib and simulated_mib * MIB,
    )  # fmt: skip


def test_correction_is_the_median_of_complete_shards_with_a_prediction() -> None:
    legs = (
        leg("a", 120, 100), leg("b", 130, 100), leg("c", 140, 100), leg("d", 900, None),
        leg("e", 900, 100, complete=False),
    )  # fmt: skip
    history = replace(empty(), runs=(HistoryRun(1, legs=legs),))
    corrections = learn_corrections(history)
    assert corrections.keys() == {KIND}
    assert corrections[KIND].ratio == pytest.approx(1.3)
    assert 0.04 < corrections[KIND].spread < PRIOR_SPREAD + 0.01
    far = replace(history, runs=(HistoryRun(1, legs=(*legs, leg("f", 300, 100))),))
    assert learn_corrections(far)[KIND].spread > 0.2
    assert learn_corrections(empty()) == {}
