"""The predicted peak of shards: simulated, and corrected by what past shards took."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from plan.plan_factories import suite

from ciguard.history.file import CODES, History, of_columns
from ciguard.history.runs import HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import CaseKey, PlannedUnit, Prediction, Runner, Shard, UnitKey
from ciguard.plan.estimates import Observations, estimate_units, no_observations
from ciguard.plan.risk import Moments, leg_overrun_probability
from ciguard.plan.shard_memory import (
    NO_PAST_SHARDS,
    PRIOR_SPREAD,
    UNCORRECTED,
    PastShards,
    predict_memory,
    read_past_shards,
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


def leg(job: str, measured_mib: int, *, complete: bool = True) -> HistoryLeg:
    return HistoryLeg(
        "01", job, complete=complete, runner=Runner("linux"),
        peak_bytes=measured_mib * MIB, overheads=(SuiteOverhead(base_bytes=1),),
    )  # fmt: skip


def past_of(
    legs: Sequence[HistoryLeg],
    ran_in: Mapping[str, Sequence[int]],
    units: int | None = None,
    files: Sequence[str] = (),
) -> PastShards:
    """Read a history of one run: the legs of each test, of which only the first `units` exist."""
    rows = [(key, number) for key, numbers in enumerate(ran_in.values()) for number in numbers]
    key, number = np.array(rows, np.int32).reshape(-1, 2).T
    codes = {name: np.ones(len(key), np.uint8) for name in CODES}
    values = of_columns({"key": key, "run": np.zeros(len(key), np.int32), "leg": number, **codes})
    # Each began its process, so that what it took there is not its own.
    values = replace(values, peak_delta_bytes=np.full(len(key), 7.0 * MIB))
    keys = tuple(CaseKey("", "", unit, unit) for unit in ran_in)
    history = History(values, keys=keys, runs=(HistoryRun(1, legs=tuple(legs)),))
    positions = np.arange(len(keys))
    unit_of_key = np.where(positions < (units or len(keys)), positions, -1)
    return read_past_shards(history, unit_of_key, files or ["f"] * (units or len(keys)))


def predict(
    planned: Shard, past: PastShards = NO_PAST_SHARDS, lower_mib: float = 0.0
) -> tuple[Prediction, float | None]:
    """Predict from one past value of each unit: its planned peak, and a child's above it."""
    sizes = [unit.peak_delta_bytes or math.nan for unit in planned.units]
    count, none = len(sizes), np.full(len(sizes), math.nan)
    rows = Observations(
        np.arange(count, dtype=np.int32), none, np.array(sizes), none, np.zeros(count, np.bool_),
        lower_bound_bytes=np.full(count, lower_mib * MIB),
    )  # fmt: skip
    estimates = estimate_units(rows, count, lambda _: ["all"], lambda _: range(count))
    keys = [unit.key for unit in planned.units]
    (shard,), risk = predict_memory([planned], SUITES, keys, estimates, past)
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
    corrected, more = predict(planned, past_of([leg("a", 204)], {"u0": [0], "u1": [0]}))
    assert (plain.peak_bytes, plain.simulated_peak_bytes) == (170 * MIB, 170 * MIB)
    assert (corrected.peak_bytes, corrected.simulated_peak_bytes) == (204 * MIB, 170 * MIB)
    assert risk is not None
    assert more is not None
    assert more > 3 * risk
    legs = [leg("a", 150), leg("b", 204), leg("c", 277)]
    _, wider = predict(planned, past_of(legs, {"u0": range(3), "u1": range(3)}))
    assert wider is not None
    assert wider > more


def test_shard_without_a_measured_test_has_no_predicted_peak() -> None:
    assert predict(shard(None, None, budget_mib=220)) == (Prediction(0, 0), None)


def test_plan_states_no_risk_without_budget_or_memory() -> None:
    planned = shard(60, budget_mib=200)
    keys = [UnitKey("", "", "u0")]
    estimates = estimate_units(no_observations(), 1, lambda _: ["all"], lambda _: range(1))
    _, known = predict_memory([planned], SUITES, keys, estimates, NO_PAST_SHARDS)
    # Not measured: 50 MiB, give or take 50, and 100 MiB are left.
    moment = Moments(np.array([150.0 * MIB]), np.array([(50.0 * MIB) ** 2]), np.array([0]))
    expected = leg_overrun_probability(200 * MIB, replace(moment, spread=PRIOR_SPREAD))
    assert known == pytest.approx(expected)
    free = replace(planned, budget_bytes=None)
    assert predict_memory([free], SUITES, keys, estimates, NO_PAST_SHARDS)[1] is None


def test_correction_is_the_mean_of_complete_shards() -> None:
    legs = (
        leg("a", 120), leg("b", 130), leg("c", 140), leg("d", 0), leg("e", 900, complete=False)
    )  # fmt: skip
    units = np.ones(1, np.bool_)
    correction = past_of(legs, {"u0": range(5)}).correction(KIND, units, [100 * MIB] * 3)
    assert correction.ratio == pytest.approx(1.3, abs=0.003)
    assert 0.04 < correction.spread < PRIOR_SPREAD + 0.01
    far = past_of((*legs, leg("f", 300)), {"u0": range(6)})
    assert far.correction(KIND, units, [100 * MIB] * 4).spread > 0.2
    assert far.correction(("windows", KIND[1]), units, [100 * MIB] * 4) == UNCORRECTED
    assert NO_PAST_SHARDS.correction(KIND, units, []) == UNCORRECTED


def ratio_of(past: PastShards, tests: str) -> float:
    units = np.array([mark == "u" for mark in tests])
    return past.correction(KIND, units, [100 * MIB] * len(past.kinds)).ratio


def test_shard_is_corrected_by_those_that_ran_its_tests() -> None:
    legs = leg("build", 300), leg("a", 120), leg("b", 130)
    past = past_of(legs, {"u0": [0], "u1": [0], "u2": [1], "u3": [2]})
    ratios = [ratio_of(past, tests) for tests in ("uu--", "u---", "--u-")]
    assert ratios == pytest.approx([3.0, 3.0, 1.2])
    assert ratio_of(past, "----") == pytest.approx((3.0 * 1.2 * 1.3) ** (1 / 3))
    assert ratio_of(past, "uuu-") == pytest.approx((3.0**4 * 1.2) ** (1 / 5))


def test_shard_is_corrected_by_those_that_loaded_its_files() -> None:
    """Both past shards ran as many of its tests, but one of them another file as well."""
    legs = leg("a", 120), leg("b", 130)
    past = past_of(legs, {"u0": [0], "u1": [1], "u2": [1]}, files=("f", "f", "g"))
    assert ratio_of(past, "uu-") == pytest.approx((1.2**4 * 1.3) ** (1 / 5))


def test_past_shard_is_simulated_from_what_its_tests_took() -> None:
    """One of the tests of a past shard is gone, and another one was not measured there."""
    past = past_of([leg("a", 165), leg("b", 510)], {"u0": [0], "u1": [1], "gone": [0]}, units=2)
    expected = 170 * MIB * math.sqrt(165 / 150 * 510 / 170)
    assert predict(shard(50, 70), past)[0].peak_bytes == pytest.approx(expected, rel=1e-6)
    smaller = replace(past, unit_bytes=np.where(past.unit == 0, 10.0 * MIB, np.nan))
    expected = 170 * MIB * math.sqrt(165 / 110 * 510 / 170)
    assert predict(shard(50, 70), smaller)[0].peak_bytes == pytest.approx(expected, rel=1e-6)
    gone = past_of([leg("a", 165)], {"u0": [], "u1": [], "gone": [0]}, units=2)
    assert predict(shard(50, 70), gone)[0].peak_bytes == 170 * MIB
