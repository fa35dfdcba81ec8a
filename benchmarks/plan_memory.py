"""Whether planned shards stay within their memory: simulated as predicted, replayed as it came.

    .venv/bin/python benchmarks/plan_memory.py

Each plan is made from the runs so far as `ciguard plan` makes it. The leg's policy then runs every
shard on paper: which processes it starts, with which tests, side by side with which others. That
course is replayed twice: with the predicted peaks, and with the peaks of the run that came next. A
shard is within its budget if the processes that run at any moment never hold more. A test that
alone passes the budget is left out, as the plan names it. The budget is tight: the largest test
that history knows takes 40, 70 or 95 % of it. Data: synthetic suites from a seed (0.4 % noise, 3 %
of the tests bimodal, leaks), and real peaks of `../shared/data`, which are those of a cluster, so
that only their ratios mean something here. A margin multiplies all estimates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
from recordings import FOLDER, content

from ciguard.model import LegPolicy, PlannedUnit, Prediction, Shard, Suite
from ciguard.plan.estimates import Observations, estimate_units
from ciguard.plan.packing import Costs, Preassigned, form_groups, pack_balanced
from ciguard.run.frameworks import pytest
from ciguard.run.policy.actions import Start
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from ciguard.plan.estimates import Estimates

    Floats = NDArray[np.float64]

SEED: Final = 7
SYNTHETIC: Final = 2  # suites
LARGEST_RATIOS: Final = (0.4, 0.7, 0.95)  # of the budget: base and largest peak known
BASE_BYTES: Final = 100 << 20
LARGEST_BYTES: Final = 8 << 30
SHARDS: Final = (4, 16)
PROCESSES: Final = (1, 2, 4)
LEAST_RUNS: Final = 3
MARGINS: Final = (1.0, 1.05, 1.1)
SUITES: Final = {"": Suite(framework="pytest", command=("pytest",), base_bytes=BASE_BYTES)}


@dataclass(frozen=True, slots=True)
class Runs:
    """Some tests over several runs: (tests, runs) tables, NaN where one did not run."""

    name: str
    ids: tuple[str, ...]
    wall_s: Floats
    peak_bytes: Floats
    retained_bytes: Floats


def synthetic(number: int, tests: int = 400, runs: int = 12, noise: float = 0.004) -> Runs:
    """Log-normal peaks, most far under the budget; three in a hundred tests know two sizes."""
    random = np.random.default_rng([SEED, number])
    usual = random.lognormal(math.log(200 << 20), 1.1, tests)
    peaks = usual[:, None] * random.lognormal(0, noise, (tests, runs))
    two = random.random(tests) < 0.03
    peaks[two] *= np.where(random.random((int(two.sum()), runs)) < 0.5, 1.0, 1.3)
    leaks = np.where(random.random(tests) < 0.2, random.exponential(20 << 20, tests), 0.0)
    walls_s = random.lognormal(0, 1, tests)[:, None] * random.lognormal(0, 0.1, (tests, runs))
    ids = tuple(f"tests/test_{test // 20:03}.py::test_{test:04}" for test in range(tests))
    return Runs(f"synthetic {number}", ids, walls_s, peaks, np.repeat(leaks[:, None], runs, 1))


def clusters() -> Runs | None:
    """The real runs, oldest first; None where they are not there.

    As many of each test's newest as all have. The largest peak is made 8 GiB; what a test retains,
    nobody measured.
    """
    path = FOLDER / "memory" / "coiled-benchmarks.json.gz"
    if not path.is_file():
        return None
    tests = {
        unit: [one for one in found if one["peak_memory_bytes"]]
        for unit, found in content(path)["tests"].items()
    }
    stored = {unit: found for unit, found in sorted(tests.items()) if found}
    most = min(len(found) for found in stored.values())
    walls_s, peaks = np.zeros((2, len(stored), most))
    for row, found in enumerate(stored.values()):
        newest = sorted(found, key=lambda one: one["start"])[-most:]
        walls_s[row] = [one["duration_s"] for one in newest]
        peaks[row] = [one["peak_memory_bytes"] for one in newest]
    peaks *= LARGEST_BYTES / np.nanmax(peaks)
    return Runs("clusters", tuple(stored), walls_s, peaks, np.zeros_like(peaks))


def estimated(runs: Runs, later: int) -> Estimates:
    """What the plan of run `later` expects of each test."""
    seen = ~np.isnan(runs.peak_bytes[:, :later])
    unit, run = np.nonzero(seen)
    known = Observations(
        unit=unit.astype(np.int32),
        wall_s=runs.wall_s[unit, run],
        peak_delta_bytes=runs.peak_bytes[unit, run],
        retained_bytes=runs.retained_bytes[unit, run],
        is_lower_bound=np.zeros(len(unit), np.bool_),
    )
    names = [pytest.ancestors(one) for one in runs.ids]

    def members(name: str) -> list[int]:
        return [unit for unit, groups in enumerate(names) if name in groups]

    return estimate_units(known, len(names), names.__getitem__, members)


@dataclass(frozen=True, slots=True)
class Place:
    """How many shards, and what each of them has."""

    count: int
    processes: int
    budget_bytes: int


def planned(runs: Runs, later: int, found: Estimates, place: Place) -> Iterator[Shard]:
    """The shards, without the tests that pass the budget alone or do not run."""
    walls_s, peaks = found.wall_s.tolist(), found.peak_delta_bytes.tolist()
    there = ~np.isnan(runs.peak_bytes[:, later])
    fits = [
        number
        for number in np.flatnonzero(there).tolist()
        if math.isnan(peaks[number]) or BASE_BYTES + peaks[number] <= place.budget_bytes
    ]
    costs = Costs(walls_s)
    groups = form_groups(costs, None, fits)
    for members in pack_balanced(groups, [Preassigned()] * place.count, costs).shards:
        units = tuple(
            PlannedUnit(
                runs.ids[number],
                wall_s=walls_s[number],
                peak_delta_bytes=_to_integer(peaks[number]),
                retained_bytes=_to_integer(found.memory.retained_bytes[number]),
            )
            for number in members
        )
        yield Shard(
            "", "", units, Prediction(0.0, 0.0), place.processes, budget_bytes=place.budget_bytes
        )


def _to_integer(size: float) -> int | None:
    return None if math.isnan(size) else int(size)


@dataclass(slots=True)
class Process:
    """A started process on paper: when it ends, and what it will hold from when on."""

    ends_s: float
    steps: list[tuple[float, float, float]]  # from, to, bytes while one test runs


def held_bytes(shard: Shard, real: Mapping[str, tuple[float, float, float]]) -> float:
    """The most that the shard's processes hold at one moment.

    Args:
        real: by test, what it takes, its peak over what was resident before, what it retains.
    """
    state = State(shard, SUITES, LegPolicy(guard_rail="off", deadline_s=None))
    now_s = 0.0
    running: dict[int, Process] = {}
    steps: list[tuple[float, float, float]] = []
    while True:
        action = next_action(state, now_s)
        if isinstance(action, Start):
            state.apply(action)
            at_s, resident = now_s, float(BASE_BYTES)
            own: list[tuple[float, float, float]] = []
            for unit in action.units:
                wall_s, peak, retained = real[shard.units[unit].unit]
                own.append((at_s, at_s + wall_s, resident + peak))
                at_s, resident = at_s + wall_s, resident + max(0.0, retained)
            running[action.process] = Process(at_s, own)
            steps += own
        elif running:
            number = min(running, key=lambda number: (running[number].ends_s, number))
            now_s = running.pop(number).ends_s
            state.finish_for_simulation(number)
        else:
            return _most(steps)


def _most(steps: Sequence[tuple[float, float, float]]) -> float:
    """Largest sum of what is held at once; what ends at a moment is gone before what begins."""
    changes = [(begin_s, 1, size) for begin_s, _, size in steps]
    changes += [(end_s, 0, -size) for _, end_s, size in steps]
    held = most = 0.0
    for _, _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


def expected(shard: Shard) -> dict[str, tuple[float, float, float]]:
    """What the plan says."""
    return {
        unit.unit: (unit.wall_s, float(unit.peak_delta_bytes or 0), float(unit.retained_bytes or 0))
        for unit in shard.units
    }


def shares(some: Sequence[Runs], largest: float, margin: float) -> tuple[int, int, int]:
    """Shards; those of them within budget when all is as predicted; and as it came."""
    number = predicted = replayed = 0
    for runs in some:
        for later in range(LEAST_RUNS, runs.wall_s.shape[1]):
            columns = (runs.wall_s, runs.peak_bytes, runs.retained_bytes)
            rows = np.stack([column[:, later] for column in columns], axis=1)
            real = dict(zip(runs.ids, map(tuple, rows.tolist()), strict=True))
            plain = estimated(runs, later)
            budget = int((BASE_BYTES + np.nanmax(plain.peak_delta_bytes)) / largest)
            found = replace(plain, peak_delta_bytes=plain.peak_delta_bytes * margin)
            for count, processes in product(SHARDS, PROCESSES):
                place = Place(count, processes, budget)
                for shard in planned(runs, later, found, place):
                    number += 1
                    predicted += held_bytes(shard, expected(shard)) <= budget
                    replayed += held_bytes(shard, real) <= budget
    return number, predicted, replayed


def main() -> None:
    real = clusters()
    sets = {"synthetic": [synthetic(number) for number in range(SYNTHETIC)]}
    if real is not None:
        sets["clusters"] = [real]
    print("| data | largest test / budget | margin | shards | as predicted | as it came |")
    print("|---|---|---|---|---|---|")
    for (name, some), largest, margin in product(sets.items(), LARGEST_RATIOS, MARGINS):
        number, predicted, replayed = shares(some, largest, margin)
        print(
            f"| {name} | {largest:.2f} | {margin:.2f} | {number} "
            f"| {predicted / number:.2%} | {replayed / number:.2%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
