"""What a run costs: its wall time, its billed minutes, its price. Pure."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Final

from ciguard.model import RunCost

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import Pool, Shard

MINUTE_S: Final = 60.0
DIGITS: Final = 6


def run_wall_s(walls_s: Iterable[float], concurrency: int | None) -> float:
    """When the last job ends, of jobs that start in this order, at most so many at once."""
    running: list[float] = []
    end_s = 0.0
    for wall_s in walls_s:
        waited_s = 0.0
        if concurrency is not None and len(running) >= concurrency:
            waited_s = heapq.heappop(running)
        heapq.heappush(running, waited_s + wall_s)
        end_s = max(end_s, waited_s + wall_s)
    return end_s


def cost_of(walls_s: Sequence[float], pool: Pool) -> RunCost:
    """Charge one job of the pool for each time: in whole minutes, set-up included."""
    jobs_s = [wall_s + (pool.setup_s or 0.0) for wall_s in walls_s]
    minutes = sum(max(1, math.ceil(job_s / MINUTE_S)) for job_s in jobs_s)
    price = None if pool.usd_per_minute is None else minutes * pool.usd_per_minute
    return RunCost(run_wall_s(jobs_s, pool.concurrency), minutes, price)


def cost_of_run(shards: Sequence[Shard], pools: Mapping[str, Pool]) -> RunCost:
    """Sum up the pools of one plan, which run side by side."""
    bills = [cost_of(of_pool, pools[name]) for name, of_pool in walls_of(shards).items()]
    prices = [one.price_usd for one in bills if one.price_usd is not None]
    return RunCost(
        wall_s=round(max(one.wall_s for one in bills), DIGITS),
        minutes=sum(one.minutes for one in bills),
        price_usd=round(math.fsum(prices), DIGITS) if len(prices) == len(bills) else None,
    )


def walls_of(shards: Sequence[Shard]) -> dict[str, list[float]]:
    """The predicted wall times of the shards, by pool."""
    walls_s: dict[str, list[float]] = {}
    for shard in shards:
        walls_s.setdefault(shard.pool, []).append(shard.predicted.wall_s)
    return walls_s
