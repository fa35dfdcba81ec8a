"""The order of an experiment's runs, and the evidence at which it may end early. Pure.

An arm is one of the compared commands or commits. Every arm runs once in a block. The order within
a block is random, and the next block reverses it (A C B, B C A): a machine that warms up, or gets
busy, affects all arms equally, and a steady drift cancels after each second block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from ciguard.text import one_line

# Share of experiments without any difference that may report one, over all analyses: each analysis
# has a part of it, and the parts add up for any dependence of the analyses (Bonferroni).
ALPHA: Final = 0.04
INTERIM_ALPHA: Final = 0.01  # of it, for all analyses before the end
NAME_WIDTH: Final = 60  # of a condition
FIRST_INTERIM: Final = 4  # blocks: before, the estimate of the spread is too uncertain


@dataclass(frozen=True, slots=True)
class Design:
    """The runs of an experiment.

    Attributes:
        runs: largest number of runs of each arm in each condition.
        warm: number of warm-up runs of each arm before, which do not count.
        conditions: names with their values; by default one condition without names.
        arms: names, at least two; each arm is compared with the first.
        seed: of the order within blocks.
    """

    runs: int
    warm: int = 0
    conditions: tuple[Mapping[str, str], ...] = ({},)
    arms: tuple[str, ...] = ("a", "b")
    seed: int = 0

    def condition_text(self, condition: int) -> str:
        """Return the text of a condition: "batch=2 steps=4", or "" without names."""
        named = self.conditions[condition].items()
        return one_line(" ".join(f"{name}={value}" for name, value in named), NAME_WIDTH)


@dataclass(frozen=True, slots=True)
class Step:
    """One run. `block` counts from 0 in each condition, separately for warm-up runs and others.

    Attributes:
        position: in its block, from 0.
    """

    condition: int
    arm: str
    block: int
    position: int
    is_warm: bool = False


def steps(design: Design) -> Iterator[Step]:
    """Yield all runs in their order; conditions alternate, too."""
    for is_warm, blocks in ((True, design.warm), (False, design.runs)):
        for block in range(blocks):
            for condition in range(len(design.conditions)):
                for position, arm in enumerate(_order(design, condition, block)):
                    yield Step(condition, arm, block, position, is_warm)


def _order(design: Design, condition: int, block: int) -> list[str]:
    """Return the arms of a block: random in even blocks, reversed in the odd one after each.

    The order comes from digests: another Python version may change the numbers of a generator.
    """
    seed = f"{design.seed} {condition} {block // 2}"
    order = sorted(design.arms, key=lambda arm: sha256(f"{seed} {arm}".encode()).digest())
    return order[::-1] if block % 2 else order


def interim_analyses(runs: int) -> Mapping[int, float]:
    """Return the numbers of blocks after which an analysis may end the experiment, with levels.

    Only even numbers, so that each order also ran reversed. The distances grow, because each
    analysis uses up a part of the level.
    """
    analyses = []
    blocks = FIRST_INTERIM
    while blocks < runs:
        analyses.append(blocks)
        blocks += max(2, blocks // 4 * 2)
    return dict.fromkeys(analyses, INTERIM_ALPHA / len(analyses)) if analyses else {}


def final_alpha(runs: int) -> float:
    return ALPHA - INTERIM_ALPHA if interim_analyses(runs) else ALPHA
