"""What a number of shards costs: the run's wall time, its billed minutes, its price. Pure."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Final

from ciguard.model import ShardCountOption
from ciguard.model.jobs import price_usd, whole_minutes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import Pool, Shard

FACTORS: Final = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)  # of the chosen number of shards
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


def cost_of(walls_s: Sequence[float], pool: Pool) -> ShardCountOption:
    """Charge one job of the pool for each time: in whole minutes, set-up included."""
    jobs_s = [wall_s + (pool.setup_s or 0.0) for wall_s in walls_s]
    minutes = sum(map(whole_minutes, jobs_s))
    price = price_usd([(jobs_s, pool.usd_per_minute)])
    return ShardCountOption(len(jobs_s), run_wall_s(jobs_s, pool.concurrency), minutes, price)


def option(
    walls_s: Mapping[str, Sequence[float]], pools: Mapping[str, Pool], *, chosen: bool
) -> ShardCountOption:
    """Sum up the pools of one plan, which run side by side.

    Args:
        walls_s: of the shards, by pool.
    """
    bills = [cost_of(of_pool, pools[name]) for name, of_pool in walls_s.items()]
    prices = [one.price_usd for one in bills if one.price_usd is not None]
    return ShardCountOption(
        shards=sum(one.shards for one in bills),
        wall_s=round(max(one.wall_s for one in bills), DIGITS),
        minutes=sum(one.minutes for one in bills),
        price_usd=round(math.fsum(prices), DIGITS) if len(prices) == len(bills) else None,
        chosen=chosen,
    )


def walls_of(shards: Sequence[Shard]) -> dict[str, list[float]]:
    """The predicted wall times of the shards, by pool."""
    walls_s: dict[str, list[float]] = {}
    for shard in shards:
        walls_s.setdefault(shard.pool, []).append(shard.predicted.wall_s)
    return walls_s


def counts_to_try(count: int, max_count: int) -> list[int]:
    """Numbers of shards to compare with the chosen one, ascending, without it."""
    found = {min(max(1, round(factor * count)), max_count) for factor in FACTORS}
    return sorted(found - {count})
