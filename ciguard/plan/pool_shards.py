"""The shards of one pool: packed, and run on paper by the leg's own rules. Pure.

The rules of `run/policy/rules.py` run exactly as in the supervisor, over estimates in the place of
records, so a prediction is only wrong where an estimate is.

A part of a shard may move to another leg during the run, in blocks. A leg runs its own part first
and then takes blocks: its own, or those of a leg that would end later. What is long begins early
and does not move. The blocks even out the rest, so they hold what is short, and get shorter towards
the end (factoring: Hummel, Schonberg, Flynn, "Factoring: a method for scheduling parallel loops",
1992). Beginning with what was never measured was tried and left 2 % more of the makespan: there is
too much of it in some runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from ciguard.model import Block, LegPolicy, PlanNote, Prediction, Shard, Suite
from ciguard.plan.loss_isolation import place_candidates
from ciguard.plan.packing import Group, Preassigned, form_groups, pack_balanced
from ciguard.plan.risk import WallTimeSpread, overrun_probability
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ciguard.plan.problem import PackingProblem
    from ciguard.run.policy.actions import Start

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

DIGITS: Final = 6
_REQUESTED: Final = PlanNote("requested")
_NO_PREDICTION: Final = Prediction(0.0, 0.0)
# Predicts the time without a stop: whether it exceeds the limit is the question.
_UNSTOPPED: Final = LegPolicy(guard_rail="off", deadline_s=None)


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


@dataclass(frozen=True, slots=True)
class PoolAllocation:
    """One pool's shards, still without keys.

    Attributes:
        split: first units of groups that are in several shards.
        infeasible: shards, by place, with a unit that alone passes the deadline.
    """

    shards: tuple[Shard, ...]
    spreads: tuple[WallTimeSpread, ...]
    split: tuple[int, ...]
    infeasible: frozenset[int] = frozenset()
    limited_by: PlanNote = _REQUESTED

    @property
    def makespan_s(self) -> float:
        """Wall time of the longest shard, as predicted."""
        return max(shard.predicted.wall_s for shard in self.shards)

    @property
    def feasible_makespan_s(self) -> float:
        """Wall time of the longest shard that is feasible."""
        return max((shard.predicted.wall_s for shard, _ in self._feasible()), default=0.0)

    def meets(self, deadline_s: float, risk: float) -> bool:
        """Return whether the feasible shards meet the deadline at this risk."""
        feasible = list(self._feasible())
        walls_s = [shard.predicted.wall_s for shard, _ in feasible]
        return (
            not feasible
            or overrun_probability(deadline_s, walls_s, [two for _, two in feasible]) <= risk
        )

    def _feasible(self) -> Iterator[tuple[Shard, WallTimeSpread]]:
        for place, pair in enumerate(zip(self.shards, self.spreads, strict=True)):
            if place not in self.infeasible:
                yield pair


def allocate_n(work: PackingProblem, shard_count: int, target_s: float = 0.0) -> PoolAllocation:
    """Pack into exactly this many shards, or as many as can be filled.

    Args:
        target_s: wall time of a shard for which no group need be divided.
    """
    split, packed = pack_shards(work, min(shard_count, work.max_shards), target_s)
    made = [_shard(work, members) for members in packed]
    lost = {unit for block in work.infeasible for unit in block}
    return PoolAllocation(
        tuple(shard for shard, _ in made),
        tuple(spread for _, spread in made),
        split,
        frozenset(place for place, units in enumerate(packed) if not lost.isdisjoint(units)),
    )


def pack_shards(
    work: PackingProblem, count: int, target_s: float = 0.0
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """First units of split groups; the units of each shard.

    Args:
        count: of shards, at most `work.max_shards`.
    """
    lost = _isolated_blocks(work, count)
    isolated = {unit for block in lost for unit in block}
    positions = [position for position in work.positions if position not in isolated]
    own, spread = place_candidates(
        work.candidate_sets, positions, count - len(lost), colocated=work.colocated
    )
    apart = isolated.union(*own, *spread)
    groups = work.groups
    if apart:
        rest = [position for position in work.positions if position not in apart]
        groups = form_groups(work.costs, work.group_key, rest, colocated=work.colocated)
    before = [Preassigned(work.load_s(members), members) for members in spread]
    enough_load_s = (target_s - work.leg.total_s - math.fsum(work.starts_s)) * work.processes
    packed = pack_balanced(groups, before, work.costs, enough_load_s)
    return packed.split_groups, (*lost, *packed.shards, *own)


def _isolated_blocks(work: PackingProblem, count: int) -> list[tuple[int, ...]]:
    """Infeasible blocks that take longer than is left for each of the other shards.

    In a shard of its own such a block takes no other along, and nothing gets longer by it. These
    shards are the first, which start first.
    """
    found: list[tuple[int, ...]] = []
    left_s = work.total_s if work.infeasible else 0.0
    for block in work.infeasible[: count - 1]:
        if work.block_solo_s(block) < left_s / ((count - len(found)) * work.processes):
            break
        left_s -= work.load_s(block)
        found.append(block)
    return found


def _shard(work: PackingProblem, members: Sequence[int]) -> tuple[Shard, WallTimeSpread]:
    parts = _parts(work, members)
    ordered = [
        member
        for part in (parts.own, *(block.members for block in parts.blocks))
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
            Block(len(block.members), round(block.wall_s, DIGITS)) for block in parts.blocks
        ),
    )
    simulated_s, peak_bytes = simulate_shard(
        shard, work.suites, lambda taken: work.load_s(ordered[unit] for unit in taken)
    )
    spread = work.spread(members, processes)
    wall_s = round(work.leg.total_s + simulated_s, DIGITS)
    measured = any(unit.peak_delta_bytes is not None for unit in units)
    prediction = Prediction(
        wall_s=wall_s,
        wall_p95_s=round(spread.p95_s(wall_s), DIGITS),
        peak_bytes=peak_bytes if measured else None,
    )
    return replace(shard, predicted=prediction), spread


def _parts(work: PackingProblem, members: Sequence[int]) -> CutShard:
    """What of a shard may move during the run; nothing where it has a unit under suspicion."""
    suspects = {unit for one in work.candidate_sets for unit in one.units}
    if not work.moves_blocks or not suspects.isdisjoint(members):
        return CutShard(tuple(members))
    groups = form_groups(work.costs, work.group_key, sorted(members), colocated=work.colocated)
    most_s = PIECE_RATIO * work.load_s(members)
    pieces = [piece for group in groups for piece in _pieces(work, group, most_s)]
    return cut_shard(pieces, claim_s=CLAIM_S, start_s=max(work.processes_s(members)))


def _pieces(work: PackingProblem, group: Group, most_s: float) -> Iterator[Piece]:
    """A group's units in this shard: together where parts of it would be set up or built twice."""
    has_setup = work.setups_s is not None and any(work.setups_s[one] for one in group.members)
    if group.indivisible or group.is_folder or has_setup:
        yield Piece(group.members, work.load_s(group.members))
        return
    ordered = sorted(group.members, key=work.run_order.__getitem__)
    yield from neighbours(ordered, work.walls_s, most_s)


def simulate_shard(
    shard: Shard, suites: Mapping[str, Suite], load_s: Callable[[Sequence[int]], float]
) -> tuple[float, int]:
    """Run the shard on paper: a process takes its suite's start and end, and its units' load.

    Args:
        load_s: what units of the shard, by position, take in one process together.

    Returns:
        Its end, and the most bytes that its processes hold at once, with what the policy takes for
        a unit without memory history. O(processes x units).
    """
    state = State(shard, suites, _UNSTOPPED)
    wall_s, peak_bytes = 0.0, 0

    def length_s(start: Start) -> float:
        suite = suites[start.suite]
        return suite.setup_s + load_s(start.units) + suite.teardown_s

    for _, end_s in simulate(state, length_s):
        wall_s = max(wall_s, end_s)
        held = sum(one.start.predicted_peak_bytes for one in state.running.values())
        peak_bytes = max(peak_bytes, held)
    return wall_s, peak_bytes


def quick_makespans_s(work: PackingProblem, shard_count: int) -> list[float]:
    """Wall times of so many shards, by sums: memory and the order of processes are left out."""
    _, packed = pack_shards(work, min(shard_count, work.max_shards))
    found = []
    for members in packed:
        slots = min(work.processes, len(members))
        longest_s = max(work.solo_s(member) for member in members) if slots > 1 else 0.0
        starts_s = work.starts_s if len(work.starts_s) == 1 else work.processes_s(members)
        # Each place has at least one process.
        starts_s = [*starts_s, *[starts_s[0]] * (slots - len(starts_s))]
        wall_s = work.leg.total_s + (work.load_s(members) + math.fsum(starts_s)) / slots
        found.append(max(wall_s, longest_s))
    return found
