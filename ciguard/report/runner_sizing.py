"""The right runner of a pool by the last runs of the base: a smaller one, or short memory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, timedelta
from itertools import islice
from math import inf
from operator import attrgetter
from statistics import mean
from typing import Final

import numpy as np

from ciguard.document import (
    Block,
    Bullets,
    Column,
    Details,
    Item,
    Link,
    Paragraph,
    Row,
    Section,
    Table,
)
from ciguard.history.file import VALUES_PER_KEY, History
from ciguard.history.query import BaseQuery, base_runs
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import MEMORY_ENDINGS, Plan, Pool
from ciguard.model.jobs import whole_minutes
from ciguard.render.links import Links
from ciguard.render.notes import fill
from ciguard.text import name_some, size

MIN_RUNS, MAX_AGE = 5, timedelta(days=14)
NEAR_RATIO: Final = 0.1  # of the machine's memory
# Of the largest use; the range over the runs if that is more. In 9.9 % of 1,559 cases (155 tests of
# coiled/benchmarks) a run exceeded the 5 before it, and in 0.7 % by more than this margin.
MARGIN_RATIO: Final = 0.1  # also of busy cores
MIN_SAVED_USD: Final = 0.01  # a run, at the least
SAME_RATIO: Final = 1 / 16  # kernels leave different parts of the same memory
DEATHS: Final = (*MEMORY_ENDINGS, "unknown")  # "unknown" is without a record, or without its end
SLIM: Final = "ubuntu-slim"  # a container without Docker, for jobs of at most 15 minutes
# 0 is not measured, either.
MEASURES: Final = attrgetter(
    *("runner.cpus", "runner.memory_bytes", "used_bytes", "peak_bytes", "cpu_s", "wall_s")
)
SMALLER: Final = (
    "{pool}: {count} runs used at most {used_bytes} of {memory_bytes} memory and {busy_ratio} of "
    "{cpus} cores. A {runner_cpus}-core runner ({runner}) is enough: a run costs {least_saved_usd} "
    "to {saved_usd} USD less, a job takes up to {longer_ratio} longer"
)
CALCULATION: Final = (
    "{pool}: the runs need {needed_bytes}: their largest memory and a margin (10 %, or the range "
    "over the runs). {runner} has {runner_bytes}. With {runner_cpus} cores a job takes at most "
    "{longer_ratio} longer, if it always keeps all cores or none busy; a run then costs "
    "{least_saved_usd} USD less. A minute costs {runner_usd} instead of {usd} USD; minutes count "
    "from the start of a job's tests and are rounded up."
)


@dataclass(frozen=True, slots=True)
class RunUse:
    """Largest use of a machine by a job of a run, and the billed minutes of all its jobs."""

    run_id: int
    used_bytes: int  # by all programs, or by the tests and the pool's reserve if that is more
    busy_ratio: float  # of its cores, in the mean
    minutes: int
    wall_s: float  # of the longest job


@dataclass(frozen=True, slots=True)
class SmallerRunner:
    """A runner of GitHub that suffices; prices are of a minute, savings of a run, in the mean."""

    runner: str
    runner_cpus: int
    runner_bytes: int
    longer_ratio: float
    usd: float  # on the pool's machines
    runner_usd: float
    saved_usd: float
    least_saved_usd: float  # if all jobs take longer


@dataclass(frozen=True, slots=True)
class RunnerUse:
    """Largest use of a pool's machines in its last runs; `needed_bytes` includes a margin.

    `count`: runs with a job in the pool. `near`: shards that came near the memory of their machine,
    in how many runs, and the least share left. If there are any, the rest is not computed.
    `runs`: those that were measured, on machines of one size.
    """

    pool: str
    count: int
    near: tuple[tuple[str, int, float], ...] = ()
    cpus: int = 0
    memory_bytes: int = 0
    runs: tuple[RunUse, ...] = ()
    used_bytes: int = 0
    needed_bytes: float = 0.0
    busy_ratio: float = 0.0
    smaller: SmallerRunner | None = None


def runner_uses(
    history: History, query: BaseQuery, plan: Plan, hosted: Mapping[str, Pool], today: date
) -> tuple[RunnerUse, ...]:
    """Return the pools with a smaller runner among `hosted`, or with shards near their memory."""
    runs = map(history.runs.__getitem__, islice(base_runs(history, query), VALUES_PER_KEY))
    recent = [run for run in runs if run.at.date() >= today - MAX_AGE]
    deadline_s = plan.policy.deadline_s or inf
    uses: list[RunnerUse] = []
    for name, pool in sorted(plan.pools.items()):
        use = _near_memory(name, recent)
        legs = [leg for run in recent for leg in run.legs if leg.runner.pool in (name, "")]
        if not use.near and not any(leg.ending in DEATHS for leg in legs):
            use = _measured(use, pool, recent)
            use = replace(use, smaller=_smaller_runner(use, pool, hosted, deadline_s))
        uses.append(use)
    return tuple(use for use in uses if use.count >= MIN_RUNS and (use.near or use.smaller))


def _near_memory(name: str, recent: Sequence[HistoryRun]) -> RunnerUse:
    """Return the shards near the memory of their own machine, also in incomplete runs."""
    jobs = [[leg for leg in run.legs if leg.runner.pool == name] for run in recent]
    left = [(leg.shard, _left_ratio(leg)) for legs in jobs for leg in legs]
    near = [(shard, ratio) for shard, ratio in left if ratio < NEAR_RATIO]
    counts = Counter(shard for shard, _ in near).most_common()
    least = dict(sorted(near, key=lambda pair: -pair[1]))
    shards = tuple((shard, count, least[shard]) for shard, count in counts)
    return RunnerUse(name, sum(map(bool, jobs)), shards)


def _left_ratio(leg: HistoryLeg) -> float:
    used, total = leg.used_bytes, leg.runner.memory_bytes
    return 1 - used / total if used and total else inf


def _measured(use: RunnerUse, pool: Pool, recent: Sequence[HistoryRun]) -> RunnerUse:
    """Add the use in the complete runs whose jobs were all measured, on the newest such machine."""
    runs: list[RunUse] = []
    machine = None
    for run in recent:
        rows = [MEASURES(leg) for leg in run.legs if leg.runner.pool == use.pool]
        if not run.complete or not rows or not all(map(all, rows)):
            continue
        cores, total, used, peak, cpu_s, wall_s = np.array(rows, np.float64).T
        sizes = np.stack((cores, total))
        kinds = [sizes[:, :1], machine if machine is not None else sizes[:, :1]]
        if any((np.abs(sizes / kind - 1) > SAME_RATIO).any() for kind in kinds):
            continue
        machine = kinds[1]
        used_bytes = int(np.maximum(used, peak + pool.reserve_bytes).max())
        minutes = sum(map(whole_minutes, wall_s.tolist()))
        busy_ratio = float((cpu_s / wall_s / cores).max())
        runs.append(RunUse(run.run_id, used_bytes, busy_ratio, minutes, float(wall_s.max())))
    if machine is None or len(runs) < MIN_RUNS:
        return use
    cpus, memory_bytes = map(int, machine.flat)
    used = [run.used_bytes for run in runs]
    needed_bytes = max(used) + max(MARGIN_RATIO * max(used), max(used) - min(used))
    largest = (max(used), needed_bytes, max(run.busy_ratio for run in runs))
    return RunnerUse(use.pool, use.count, (), cpus, memory_bytes, tuple(runs), *largest)


def _smaller_runner(
    use: RunnerUse, pool: Pool, hosted: Mapping[str, Pool], deadline_s: float
) -> SmallerRunner | None:
    """Return the cheapest runner of the same system with enough memory and cores, if it saves."""
    own, own_usd = hosted.get(str(pool.runs_on)), pool.usd_per_minute
    # In a public repository a standard runner has more cores, and is free.
    if own is None or own.cpus != use.cpus or own_usd is None:
        return None
    minutes, system = mean(run.minutes for run in use.runs), str(pool.runs_on).partition("-")[0]
    usable_ratio = use.memory_bytes / (own.memory_bytes or inf)
    for label, runner in sorted(hosted.items(), key=lambda item: item[1].usd_per_minute or inf):
        cpus, memory_bytes = runner.cpus or 0, int((runner.memory_bytes or 0) * usable_ratio)
        has_cores = use.busy_ratio * use.cpus * (1 + MARGIN_RATIO) <= cpus < use.cpus
        if label.partition("-")[0] != system or label == SLIM or not has_cores:
            continue
        longer, usd = use.busy_ratio * (use.cpus / cpus - 1), runner.usd_per_minute or inf
        saved, least = (round(minutes * (own_usd - usd * n), 3) for n in (1, 1 + longer))
        is_in_time = max(run.wall_s for run in use.runs) * (1 + longer) <= deadline_s
        if use.needed_bytes <= memory_bytes and least >= MIN_SAVED_USD and is_in_time:
            prices = (own_usd, usd, saved, least)
            return SmallerRunner(label, cpus, memory_bytes, longer, *prices)
    return None


def use_text(use: RunnerUse, template: str = SMALLER) -> str:
    """Word a use in one sentence, or the calculation of a smaller runner."""
    if use.smaller is not None:
        return fill(template, {**asdict(use), **asdict(use.smaller), "count": len(use.runs)})
    near = [
        f"shard {shard} came within {100 * left:.1f} % of its memory in {runs} of {use.count} runs"
        for shard, runs, left in use.near
    ]
    return f"{use.pool}: {name_some(near, str)}"


def runners_section(uses: Sequence[RunnerUse], links: Links) -> Section:
    """Return a line for each pool, and its runs in a fold."""
    columns = (Column("run"), *(Column(title, "right") for title in ("memory", "CPU", "minutes")))
    blocks: list[Block] = []
    for use in filter(attrgetter("smaller"), uses):
        rows: list[Row] = []
        for run in use.runs:
            link = Link(f"{run.run_id}", links.run_page(run.run_id))
            memory, cpu = size(run.used_bytes), f"{100 * run.busy_ratio:.1f} %"
            rows.append((link, memory, cpu, f"{run.minutes:,}"))
        blocks += [Paragraph(use_text(use, CALCULATION)), Table(columns, tuple(rows), "run")]
    lines = Bullets(tuple(Item(use_text(use)) for use in uses), "pool")
    fold = Details("Memory, CPU and minutes of the last runs", tuple(blocks))
    runs = Section("runner_runs", (fold,) if blocks else (), formats=("markdown", "html"))
    return Section("runners", (lines, runs), size=(len(uses), "pool"), drop=15)
