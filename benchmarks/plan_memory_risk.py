"""Whether the stated risk of memory is true: P(a leg over its budget) against the next run.

    .venv/bin/python benchmarks/plan_memory_risk.py

Each plan is made from the runs so far as `ciguard plan` makes it, and the leg's policy runs every
shard on paper (`plan_memory.py`). The budget is then set where the model states a risk of 1, 5, 20
and 50 %; observed is the share of the next runs in which a shard held more at any moment. A later
run counts once: the mean over numbers of shards and processes, which have its luck in common;
intervals are Wilson's. Data: as in `plan_memory.py`.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import numpy as np
from plan_memory import (
    BASE_BYTES,
    PROCESSES,
    SHARDS,
    SUITES,
    Place,
    clusters,
    estimated,
    held_bytes,
    planned,
    synthetic,
)
from plan_risk import STATED, wilson

from ciguard.plan.risk import (
    Moments,
    UnitMemory,
    any_overrun_probability,
    moments_of_leg,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plan_memory import Runs

    from ciguard.model import Shard
    from ciguard.plan.estimates import Estimates

FIRST_RUN: Final = 4
LARGEST_RATIO: Final = 0.4  # of the plan's budget, by which units are admitted
SYNTHETIC: Final = 8  # suites
NOISES: Final = (0.004, 0.03, 0.1)
PRECISION: Final = 1e-3  # of a budget


def memory_of(found: Estimates) -> UnitMemory:
    spread = found.memory_spread
    if spread is None:
        raise ValueError("no spread")
    peaks = (spread.peak_bytes, spread.peak_variance)
    return UnitMemory(*peaks, found.retained_bytes, spread.retained_variance)


def plans(runs: Runs, later: int, processes: int) -> list[tuple[list[Moments], float, float]]:
    """For each number of shards: the moments, the most that was held, and what was predicted."""
    found = estimated(runs, later)
    columns = (runs.wall_s, runs.peak_bytes, runs.retained_bytes)
    rows = np.stack([column[:, later] for column in columns], axis=1)
    real = dict(zip(runs.ids, map(tuple, rows.tolist()), strict=True))
    memory, place = memory_of(found), {unit: number for number, unit in enumerate(runs.ids)}
    budget = int((BASE_BYTES + np.nanmax(found.peak_delta_bytes)) / LARGEST_RATIO)
    result = []
    for count in SHARDS:
        shards: list[Shard] = list(planned(runs, later, found, Place(count, processes, budget)))
        legs = [
            moments_of_leg(shard, SUITES, memory.take([place[unit.unit] for unit in shard.units]))
            for shard in shards
        ]
        most = max(held_bytes(shard, real) for shard in shards)
        result.append((legs, most, max(float(leg.held_bytes.max()) for leg in legs)))
    return result


def budget_for_risk(risk: float, legs: Sequence[Moments]) -> float:
    """The least budget that all legs keep but for this risk, to a thousandth."""
    low, high = 0.0, max(float(leg.held_bytes.max()) for leg in legs)
    while any_overrun_probability([high] * len(legs), legs) > risk:
        low, high = high, 2 * high
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if any_overrun_probability([middle] * len(legs), legs) > risk:
            low = middle
        else:
            high = middle
    return high


def show(title: str, some: Sequence[Runs]) -> None:
    trials = [
        [plan for number in PROCESSES for plan in plans(runs, later, number)]
        for runs in some
        for later in range(FIRST_RUN, runs.wall_s.shape[1])
    ]
    print(f"\n## {title}: {len(trials)} later runs\n")
    print("| stated | observed | 95 % | budget / expected |\n|---|---|---|---|")
    for risk in STATED:
        budgets = [[budget_for_risk(risk, legs) for legs, _, _ in trial] for trial in trials]
        pairs = list(zip(budgets, trials, strict=True))
        shares = [
            fmean(most > size for size, (_, most, _) in zip(sizes, trial, strict=True))
            for sizes, trial in pairs
        ]
        rooms = [
            size / expected
            for sizes, trial in pairs
            for size, (_, _, expected) in zip(sizes, trial, strict=True)
        ]
        low, high = wilson(fmean(shares), len(shares))
        observed = f"{fmean(shares):.3f} | {low:.3f}..{high:.3f}"
        print(f"| {risk:.2f} | {observed} | {median(rooms):.2f} |", flush=True)


def main() -> None:
    real = clusters()
    sets = {
        f"synthetic, {noise:.1%} noise": [synthetic(one, noise=noise) for one in range(SYNTHETIC)]
        for noise in NOISES
    }
    if real is not None:
        sets["clusters"] = [real]
    for name, some in sets.items():
        show(name, some)


if __name__ == "__main__":
    main()
