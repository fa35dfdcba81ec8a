"""`/OWNER/NAME/costs`: the price of runs by day, workflow and pool, and of those that were in vain.

The price of a run is that of its newest attempt, which includes its earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from math import fsum
from typing import ClassVar, Final

from ciguard.render.pages import RunRow
from ciguard.serve.pages.slowest_and_flaky_pages import find_period
from ciguard.serve.pages.visit import Visit
from ciguard.serve.state import run_rows

MAX_RUNS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Cost:
    """The sum of the prices, or of a part of each, of runs without the `unpriced` ones.

    `by` is total, day, workflow, pool, or waste: what reds without a failed test, flaky tests and
    further attempts cost.
    """

    by: str
    name: str
    runs: int
    unpriced: int
    price_usd: float


@dataclass(frozen=True, slots=True)
class CostsPage:
    """The costs of the last days; of the last 10,000 run attempts if they are partial."""

    TEMPLATE: ClassVar[str] = "costs"

    repository: str
    days: int
    is_partial: bool
    costs: tuple[Cost, ...]


def costs_page(visit: Visit) -> CostsPage:
    """Sum the prices of the last days; raise as `slowest_page`."""
    repository, days, from_ms = find_period(visit)
    with visit.service.database.read() as connection:
        runs = run_rows.newest(connection, repository.id, since_ms=from_ms, limit=MAX_RUNS)
    return CostsPage(repository.full_name, days, len(runs) == MAX_RUNS, sum_costs(runs))


def sum_costs(runs: Iterable[RunRow]) -> tuple[Cost, ...]:
    """Return the costs by group, of days the newest first, of other names the most expensive."""
    attempts: dict[int, list[RunRow]] = defaultdict(list)
    for run in runs:
        attempts[run.run_id].append(run)
    prices: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for same in attempts.values():
        price_usd = max(same, key=lambda run: run.key).price_usd
        for by, name, part in _parts(sorted(same, key=lambda run: run.key)):
            price = None if price_usd is None or part is None else part * price_usd
            prices[by, name].append(price)
    costs = [
        Cost(*group, len(known), known.count(None), fsum(filter(None, known)))
        for group, known in sorted(prices.items(), reverse=True)
    ]
    return tuple(sorted(costs, key=lambda cost: 0.0 if cost.by == "day" else -cost.price_usd))


def _parts(attempts: list[RunRow]) -> Iterator[tuple[str, str, float | None]]:
    """Yield group, name and part of the price for each sum that the attempts of a run belong to."""
    first, last = attempts[0], attempts[-1]
    facts = last.facts or {}
    yield "total", "all runs", 1.0
    yield "day", f"{datetime.fromtimestamp(last.completed_at_ms / 1000, UTC):%Y-%m-%d}", 1.0
    yield "workflow", last.workflow, 1.0
    rates = {p: rate for p, rate in facts.get("rates", {}).items() if rate is not None}
    weights = {p: (m or 0) * rates.get(p, 0) for p, m in facts.get("pools", {}).items()}
    total = sum(weights.values())
    for pool, weight in weights.items() if total else [("unknown", total := 1)]:
        yield "pool", pool, weight / total if pool in (*rates, "unknown") else None
    if last.is_red and not facts.get("failed", last.verdict == "failed"):
        yield "waste", "red without a failed test", 1.0
    if facts.get("flaky_ratio"):
        yield "waste", "failed tries of flaky tests", facts["flaky_ratio"]
    if first.price_usd and last.price_usd and first.price_usd < last.price_usd:
        yield "waste", "attempts after the first", 1 - first.price_usd / last.price_usd
