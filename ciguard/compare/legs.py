"""The legs of two runs side by side: how they ended, times, memory and totals. Pure.

A leg is one execution of a shard by a job. A leg without a record, or one that did not end by
itself, makes the run incomplete, and its units may have no result.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

import numpy as np

from ciguard.codec.columns import Floats
from ciguard.compare.baseline_matrix import align, usable
from ciguard.compare.measure_changes import memory_tier
from ciguard.compare.run_columns import Run, RunLeg, index_in, leg_from_history
from ciguard.compare.statistics import Tier
from ciguard.compare.transitions import INTERRUPTED, statuses
from ciguard.history.file import History
from ciguard.model import CaseKey, Ending, Plan, UnitKey
from ciguard.model.jobs import Job, billed_minutes, price_usd
from ciguard.model.machine_use import NOT_MEASURED, SWAPPED_BYTES, MachineUse
from ciguard.model.record import largest_by_gpu

# Least share of the cases of two runs that the leg of the same name ran in both. A change adds or
# removes a few tests, but another plan for only two shards moves half of them.
MIN_OVERLAP: Final = 0.9
_ABSENT: Final = RunLeg()
MIN_SUM_S: Final = 0.5  # a shorter sum depends more on the machine's caches than on the tests
DOUBLE: Final = 2.0  # times the sum before: runners never differ by so much

TotalName = Literal[
    "makespan_s", "sum_s", "peak_bytes", "gpu_bytes", "swap_growth_bytes", "tests_s"
]
IncompleteKind = Literal["ended", "no_record", "no_result"]


@dataclass(frozen=True, slots=True)
class LegChange:
    """A leg in both runs, or in one; the values of the other run are then None.

    `memory_bytes`: memory of the runner.
    `speed`: speed of the runner; with 1.3 the same tests took 30 % longer than usual.
    """

    shard: str
    before: Ending | None
    after: Ending | None
    wall_before_s: float | None = None
    wall_after_s: float | None = None
    peak_before_bytes: int | None = None
    peak_after_bytes: int | None = None
    memory_bytes: int | None = None
    speed: float | None = None
    machine_before: MachineUse = NOT_MEASURED
    machine_after: MachineUse = NOT_MEASURED


@dataclass(frozen=True, slots=True)
class Total:
    """A total of a run, uncorrected: slowest leg, sum of legs, a largest size, or sum of tests.

    `device`: the GPU, for GPU memory.
    `tier`: certainty that GPU memory or swap grew, or None.
    `before`: median of `n` complete baseline runs; `after` is None for an incomplete run. `tests_s`
        is the sum of `n` tests that passed in the base and the candidate.
    """

    name: TotalName
    before: float
    after: float | None
    n: int
    device: str = ""
    tier: Tier | None = None

    @property
    def is_doubled(self) -> bool:
        """Return whether the total is a sum of times that has at least doubled."""
        is_sum = self.name in ("sum_s", "tests_s")
        return is_sum and (self.after or 0.0) >= max(DOUBLE * self.before, MIN_SUM_S)


def leg_changes(base: Run | None, candidate: Run, speed: Floats) -> tuple[LegChange, ...]:
    """Return the legs of both runs by name; `speed` of the candidate's legs is NaN if unknown."""
    before = {leg.name: leg for leg in base.legs} if base is not None else {}
    after = {leg.name: leg for leg in candidate.legs}
    speeds = dict(zip((leg.name for leg in candidate.legs), speed.tolist(), strict=True))
    changes = []
    for name in sorted({*before, *after}):
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        factor = speeds.get(name, np.nan)
        change = LegChange(
            shard=name,
            before=old.ending if name in before else None,
            after=new.ending if name in after else None,
            wall_before_s=old.wall_s,
            wall_after_s=new.wall_s,
            peak_before_bytes=old.peak_bytes,
            peak_after_bytes=new.peak_bytes,
            memory_bytes=new.memory_bytes,
            speed=None if np.isnan(factor) else factor,
            machine_before=old.machine,
            machine_after=new.machine,
        )
        changes.append(change)
    return tuple(changes)


def totals(
    base: Run | None,
    candidate: Run,
    history: History | None,
    used: Sequence[int],
    bases: Sequence[Run],
    *,
    complete: bool,
    previous: Run | None = None,
) -> tuple[Total, ...]:
    """Return the totals of the candidate and of the baseline, only of complete runs.

    Totals contain the slowness of a runner, for which the numbers of tests are corrected.

    Args:
        used: positions of the used runs in the history.
        bases: runs that are not in the history.
        complete: the candidate has all of its legs.
        previous: an earlier run of the same change.
    """
    runs = (
        [[leg_from_history(leg) for leg in history.runs[n].legs] for n in used] if history else []
    )
    runs += [list(run.legs) for run in bases]
    known = [_measures(legs) for legs in runs if legs and all(leg.complete for leg in legs)]
    now = _measures(candidate.legs) if complete and candidate.complete else {}
    earlier = _measures(previous.legs) if previous is not None else {}
    gpus = _gpus(candidate.legs)
    sums = []
    for key in dict.fromkeys(key for run in (*known, now) for key in run):
        before, after = [run[key] for run in known if key in run], now.get(key)
        name, device = key
        if name == "gpu_bytes":  # a run that uses fewer GPUs has no entry
            before = [run.get(key, 0.0) for run in known if (name, "0") in run]
            after = now.get(key, 0.0) if now else None
            device = gpus[int(device)][0] if int(device) < len(gpus) else device
        if not before:
            continue
        usual = float(np.median(before))
        if after is None and complete:
            continue
        tier = None
        if name == "gpu_bytes" or (name == "swap_growth_bytes" and (after or 0) >= SWAPPED_BYTES):
            tier = memory_tier(before, after, earlier.get(key)) if after is not None else None
        if name != "swap_growth_bytes" or max(usual, after or 0) >= SWAPPED_BYTES:
            sums.append(Total(name, usual, after, len(before), device, tier))
    of_tests = _total_of_tests(base, candidate) if base is not None else None
    return tuple(sums if of_tests is None else [*sums, of_tests])


def _total_of_tests(base: Run, candidate: Run) -> Total | None:
    before = np.where(usable(candidate), align(candidate, base)[0]["wall_s"], np.nan)
    after = candidate.wall_s
    both = ~np.isnan(before) & ~np.isnan(after)
    if not both.any():
        return None
    return Total("tests_s", float(before[both].sum()), float(after[both].sum()), int(both.sum()))


def _measures(legs: Sequence[RunLeg]) -> dict[tuple[TotalName, str], float]:
    """Return the totals of a complete run; times only if each leg has a time.

    Keys are the name and, for GPUs, the rank by memory: a runner may give a test any of its
    devices.
    """
    totals: dict[tuple[TotalName, str], float] = {}
    walls_s = [leg.wall_s for leg in legs if leg.wall_s is not None]
    if any(walls_s) and len(walls_s) == len(legs):
        totals = {("makespan_s", ""): max(walls_s), ("sum_s", ""): sum(walls_s)}
    if peaks := [leg.peak_bytes for leg in legs if leg.peak_bytes]:
        totals["peak_bytes", ""] = max(peaks)
    for rank, (_, size_bytes) in enumerate(_gpus(legs)):
        totals["gpu_bytes", str(rank)] = size_bytes
    if growths := [leg.machine.swap_growth for leg in legs if leg.machine.swap_growth]:
        totals["swap_growth_bytes", ""] = max(growth.size_bytes for growth in growths)
    return totals


def _gpus(legs: Sequence[RunLeg]) -> list[tuple[str, int]]:
    """Return each device with the largest memory of any leg, the largest first."""
    sizes = largest_by_gpu(leg.machine.gpu_bytes for leg in legs)
    return sorted(sizes.items(), key=lambda item: (-item[1], item[0]))


def resharded_cases(base: Run, candidate: Run) -> tuple[int, int]:
    """Count the cases that ran in a leg of another name before, and the cases of both runs."""
    if not base.legs or not candidate.legs:
        return 0, 0
    index = index_in(candidate, base)
    rows = np.flatnonzero(index >= 0)
    before, after = (np.array([leg.name for leg in run.legs]) for run in (base, candidate))
    differs = before[base.leg[index[rows]]] != after[candidate.leg[rows]]
    return int(differs.sum()), len(rows)


@dataclass(frozen=True, slots=True)
class IncompleteReason:
    """A reason why a run is incomplete.

    Attributes:
        kind: shards that ended early or whose record is damaged ("ended"), shards without a record,
            or planned units of complete shards without a result.
        shards: names of the shards; "" for a run of result files.
        ending: ending of these shards; "completed" if the record is damaged.
        units: number of units without a result.
    """

    kind: IncompleteKind
    shards: tuple[str, ...] = ()
    ending: Ending | None = None
    units: int = 0


@dataclass(frozen=True, slots=True)
class LostUnits:
    """Units without a result, in legs that left no record or did not end by themselves.

    Attributes:
        shards: the shard of the units; if it is unknown, all shards with incomplete results.
        certain: the shard of the units is known. If not, the units are those of the base without a
            result, which may also have been removed.
    """

    shards: tuple[str, ...]
    units: tuple[UnitKey, ...]
    certain: bool


@dataclass(frozen=True, slots=True)
class LegCoverage:
    """The legs of a run with missing results.

    Attributes:
        absent: shards without a record.
        truncated: names of legs that did not end by themselves, or whose record is damaged.
        shard_of: the plan's shard of each unit; None without a plan.
    """

    absent: tuple[str, ...]
    truncated: tuple[str, ...]
    shard_of: Mapping[UnitKey, str] | None = None

    @property
    def is_complete(self) -> bool:
        """Return whether every leg has a record and ended by itself."""
        return not self.absent and not self.truncated


def leg_coverage(run: Run, plan: Plan | None = None) -> LegCoverage:
    """Find the missing legs of a run by its plan, or by the numbers of its shards."""
    names = {leg.shard for leg in run.legs if leg.shard}
    cut = tuple(dict.fromkeys(leg.name for leg in run.legs if not leg.complete))
    if plan is not None:
        absent = tuple(shard.key for shard in plan.shards if shard.key not in names)
        shard_of = {unit.key: shard.key for shard in plan.shards for unit in shard.units}
        return LegCoverage(absent, cut, shard_of)
    # Shards are numbered from 1 to the number that each record has: a gap is a missing record.
    numbers = {int(name) for name in names if re.fullmatch(r"\d{1,4}", name)}
    width = max(map(len, names), default=0)
    last = max([*numbers, run.planned_shards or 0], default=0)
    return LegCoverage(tuple(f"{n:0{width}}" for n in range(1, last + 1) if n not in numbers), cut)


def incompleteness(run: Run, legs: LegCoverage) -> Iterator[IncompleteReason]:
    """Yield the reasons why a run is incomplete, one for all legs with the same ending."""
    truncated: dict[Ending, list[str]] = defaultdict(list)
    for leg in run.legs:
        if not leg.complete:
            truncated[leg.ending].append(leg.name)
    for ending, names in truncated.items():
        yield IncompleteReason("ended", tuple(names), ending)
    if legs.absent:
        yield IncompleteReason("no_record", legs.absent)
    if legs.shard_of is not None:
        unreported = legs.shard_of.keys() - {key[:3] for key in run.keys}
        incomplete_shards = {*legs.absent, *legs.truncated}
        silent = sum(legs.shard_of[unit] not in incomplete_shards for unit in unreported)
        if silent:
            yield IncompleteReason("no_result", units=silent)


def lost_units(
    base: Run | None,
    candidate: Run,
    legs: LegCoverage,
    found_elsewhere: Collection[CaseKey] = frozenset(),
) -> tuple[LostUnits, ...]:
    """Find the units without a result because their leg did not complete.

    Without a plan, units that only the base has may have been lost or removed: `LostUnits.certain`
    is then False.

    Args:
        found_elsewhere: cases of the base that the candidate has under another name.
    """
    if legs.is_complete:
        return ()
    of_leg: dict[str, set[UnitKey]] = defaultdict(set)
    incomplete_shards = {*legs.absent, *legs.truncated}
    for key, fate, leg in zip(
        candidate.keys, statuses(candidate).tolist(), candidate.leg.tolist(), strict=True
    ):
        if fate == INTERRUPTED and candidate.legs[leg].name in incomplete_shards:
            of_leg[candidate.legs[leg].name].add(key.unit_key)
    have = {key.unit_key for key in candidate.keys}
    if legs.shard_of is not None:
        for unit, shard in legs.shard_of.items():
            if shard in incomplete_shards and unit not in have:
                of_leg[shard].add(unit)
    lost = [LostUnits((leg,), tuple(sorted(units)), certain=True) for leg, units in of_leg.items()]
    lost.sort(key=lambda leg: leg.shards)
    if legs.shard_of is None and base is not None:
        have |= {key.unit_key for key in found_elsewhere}
        missed = sorted({key.unit_key for key in base.keys} - have)
        if missed:
            lost.append(LostUnits(tuple(sorted(incomplete_shards)), tuple(missed), certain=False))
    return tuple(lost)


@dataclass(frozen=True, slots=True)
class Cost:
    """Billed time of a run.

    Attributes:
        minutes: sum over the jobs, each rounded up to whole minutes.
        price_usd: price of the legs; None if the price of a pool is not known.
        includes_all_jobs: whether `minutes` counts all jobs of the run; if not, only its legs.
    """

    minutes: int
    price_usd: float | None
    includes_all_jobs: bool


def cost(run: Run | None, jobs: Sequence[Job], prices: Mapping[str, float]) -> Cost | None:
    """Return the billed minutes of each job in each attempt in which it ran, and the price.

    Without GitHub's jobs, only the times of legs count, which are shorter than billed times.

    Args:
        prices: USD a minute, by pool; legs of other pools have no price.
    """
    if run is None:
        return None
    # A job that did not run again is listed in the next attempt as well, with the same start.
    executions = {(job.name, job.started_at): job for job in jobs if job.conclusion != "skipped"}
    walls: dict[str, list[float | None]] = defaultdict(list)
    for job in executions.values():
        walls[job.name].append(job.wall_s)
    minutes = billed_minutes(chain(*walls.values()) if walls else [leg.wall_s for leg in run.legs])
    if minutes is None:
        return None
    legs = ((walls.get(leg.job or "", [leg.wall_s]), prices.get(leg.pool)) for leg in run.legs)
    return Cost(minutes, price_usd(legs), includes_all_jobs=bool(walls))
