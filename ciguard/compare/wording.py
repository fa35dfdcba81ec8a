"""Plain numbers and names as words: what the values of a comparison say of themselves. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.text import count_of, percent, percents

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.enums import SuiteSpeedState

MAX_NAMED: Final = 3  # shards in a sentence; the rest is counted
MIN_BASELINE_RUNS: Final = 3  # baseline runs without which no number is judged


def name_some(names: Sequence[str]) -> str:
    """ "02, 05, 07 and 3 more"."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def describe_suite_speed(
    state: SuiteSpeedState,
    *,
    ratio: float = 0.0,
    low: float = 0.0,
    high: float = 0.0,
    n: int = 0,
    aside: str = "",
) -> str:
    """ "whole suite: slower (+12 %, n=20, 95 % CI +8..+16)".

    Args:
        aside: why an interval without 0 is no difference.
    """
    if state == "not measured":
        return "whole suite: no CPU probe beside a known speed"
    if state == "not enough data":
        runs = count_of(n, "baseline run")
        return f"whole suite: no verdict from {runs} ({MIN_BASELINE_RUNS} are needed)"
    numbers = f"{percent(ratio)}, n={n}, 95 % CI {percents(low, high)}"
    return f"whole suite: {state} ({numbers}{'; ' * bool(aside)}{aside})"


def describe_unclear_speed(suite: float, probe: float, n: int) -> str:
    """What is said where the probes of the runners moved and the tests did not move with them."""
    return (
        f"whole suite: unclear: its tests took {suite:.2f} times as long as usual, the CPU probe "
        f"of its runners {probe:.2f} times (n={n})"
    )


def describe_few_runs(number: int) -> str:
    """Why nothing is judged yet."""
    are = "is 1" if number == 1 else f"are {number or 'none'}"
    return f"the comparison of numbers begins with {MIN_BASELINE_RUNS} baseline runs, there {are}"


def as_sentence(text: str) -> str:
    """The words with a capital and a stop."""
    return f"{text[:1].upper()}{text[1:]}."
