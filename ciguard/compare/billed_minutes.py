"""The billed minutes of a run: the attempts of its jobs that count, and their price. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from ciguard.model.jobs import Job, billed_minutes, price_usd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.compare.run_columns import Run


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

    Without GitHub's jobs only the legs count, from their own start on: less than is billed.

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
