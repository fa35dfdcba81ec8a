"""Which run comes next, and with how much evidence it is clear. Pure.

Every arm runs once in a block. The order within a block is random, and the next block has it the
other way round (A C B, B C A): a machine that warms up, or that others begin to use, does the same
to all arms, and of a steady drift nothing is left after each second block.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# How many of 100 experiments without any difference may tell of one, all looks together: each look
# has its share, and shares add up however the looks depend on each other (Bonferroni).
ALPHA: Final = 0.04
INTERIM_ALPHA: Final = 0.01  # of it, for all looks before the end
NAME_WIDTH: Final = 60  # of a condition
FIRST_INTERIM: Final = 4  # blocks: before, the spread itself is a guess


@dataclass(frozen=True, slots=True)
class Design:
    """The runs of an experiment.

    Attributes:
        runs: of each arm in each condition, at most.
        warm: of each arm before them, which are kept apart.
        conditions: names with their values; one without any by default.
        arms: their names, at least two; each is compared with the first.
        seed: of the order within blocks.
    """

    runs: int
    warm: int = 0
    conditions: tuple[Mapping[str, str], ...] = ({},)
    arms: tuple[str, ...] = ("a", "b")
    seed: int = 0

    def condition_text(self, condition: int) -> str:
        """ "batch=2 steps=4"; "" of the one that sets nothing."""
        named = self.conditions[condition].items()
        return one_line(" ".join(f"{name}={value}" for name, value in named), NAME_WIDTH)


@dataclass(frozen=True, slots=True)
class Step:
    """One run. `block` counts from 0 in each condition, warm runs and others each by themselves.

    Attributes:
        position: in its block, from 0.
    """

    condition: int
    arm: str
    block: int
    position: int
    is_warm: bool = False


def steps(design: Design) -> Iterator[Step]:
    """All runs in their order. Conditions take turns, too: none has the machine's best hour."""
    for is_warm, blocks in ((True, design.warm), (False, design.runs)):
        for block in range(blocks):
            for condition in range(len(design.conditions)):
                for position, arm in enumerate(_order(design, condition, block)):
                    yield Step(condition, arm, block, position, is_warm)


def _order(design: Design, condition: int, block: int) -> list[str]:
    """The arms of a block: random in each even one, the odd one after it is its reverse.

    By digests and not by a generator, whose numbers another version may change.
    """
    drawn = f"{design.seed} {condition} {block // 2}"
    found = sorted(design.arms, key=lambda arm: sha256(f"{drawn} {arm}".encode()).digest())
    return found[::-1] if block % 2 else found


def interim_analyses(runs: int) -> Mapping[int, float]:
    """Return the numbers of blocks after which the result may be clear, with their levels.

    Only where each order was had both ways, and ever more rarely: a look costs evidence.
    """
    found = []
    blocks = FIRST_INTERIM
    while blocks < runs:
        found.append(blocks)
        blocks += max(2, blocks // 4 * 2)
    return dict.fromkeys(found, INTERIM_ALPHA / len(found)) if found else {}


def final_alpha(runs: int) -> float:
    """The level of the look at the end, wherever that comes."""
    return ALPHA - INTERIM_ALPHA if interim_analyses(runs) else ALPHA
