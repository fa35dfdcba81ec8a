"""Changes of numbers in words: an amount or a ratio, and its 95 % interval in the same unit. Pure.

The ratio to a small value tells nothing: 4 KiB -> 99.9 MiB is "+99.9 MiB", not "25,565 times".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from ciguard.text import duration, one_line, size

# By unit: a change from a smaller value is an amount; of percents, points.
RATIO_FLOOR: Final[Mapping[str, float]] = {"bytes": 16 * 2**20, "s": 0.1, "%": float("inf")}
_SHOWN: Final[Mapping[str, Callable[[float], str]]] = {"s": duration, "bytes": size, "B": size}
FINE: Final = 0.095  # smaller ratios have a decimal
NARROW_INTERVAL: Final = 0.03  # below this width whole percents hide an interval
FACTOR_FROM_RATIO: Final = 9.0  # 10 times as much: "413 times" is clearer than "+41,234 %"
MAX_FACTOR: Final = 1000.0  # a larger end of an interval is "more"


def amount_text(value: float, unit: str) -> str:
    """Format a number with its unit: "512 MiB", "87.5 %", "3 images"."""
    if value >= 0 and unit in _SHOWN:
        return _SHOWN[unit](value)
    digits = 3 if unit in ("%", "points") else 6
    return f"{value:,.{digits}g} {one_line(unit, 20)}".rstrip()


def estimated_change(
    before: float,
    after: float,
    ratio: tuple[float | None, float | None, float | None],
    unit: str,
    show: Callable[[float], str] | None = None,
) -> tuple[str, str]:
    """Format a change and its interval, "" if unknown, as ratios; below a floor as amounts.

    Args:
        ratio: relative change and its 95 % interval, None if unknown; infinite from 0.
        show: formats an amount >= 0; None for `amount_text`.
    """
    change, low, high = ratio
    show = show or _amount_of(unit)
    if change is not None and before >= RATIO_FLOOR.get(unit, 0) and change != float("inf"):
        return relative_change(change, low, high)
    amount = _signed(after - before, show)
    if low is None or high is None:
        return amount, ""
    first, last = (_signed(before * end, show) for end in (low, high))
    unit_text = "".join(last.partition(" ")[1:])
    return amount, f"{first.removesuffix(unit_text)}..{last}"


def relative_change(ratio: float, low: float | None, high: float | None) -> tuple[str, str]:
    """Format a ratio and its interval: "+9.8 %" and "+8..+12", "12 times" and "0.8..13 times"."""
    is_factor = max(ratio, ratio if high is None else high) >= FACTOR_FROM_RATIO
    change = f"{_factor(ratio)} times" if is_factor else _percent(ratio, abs(ratio) < FINE) + " %"
    if low is None or high is None:
        return change, ""
    if is_factor:
        last = f"{_factor(high)} times" if high < MAX_FACTOR else "more"
        return change, f"{_factor(low)}..{last}"
    first, last = (_percent(end, high - low < NARROW_INTERVAL) for end in (low, high))
    return change, f"{first}..{last}"


def exact_change(difference: float, ratio: float | None, unit: str) -> str:
    """Format a change with two decimals, "-59.57 % (-10.5 MiB)", otherwise the amount alone.

    The ratio is left out above 10 times, from 0, and of percents: "-42 points".
    """
    amount = _signed(difference, _amount_of(unit))
    if ratio is None or ratio >= FACTOR_FROM_RATIO or unit == "%":
        return amount
    return f"{100 * ratio:+,.2f} % ({amount})"


def _amount_of(unit: str) -> Callable[[float], str]:
    return partial(amount_text, unit="points" if unit == "%" else unit)


def _signed(amount: float, show: Callable[[float], str]) -> str:
    sign = "-" if amount < 0 else "+" if amount else ""
    return f"{sign}{show(abs(amount))}"


def _percent(ratio: float, is_fine: bool) -> str:
    return f"{100 * ratio:+,.{int(is_fine)}f}"


def _factor(ratio: float) -> str:
    value = 1 + ratio
    return f"{value:,.{0 if value >= 9.95 else 1 if value >= 0.95 else 2}f}"  # noqa: PLR2004
