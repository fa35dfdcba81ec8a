from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from plan.plan_factories import planned, suite

from ciguard.codec.plan_file import decode
from ciguard.model import PlannedUnit, Prediction, Shard
from ciguard.plan.estimates import Observations, estimate_units
from ciguard.plan.risk import (
    MEMORY_RESIDUAL_RATIO,
    Moments,
    UnitMemory,
    any_overrun_probability,
    leg_overrun_probability,
    moments_of_leg,
)
from ciguard.plan.shard_memory import UNCORRECTED
from ciguard.plan.view import document
from ciguard.render.plaintext import as_text

GIB = 1 << 30
MIB = 1 << 20
NAN = float("nan")
BASE = 50 * MIB
SUITES = {"": suite(0.0, BASE)}


def shard_of(
    peaks: Sequence[int], processes: int = 1, budget: int | None = 1 << 40, retained: int = 0
) -> Shard:
    units = tuple(
        PlannedUnit(f"u{place:03}", wall_s=1.0, peak_delta_bytes=peak, retained_bytes=retained)
        for place, peak in enumerate(peaks)
    )
    predicted = Prediction(1.0, 1.0, 1)
    return Shard("01", "linux", units, predicted, processes, budget_bytes=budget)


def memory_of(*rows: tuple[float, float, float]) -> UnitMemory:
    return UnitMemory(*np.array(rows).T)


def test_moments_of_one_process_have_what_was_retained_before() -> None:
    memory = memory_of((10.0, 4.0, 3.0), (20.0, 9.0, -5.0), (1.0, 0.0, NAN))
    found = moments_of_leg(shard_of([10, 20, 1]), SUITES, memory)
    assert (found.held_bytes - BASE).tolist() == [10.0, 23.0, 4.0]
    assert found.variance.tolist() == [4.0, 9.0, 0.0]
    assert found.largest.tolist() == [0, 1, 2]


def test_moments_of_several_processes_are_sums() -> None:
    memory = memory_of(*((peak * MIB, 1.0, 0.0) for peak in (40, 10, 10, 40)))
    found = moments_of_leg(shard_of([MIB] * 4, processes=2), SUITES, memory)
    assert max(found.held_bytes) == 2 * BASE + 50 * MIB
    assert max(found.variance) == 2.0


def leg(held: Sequence[float], deviation: float, largest: Sequence[int]) -> Moments:
    variance = np.full(len(held), deviation**2)
    return Moments(np.array(held), variance, np.array(largest, np.int64))


def test_probability_follows_students_t() -> None:
    one = leg([1000.0 * MIB], 100.0 * MIB, [0])
    scale = MEMORY_RESIDUAL_RATIO * 100 * MIB
    for point, over in ((0.0, 0.5), (0.765, 0.25), (1.638, 0.1), (2.353, 0.05), (4.541, 0.01)):
        budget = 1000 * MIB + point * scale
        assert leg_overrun_probability(budget, one) == pytest.approx(over, abs=2e-4)


def test_moments_of_one_large_unit_are_one_chance() -> None:
    """However many small units run beside it."""
    large = leg([100.0 * MIB, 120.0 * MIB, 110.0 * MIB], MIB, [7, 7, 7])
    alone = leg([120.0 * MIB], MIB, [7])
    budget = 122 * MIB
    assert leg_overrun_probability(budget, large) == leg_overrun_probability(budget, alone)
    one = leg_overrun_probability(budget, alone)
    twice = leg([120.0 * MIB] * 2, MIB, [0, 1])
    assert leg_overrun_probability(budget, twice) == pytest.approx(1 - (1 - one) ** 2)
    assert any_overrun_probability([budget] * 2, [alone] * 2) == pytest.approx(1 - (1 - one) ** 2)
    assert leg_overrun_probability(budget, leg([], MIB, [])) == 0


PAST = 8
STATED = (0.05, 0.2, 0.5)


def simulated(
    random: np.random.Generator, noise: float, leak: float
) -> tuple[Observations, Observations]:
    """Eight runs of 24 units and the next one; their peaks and what they retain vary by `noise`."""
    peaks = random.lognormal(math.log(200 * MIB), 0.8, 24)
    retained = np.full(24, leak * MIB)
    unit = np.repeat(np.arange(24), PAST + 1).astype(np.int32)
    vary = random.normal(1.0, noise, (2, len(unit)))
    rows = Observations(
        unit=unit,
        wall_s=np.ones(len(unit)),
        peak_delta_bytes=peaks[unit] * vary[0],
        retained_bytes=retained[unit] * vary[1],
        is_lower_bound=np.zeros(len(unit), np.bool_),
    )
    last = np.arange(len(unit)) % (PAST + 1) == PAST

    def part(chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Observations:
        return replace(
            rows,
            **{
                name: getattr(rows, name)[chosen]
                for name in ("unit", "wall_s", "peak_delta_bytes", "retained_bytes")
            },
            is_lower_bound=rows.is_lower_bound[chosen],
        )

    return part(~last), part(last)


@pytest.mark.parametrize(
    ("noise", "leak", "processes"), [(0.03, 0, 1), (0.1, 0, 1), (0.1, 0, 4), (0.1, 10, 1)]
)
def test_stated_risk_is_that_of_the_next_runs(noise: float, leak: float, processes: int) -> None:
    """200 suites: not more often over than stated, within binomial limits.

    Before any shard was measured the risk is on the safe side: the shards' spread is taken as 5 %.
    """
    random = np.random.default_rng([processes, int(100 * noise), int(leak)])
    over: dict[float, list[bool]] = {risk: [] for risk in STATED}
    for _ in range(200):
        before, after = simulated(random, noise, leak)
        found = estimate_units(before, 24, lambda _: ["all"], lambda _: range(24))
        shard = shard_of(found.peak_delta_bytes.astype(int).tolist(), processes)
        legs = [UNCORRECTED.apply(moments_of_leg(shard, SUITES, found.memory))]
        none = np.zeros(24)
        real = UnitMemory(after.peak_delta_bytes, none, after.retained_bytes)
        most = float(moments_of_leg(shard, SUITES, real).held_bytes.max())
        for risk, found_over in over.items():
            # It is over every budget at which the stated risk is this one.
            found_over.append(any_overrun_probability([most], legs) < risk)
    for risk, found_over in over.items():
        limit = risk + 2.6 * math.sqrt(risk * (1 - risk) / 200)
        assert fmean(found_over) <= limit, (risk, fmean(found_over))
    assert fmean(over[0.5]) > 0.5 / 3


@pytest.mark.parametrize(
    ("framework", "peak", "keys", "serial"),
    [
        # Of the budget of 7 GiB, 6.3 are for the process; the pool has two CPUs.
        pytest.param("dotnet", 3 * GIB, {}, False, id="two-fit"),
        pytest.param("dotnet", 4 * GIB, {}, True, id="two-do-not-fit"),
        pytest.param("dotnet", 4 * GIB, {"parallel": True}, True, id="parallel"),
        pytest.param("dotnet", 4 * GIB, {"parallel": False}, False, id="serial-anyway"),
        pytest.param("dotnet", 4 * GIB, {"workers": "tool"}, False, id="left-to-the-tool"),
        pytest.param("maven", 4 * GIB, {}, False, id="one-class-at-a-time"),
        pytest.param("maven", 7 * GIB, {}, True, id="a-class-does-not-fit"),
        pytest.param("pytest", 7 * GIB, {}, False, id="one-test-at-a-time"),
    ],
)
def test_shard_runs_one_test_at_a_time_if_several_do_not_fit(
    framework: str, peak: int, keys: dict[str, Any], serial: bool
) -> None:
    suites = {"": replace(suite(), framework=framework, base_bytes=BASE, **keys)}
    peaks = {f"u{n}": peak if n < 2 else MIB for n in range(4)}
    result = planned(dict.fromkeys(peaks, 1.0), suites=suites, peaks=peaks, shards=1)
    (shard,) = result.plan.shards
    assert shard.serial == serial
    assert (b'"serial":true' in result.content) == serial == (b"serial" in result.content)
    assert decode(result.content, "plan") == result.plan
    shown = as_text(document(result.plan, ()))
    assert ("one test at a time" in shown) == serial
