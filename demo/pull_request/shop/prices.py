"""Prices: sums and taxes, and a search that tries every combination."""

from __future__ import annotations

import time
from fractions import Fraction


def total(prices: list[int], tax: Fraction = Fraction(19, 100)) -> Fraction:
    """Sum with tax."""
    return sum(prices) * (1 + tax)


def settle(rounds: int = 12) -> int:
    """Wait for the payment service, which never answers."""
    paid = 0
    while paid < rounds:
        time.sleep(0.05)
    return paid
