"""Which run comes next, and with how much evidence it is clear: A B B A, A B B A, ... Pure.

A machine that warms up, or that others begin to use, then does to both sides the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Side = Literal["a", "b"]

# How many of 100 experiments without any difference may tell of one, all looks together: each look
# has its share, and shares add up whatever the looks have in common (Bonferroni).
ALPHA: Final = 0.04
INTERIM_ALPHA: Final = 0.01  # of it, for all looks before the end
NAME_WIDTH: Final = 60  # of a condition
FIRST_INTERIM: Final = 4  # pairs: before, the spread itself is a guess


@dataclass(frozen=True, slots=True)
class Design:
    """What is to be run.

    Attributes:
        runs: of each side in each condition, at most.
        warm: of each side before them, which are kept apart.
        conditions: names with their values; one without any where nobody has said some.
    """

    runs: int
    warm: int = 0
    conditions: tuple[Mapping[str, str], ...] = ({},)

    def condition_text(self, condition: int) -> str:
        """ "batch=2 steps=4"; "" of the one that sets nothing."""
        named = self.conditions[condition].items()
        return one_line(" ".join(f"{name}={value}" for name, value in named), NAME_WIDTH)


@dataclass(frozen=True, slots=True)
class Step:
    """One run. `pair` counts from 0 in each condition, warm runs and others each by themselves."""

    condition: int
    side: Side
    pair: int
    is_second: bool
    is_warm: bool = False


def steps(design: Design) -> Iterator[Step]:
    """All runs in their order. Conditions take turns, too: none has the machine's best hour."""
    for is_warm, pairs in ((True, design.warm), (False, design.runs)):
        for pair in range(pairs):
            for condition in range(len(design.conditions)):
                sides: tuple[Side, Side] = ("b", "a") if pair % 2 else ("a", "b")
                for is_second, side in enumerate(sides):
                    yield Step(condition, side, pair, bool(is_second), is_warm)


def interim_analyses(runs: int) -> Mapping[int, float]:
    """At how many pairs somebody looks whether it is clear already, each with its level.

    Only where both orders were had equally often, and ever more rarely: a look costs evidence.
    """
    found = []
    pairs = FIRST_INTERIM
    while pairs < runs:
        found.append(pairs)
        pairs += max(2, pairs // 4 * 2)
    return dict.fromkeys(found, INTERIM_ALPHA / len(found)) if found else {}


def final_alpha(runs: int) -> float:
    """The level of the look at the end, wherever that comes."""
    return ALPHA - INTERIM_ALPHA if interim_analyses(runs) else ALPHA
