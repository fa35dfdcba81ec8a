"""The shards of one pool: packed, cut into blocks that may move, and simulated. Pure.

The simulation runs the rules of `run/policy/rules.py` as the supervisor does, with estimates
instead of records, so that a prediction is wrong only if an estimate is wrong.

A part of a shard may move to another leg during the run, in blocks. A leg runs its own part first
and then takes blocks: its own, or those of a leg that would end later. Long units begin early and
do not move. The blocks contain the short units and get shorter towards the end (factoring: Hummel,
Schonberg, Flynn, "Factoring: a method for scheduling parallel loops", 1992). To start with the
unmeasured units made the makespan 2 % longer, as some runs have too many.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from ciguard.model import Block, PlanNote, Prediction, Shard
from ciguard.plan.loss_isolation import place_candidates
from ciguard.plan.packing import Group, Preassigned, form_groups, pack_balanced
from ciguard.plan.problem import PackingProblem
from ciguard.plan.risk import WallTimeSpread, overrun_probability
from ciguard.run.policy.simulate import simulate_processes

# Chosen by half of the real recordings, checked by the others: `benchmarks/moved_blocks.py`.
CLAIM_S: Final = 0.5  # from a request over the internet to the start of the block
HELD_BACK_RATIO: Final = 0.5  # of a shard's predicted time
MAX_BLOCKS: Final = 10
# Fewer blocks are made if a block would be shorter than so many claims, or if the starts of their
# processes would take more than this part of the shard's time.
MIN_CLAIMS: Final = 2.0
MAX_STARTS_RATIO: Final = 0.03
# Neighbours in a file up to this share of a shard's time move together, so that few blocks load it.
PIECE_RATIO: Final = 0.01

DIGITS: Final = 6
_REQUESTED: Final = PlanNote("requested")
_NO_PREDICTION: Final = Prediction(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Piece:
    """Units of a shard that run in one process, one after the other.

    Attributes:
        members: positions, ascending; not empty.
        wall_s: estimate, finite and >= 0.
    """

    members: tuple[int, ...]
    wall_s: float


def neighbours(members: Sequence[int], walls_s: Sequence[float], limit_s: float) -> Iterator[Piece]:
    """Cut successive units into pieces of at most `limit_s`, or of one unit; O(units).

    Args:
        members: positions, in the order in which they run; not empty.
        walls_s: by position.
    """
    piece: list[int] = []
    piece_s = 0.0
    for member in members:
        if piece and piece_s + walls_s[member] > limit_s:
            yield Piece(tuple(sorted(piece)), piece_s)
            piece, piece_s = [], 0.0
        piece.append(member)
        piece_s += walls_s[member]
    yield Piece(tuple(sorted(piece)), piece_s)


@dataclass(frozen=True, slots=True)
class CutShard:
    """A shard's own part, and its blocks in the order of their execution."""

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
        pieces: all of the shard.
        claim_s: time of a request for a block.
        start_s: time to start a process for a block.
        held_back: part of the predicted time, 0..1; a piece partly inside is held back.

    Returns:
        A shard without blocks if no block would be long enough. O(pieces log pieces).
    """
    total_s = math.fsum(piece.wall_s for piece in pieces)
    max_count = float(max_blocks)
    if claim_s > 0:
        max_count = min(max_count, held_back * total_s / (MIN_CLAIMS * claim_s))
    if start_s > 0:
        max_count = min(max_count, MAX_STARTS_RATIO * total_s / start_s)
    longest_first = sorted(pieces, key=lambda piece: (-piece.wall_s, piece.members))
    ends_s = accumulate(piece.wall_s for piece in longest_first)
    own_s = (1 - held_back) * total_s
    own_count = max(sum(end_s <= own_s for end_s in ends_s), 1)
    rest = longest_first[own_count:]
    if max_count < 1 or not rest:
        return CutShard(_members(pieces))
    return CutShard(_members(longest_first[:own_count]), tuple(_blocks(rest, int(max_count))))


def _blocks(pieces: Sequence[Piece], count: int) -> list[Piece]:
    """Make at most `count` blocks, with times in the ratio count : count - 1 : ... : 1."""
    weights = list(accumulate(range(count, 0, -1)))
    total_s = math.fsum(piece.wall_s for piece in pieces)
    blocks: list[list[Piece]] = [[] for _ in range(count)]
    index, begin_s = 0, 0.0
    for piece in pieces:
        middle_s = begin_s + piece.wall_s / 2
        while index < count - 1 and middle_s > total_s * weights[index] / weights[-1]:
            index += 1
        blocks[index].append(piece)
        begin_s += piece.wall_s
    return [
        Piece(_members(block), math.fsum(piece.wall_s for piece in block))
        for block in blocks
        if block
    ]


def _members(pieces: Sequence[Piece]) -> tuple[int, ...]:
    return tuple(sorted(member for piece in pieces for member in piece.members))


@dataclass(frozen=True, slots=True)
class PoolAllocation:
    """One pool's shards, without keys.

    Attributes:
        split: first units of groups that are in several shards.
        infeasible: indices of shards with a unit that alone exceeds the deadline.
    """

    shards: tuple[Shard, ...]
    spreads: tuple[WallTimeSpread, ...]
    split: tuple[int, ...]
    infeasible: frozenset[int] = frozenset()
    limited_by: PlanNote = _REQUESTED

    @property
    def makespan_s(self) -> float:
        """Return the predicted wall time of the longest shard."""
        return max(shard.predicted.wall_s for shard in self.shards)

    @property
    def feasible_makespan_s(self) -> float:
        """Return the predicted wall time of the longest feasible shard."""
        return max((shard.predicted.wall_s for shard, _ in self._feasible()), default=0.0)

    def meets(self, deadline_s: float, risk: float) -> bool:
        """Return whether the feasible shards meet the deadline at this risk."""
        walls_s = [shard.predicted.wall_s for shard, _ in self._feasible()]
        spreads = [spread for _, spread in self._feasible()]
        return not walls_s or overrun_probability(deadline_s, walls_s, spreads) <= risk

    def _feasible(self) -> Iterator[tuple[Shard, WallTimeSpread]]:
        for index, pair in enumerate(zip(self.shards, self.spreads, strict=True)):
            if index not in self.infeasible:
                yield pair


def allocate_n(work: PackingProblem, shard_count: int, target_s: float = 0.0) -> PoolAllocation:
    """Pack into exactly this many shards, or as many as can be filled.

    Args:
        target_s: wall time of a shard up to which no group is divided.
    """
    split, packed = pack_shards(work, min(shard_count, work.max_shards), target_s)
    pairs = [_shard(work, members) for members in packed]
    infeasible = {unit for block in work.infeasible for unit in block}
    return PoolAllocation(
        tuple(shard for shard, _ in pairs),
        tuple(spread for _, spread in pairs),
        split,
        frozenset(index for index, units in enumerate(packed) if not infeasible.isdisjoint(units)),
    )


def pack_shards(
    work: PackingProblem, count: int, target_s: float = 0.0
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Pack units into shards; return the first units of split groups, and each shard's units.

    Args:
        count: number of shards, at most `work.max_shards`.
    """
    infeasible = _isolated_blocks(work, count)
    isolated = {unit for block in infeasible for unit in block}
    positions = [position for position in work.positions if position not in isolated]
    isolated_candidates, spread_candidates = place_candidates(
        work.candidate_sets, positions, count - len(infeasible), colocated=work.colocated
    )
    assigned = isolated.union(*isolated_candidates, *spread_candidates)
    groups = work.groups
    if assigned:
        rest = [position for position in work.positions if position not in assigned]
        groups = form_groups(work.costs, work.group_key, rest, colocated=work.colocated)
    before = [Preassigned(work.load_s(members), members) for members in spread_candidates]
    target_load_s = (target_s - work.leg.total_s - math.fsum(work.starts_s)) * work.processes
    packed = pack_balanced(groups, before, work.costs, target_load_s)
    return packed.split_groups, (*infeasible, *packed.shards, *isolated_candidates)


def _isolated_blocks(work: PackingProblem, count: int) -> list[tuple[int, ...]]:
    """Return infeasible blocks that are longer than the mean of the remaining shards.

    In a separate shard such a block stops no other unit, and no other shard gets longer. These
    shards come first, and so they start first.
    """
    isolated: list[tuple[int, ...]] = []
    remaining_s = work.total_s if work.infeasible else 0.0
    for block in work.infeasible[: count - 1]:
        if work.block_solo_s(block) < remaining_s / ((count - len(isolated)) * work.processes):
            break
        remaining_s -= work.load_s(block)
        isolated.append(block)
    return isolated


def _shard(work: PackingProblem, members: Sequence[int]) -> tuple[Shard, WallTimeSpread]:
    cut = _cut_shard_of(work, members)
    ordered = [
        member
        for part in (cut.own, *(block.members for block in cut.blocks))
        for member in sorted(part, key=work.run_order.__getitem__)
    ]
    units = tuple(work.units[member] for member in ordered)
    processes = min(work.processes, len(units))
    shard = Shard(
        key="",
        pool=work.pool,
        units=units,
        predicted=_NO_PREDICTION,
        processes=processes,
        budget_bytes=work.budget_bytes,
        blocks=tuple(
            Block(len(block.members), round(block.wall_s, DIGITS)) for block in cut.blocks
        ),
    )
    runs = simulate_processes(
        shard, work.suites, lambda indices: work.load_s(ordered[index] for index in indices)
    )
    spread = work.spread(members, processes)
    wall_s = round(work.leg.total_s + max((end_s for *_, end_s in runs), default=0.0), DIGITS)
    prediction = Prediction(wall_s, round(spread.p95_s(wall_s), DIGITS))
    return replace(shard, predicted=prediction), spread


def _cut_shard_of(work: PackingProblem, members: Sequence[int]) -> CutShard:
    """Cut a shard into its own part and blocks; no blocks if it contains a suspect."""
    suspects = {unit for candidates in work.candidate_sets for unit in candidates.units}
    if not work.moves_blocks or not suspects.isdisjoint(members):
        return CutShard(tuple(members))
    groups = form_groups(work.costs, work.group_key, sorted(members), colocated=work.colocated)
    limit_s = PIECE_RATIO * work.load_s(members)
    pieces = [piece for group in groups for piece in _pieces(work, group, limit_s)]
    return cut_shard(pieces, claim_s=CLAIM_S, start_s=max(work.processes_s(members)))


def _pieces(work: PackingProblem, group: Group, limit_s: float) -> Iterator[Piece]:
    """Yield pieces of a group; one piece if its parts would repeat a set-up or a build."""
    has_setup = work.setups_s is not None and any(work.setups_s[unit] for unit in group.members)
    if group.indivisible or group.is_folder or has_setup:
        yield Piece(group.members, work.load_s(group.members))
        return
    ordered = sorted(group.members, key=work.run_order.__getitem__)
    yield from neighbours(ordered, work.walls_s, limit_s)


def quick_makespans_s(work: PackingProblem, shard_count: int) -> list[float]:
    """Return wall times of `shard_count` shards, by sums, without memory and order of processes."""
    _, packed = pack_shards(work, min(shard_count, work.max_shards))
    walls_s = []
    for members in packed:
        slots = min(work.processes, len(members))
        longest_s = max(work.solo_s(member) for member in members) if slots > 1 else 0.0
        starts_s = work.starts_s if len(work.starts_s) == 1 else work.processes_s(members)
        # Each slot has at least one process.
        starts_s = [*starts_s, *[starts_s[0]] * (slots - len(starts_s))]
        wall_s = work.leg.total_s + (work.load_s(members) + math.fsum(starts_s)) / slots
        walls_s.append(max(wall_s, longest_s))
    return walls_s
