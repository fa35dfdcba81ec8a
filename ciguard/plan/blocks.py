"""Which part of a shard may move to another leg during the run, and in which pieces. Pure.

A leg runs its own part first and then takes blocks: its own, or those of a leg that would end
later. What is long begins early and does not move. The blocks are what evens out the rest, so they
hold what is short, and get shorter towards the end (factoring: Hummel, Schonberg, Flynn,
"Factoring: a method for scheduling parallel loops", 1992). Beginning with what was never measured
was tried and left 2 % more of the makespan: there is too much of it in some runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Chosen on half of the real recordings, judged on the others: `benchmarks/moved_blocks.py`.
CLAIM_S: Final = 0.5  # from a question to the start of the block, over the internet
HELD_BACK_RATIO: Final = 0.5  # of a shard's predicted time
MAX_BLOCKS: Final = 10
# Fewer are made where a block would take less than so many claims, or where the processes that it
# takes to run them all would start for longer than this part of the shard's time.
MIN_CLAIMS: Final = 2.0
MAX_STARTS_RATIO: Final = 0.03
# Of a shard's time: neighbours in a file that move together, so that it is not read by every block.
PIECE_RATIO: Final = 0.01


@dataclass(frozen=True, slots=True)
class Piece:
    """Units of a shard that run in one process, one after the other.

    Attributes:
        members: positions, ascending; not empty.
        wall_s: estimate, finite and >= 0.
    """

    members: tuple[int, ...]
    wall_s: float


def neighbours(members: Sequence[int], walls_s: Sequence[float], most_s: float) -> Iterator[Piece]:
    """Cut units that follow each other into pieces of at most `most_s`, or of one unit; O(units).

    Args:
        members: positions, in the order in which they run; not empty.
        walls_s: by position.
    """
    taken: list[int] = []
    taken_s = 0.0
    for member in members:
        if taken and taken_s + walls_s[member] > most_s:
            yield Piece(tuple(sorted(taken)), taken_s)
            taken, taken_s = [], 0.0
        taken.append(member)
        taken_s += walls_s[member]
    yield Piece(tuple(sorted(taken)), taken_s)


@dataclass(frozen=True, slots=True)
class CutShard:
    """A shard's own part, and its blocks in the order in which they are taken."""

    own: tuple[int, ...]
    blocks: tuple[Piece, ...] = ()


def cut_shard(
    pieces: Sequence[Piece],
    *,
    claim_s: float,
    start_s: float = 0.0,
    held_back: float = HELD_BACK_RATIO,
    max_blocks: int = MAX_BLOCKS,
) -> CutShard:
    """Hold back the shortest pieces of a shard, as blocks.

    Args:
        pieces: all that the shard has.
        claim_s: what it takes to ask for a block.
        start_s: what it takes to start a process for one.
        held_back: part of the predicted time, 0..1; a piece that is partly in it is in it.

    Returns:
        Without blocks where none would be long enough. O(pieces log pieces).
    """
    total_s = math.fsum(piece.wall_s for piece in pieces)
    most = float(max_blocks)
    if claim_s > 0:
        most = min(most, held_back * total_s / (MIN_CLAIMS * claim_s))
    if start_s > 0:
        most = min(most, MAX_STARTS_RATIO * total_s / start_s)
    ordered = sorted(pieces, key=lambda one: (-one.wall_s, one.members))
    ends_s = accumulate(one.wall_s for one in ordered)
    own_s = (1 - held_back) * total_s
    own = max(sum(end_s <= own_s for end_s in ends_s), 1)
    rest = ordered[own:]
    if most < 1 or not rest:
        return CutShard(_members(pieces))
    return CutShard(_members(ordered[:own]), tuple(_blocks(rest, int(most))))


def _blocks(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """At most so many, of lengths in the ratio count : count - 1 : ... : 1."""
    weights = list(accumulate(range(count, 0, -1)))
    total_s = math.fsum(piece.wall_s for piece in pieces)
    found: list[list[Piece]] = [[] for _ in range(count)]
    place, begin_s = 0, 0.0
    for piece in pieces:
        middle_s = begin_s + piece.wall_s / 2
        while place < count - 1 and middle_s > total_s * weights[place] / weights[-1]:
            place += 1
        found[place].append(piece)
        begin_s += piece.wall_s
    return [
        Piece(_members(some), math.fsum(piece.wall_s for piece in some)) for some in found if some
    ]


def _members(pieces: Sequence[Piece]) -> tuple[int, ...]:
    return tuple(sorted(member for piece in pieces for member in piece.members))
