"""Whether the stated risk of memory is true: P(any shard over its budget), drawn from real records.

    .venv/bin/python benchmarks/plan_memory_risk.py FOLDER...

Each FOLDER is the `--work` of `memory_prediction.py`: the runs of one real suite. A draw takes one
run as the later one, makes shards of its tests at random, and predicts them from the runs before
it, as `ciguard plan` does: means and spread of each test, and the correction by what the shards of
those runs took. What the shards then need is simulated from the later run's own values, times
measured over simulated peak of one of its real shards. The budget is set where the model states a
risk of 1, 5 and 20 %; observed is the share of draws in which a shard held more. The draws of one
later run have its luck in common: it counts once, and the intervals are Wilson's over later runs.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Final

import numpy as np
from plan_risk import wilson

from ciguard.history.ingest import suite_overheads
from ciguard.model import PlannedUnit, Prediction, Shard, Suite
from ciguard.plan.estimates import Observations, estimate_units
from ciguard.plan.risk import Moments, UnitMemory, any_overrun_probability, moments_of_leg
from ciguard.plan.shard_memory import UNCORRECTED, Correction, correction_of
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.model import Record

SEED: Final = 11
DRAWS: Final = 12  # of each later run and number of shards
SHARDS: Final = (2, 4, 8)
FIRST_RUN: Final = 3  # earlier ones have no correction
STATED: Final = (0.01, 0.05, 0.2)
PRECISION: Final = 1e-3  # of a budget


@dataclass(frozen=True, slots=True)
class RealRun:
    """The memory of one run.

    Attributes:
        peaks, lower, retained: by unit, in bytes, above the process; `lower` with its children.
        ratios: measured over simulated peak of each of its shards.
    """

    base_bytes: int
    peaks: dict[str, float]
    lower: dict[str, float]
    retained: dict[str, float]
    ratios: tuple[float, ...]


def simulated(units: Sequence[str], run: RealRun) -> float:
    """Return the peak of one process with these units, in order, by the run's own values."""
    shard, memory = shard_of(units, run)
    return float(moments_of_leg(shard, suites_of(run.base_bytes), memory).held_bytes.max())


def suites_of(base_bytes: int) -> dict[str, Suite]:
    """Return the one suite."""
    return {"": Suite("pytest", ("pytest",), base_bytes=base_bytes)}


def shard_of(units: Sequence[str], run: RealRun) -> tuple[Shard, UnitMemory]:
    """Return a shard, and its memory without any spread."""
    planned = tuple(PlannedUnit(unit, wall_s=1.0) for unit in units)
    peaks = np.array([max(run.peaks[unit], run.lower[unit]) for unit in units], np.float64)
    kept = np.array([run.retained.get(unit, math.nan) for unit in units], np.float64)
    none = np.zeros(len(units))
    shard = Shard("", "", planned, Prediction(0.0, 0.0))
    return shard, UnitMemory(np.nan_to_num(peaks), none, kept)


def read_run(folder: Path) -> RealRun:
    """Read the records of a run."""
    records = local.read_record_tree(folder)
    bases = [cost.base_bytes for record in records for cost in suite_overheads(record)]
    run = RealRun(int(median(base for base in bases if base is not None)), {}, {}, {}, ())
    for record in records:
        for line in record.results:
            if line.rss_before_bytes is None:
                continue
            before, upper = line.rss_before_bytes, line.peak_upper_bytes
            size = line.peak_delta_bytes if upper is None else upper - before
            if size is not None:
                run.peaks[line.unit] = max(size, run.peaks.get(line.unit, 0.0))
                run.lower[line.unit] = float((line.peak_lower_bytes or 0) - before)
                run.retained[line.unit] = float(line.retained_bytes or 0)
    return replace(run, ratios=tuple(ratios(records, run)))


def ratios(records: Sequence[Record], run: RealRun) -> Iterator[float]:
    """Yield measured over simulated peak of each shard."""
    for record in records:
        units = list(dict.fromkeys(line.unit for line in record.results if line.unit in run.peaks))
        if units and record.peak_bytes:
            yield record.peak_bytes / simulated(units, run)


def correction(known: Sequence[RealRun]) -> Correction:
    """Learn from the shards of the runs so far, as the plan does from those of a history."""
    logs = [math.log(ratio) for run in known[1:] for ratio in run.ratios]
    return correction_of(np.array(logs), np.ones(len(logs))) if logs else UNCORRECTED


def draw(
    runs: Sequence[RealRun], later: int, count: int, random: np.random.Generator
) -> tuple[list[Moments], list[float]]:
    """Return the predicted moments of random shards, and what each then needs."""
    known, real = runs[:later], runs[later]
    names = [name for name in real.peaks if any(name in run.peaks for run in known)]
    rows = [
        (unit, run.peaks[name], run.retained[name], run.lower[name])
        for unit, name in enumerate(names)
        for run in known
        if name in run.peaks
    ]
    unit, peaks, retained, lower = (
        np.array(column, np.float64) for column in zip(*rows, strict=True)
    )
    nothing = np.full(len(rows), math.nan)
    seen = Observations(
        *(unit.astype(np.int32), nothing, peaks, retained, np.zeros(len(rows), np.bool_)),
        lower_bound_bytes=lower,
    )
    found = estimate_units(seen, len(names), lambda _: ["all"], lambda _: range(len(names)))
    learned = correction(known)
    base_bytes = int(median(run.base_bytes for run in known))
    shards = np.array_split(random.permutation(len(names)), count)
    legs, needs = [], []
    for members in (np.sort(part).tolist() for part in shards):
        units = [names[member] for member in members]
        shard, _ = shard_of(units, real)
        moments = moments_of_leg(shard, suites_of(base_bytes), found.memory.take(members))
        legs.append(learned.apply(moments))
        needs.append(simulated(units, real) * float(random.choice(real.ratios)))
    return legs, needs


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


def main() -> None:
    random = np.random.default_rng(SEED)
    trials = []  # of each later run of a suite
    for folder in map(Path, sys.argv[1:]):
        paths = sorted(path for path in folder.glob("run-*") if (path / "done").exists())
        runs = [read_run(path) for path in paths]
        trials += [
            [draw(runs, later, count, random) for count in SHARDS for _ in range(DRAWS)]
            for later in range(FIRST_RUN - 1, len(runs))
        ]
    shards = sum(len(needs) for trial in trials for _, needs in trial)
    print(f"{len(trials)} later runs of {len(sys.argv) - 1} suites, {shards:,} shards\n")
    print("| stated | observed (95 % CI) | budget / expected |\n|---|---|---|")
    for risk in STATED:
        pairs = [
            [(budget_for_risk(risk, legs), legs, needs) for legs, needs in trial]
            for trial in trials
        ]
        shares = [fmean(max(needs) > size for size, _, needs in trial) for trial in pairs]
        rooms = [
            size / max(float(leg.held_bytes.max()) for leg in legs)
            for trial in pairs
            for size, legs, _ in trial
        ]
        low, high = wilson(fmean(shares), len(shares))
        print(
            f"| {risk:.2f} | {fmean(shares):.3f} ({low:.3f} to {high:.3f}) | {median(rooms):.2f} |"
        )


if __name__ == "__main__":
    main()
