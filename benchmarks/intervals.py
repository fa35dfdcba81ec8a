"""95 % intervals of counts, for benchmarks that count alarms. Exact, from the distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TAIL = 0.025


def rate(count: int, trials: int) -> tuple[float, float]:
    """Of a Poisson count: how often a trial has one (Garwood 1936)."""
    low = 0.0 if count == 0 else _root(lambda mean: 1 - _poisson(count - 1, mean), rising=True)
    high = _root(lambda mean: _poisson(count, mean), rising=False)
    return low / trials, high / trials


def share(count: int, trials: int) -> tuple[float, float]:
    """Of a binomial count: the share of trials (Wilson 1927)."""
    z, p = 1.959964, count / trials
    middle = (p + z * z / (2 * trials)) / (1 + z * z / trials)
    width = z / (1 + z * z / trials) * math.sqrt(p * (1 - p) / trials + (z / (2 * trials)) ** 2)
    return max(0.0, middle - width), min(1.0, middle + width)


def _poisson(count: int, mean: float) -> float:
    term = total = math.exp(-mean)
    for number in range(1, count + 1):
        term *= mean / number
        total += term
    return total


def _root(chance: Callable[[float], float], *, rising: bool) -> float:
    """The mean at which a chance is TAIL."""
    low, high = 0.0, 700.0
    for _ in range(100):
        middle = (low + high) / 2
        if (chance(middle) < TAIL) == rising:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def rated(count: int, trials: int) -> str:
    """ "0.10 (0.06..0.15)": count a trial."""
    low, high = rate(count, trials)
    return f"{count / trials:.3f} ({low:.3f}..{high:.3f})"


def shared(count: int, trials: int) -> str:
    """ "0.55 (0.50..0.60)": share of trials."""
    low, high = share(count, trials)
    return f"{count / trials:.2f} ({low:.2f}..{high:.2f})"
