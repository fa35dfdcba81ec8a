"""What is to be done in one pool: its units, their costs, and the bounds on any packing. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ciguard.plan.deadline import is_enforced
from ciguard.plan.overheads import Overheads
from ciguard.plan.packing import Costs, form_groups, lower_bound_s
from ciguard.plan.risk import WallTimeSpread, limit_for_risk, overrun_probability

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import PlannedUnit, Suite
    from ciguard.plan.loss_isolation import CandidateSet
    from ciguard.plan.overheads import LegCost
    from ciguard.plan.packing import Group, GroupKey

MAX_SHARDS: Final = 256  # jobs that GitHub lets a matrix have
RELATIVE_TOLERANCE: Final = 1e-9  # of sums of the same numbers in another order
NO_OVERHEADS: Final = Overheads()


@dataclass(frozen=True)  # no slots: what many shard counts ask for is summed once
class PackingProblem:
    """What is to be done in one pool.

    Attributes:
        units: of the whole inventory, by key; `positions` selects.
        run_order, variances_s2: by position, as in `Inventory` and `Estimates`.
        group_key: what keeps units together; None for nothing.
        overheads: of this pool's shards.
        in_folder: by position, whether what keeps the unit together is a folder; None for none.
        colocated: units that the suite itself keeps together.
        candidate_sets: units that may have killed shards.
        moves_blocks: units may move to other legs during the run.
        deadline_s, risk: when a leg stops itself, and the accepted P(any shard gets there);
            infinite without timings.
    """

    pool: str
    budget_bytes: int | None
    processes: int
    units: Sequence[PlannedUnit]
    positions: Sequence[int]
    run_order: Sequence[int]
    variances_s2: Sequence[float]
    speed_spread: float
    group_key: GroupKey | None
    suites: Mapping[str, Suite]
    overheads: Overheads = NO_OVERHEADS
    in_folder: Sequence[bool] | None = None
    colocated: Sequence[tuple[int, ...]] = ()
    candidate_sets: Sequence[CandidateSet] = ()
    concurrency: int | None = None
    moves_blocks: bool = False
    deadline_s: float = math.inf
    risk: float = 0.0

    @cached_property
    def walls_s(self) -> tuple[float, ...]:
        """What each unit costs a shard, by position, of the whole inventory."""
        if not self.overheads.inter_test_s:
            return tuple(unit.wall_s for unit in self.units)
        by_suite = {name: self.overheads.inter_test_gap_s(name, self.pool) for name in self.suites}
        return tuple(unit.wall_s + by_suite[unit.suite] for unit in self.units)

    @cached_property
    def setups_s(self) -> tuple[float, ...] | None:
        """By position, what the fixtures that its file shares take once; None where none do."""
        by_file = self.overheads.setup_s
        if not any(by_file):
            return None
        return tuple(by_file[file] if file >= 0 else 0.0 for file in self.overheads.file)

    @cached_property
    def costs(self) -> Costs:
        """What its units take, and what their groups set up."""
        if self.group_key is None:
            return Costs(self.walls_s)
        return Costs(self.walls_s, self.setups_s, self.in_folder)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All its units, by what keeps them together."""
        return form_groups(self.costs, self.group_key, self.positions, colocated=self.colocated)

    @cached_property
    def total_s(self) -> float:
        """Sum over its units, and over what their files set up once."""
        return self.load_s(self.positions)

    @cached_property
    def floor(self) -> int:
        """The unit that no number of shards can go below; ties go to the first key."""
        process_s = {name: process_overhead_s(suite) for name, suite in self.suites.items()}

        def beyond_leg_s(position: int) -> float:  # which is the same for all
            setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
            return process_s[self.units[position].suite] + self.walls_s[position] + setup_s

        return max(sorted(self.positions), key=beyond_leg_s)

    @cached_property
    def leg(self) -> LegCost:
        """What each of its shards takes besides its processes."""
        return self.overheads.leg(self.pool)

    @cached_property
    def starts_s(self) -> list[float]:
        """Overhead of one process of each of its suites and variants, ascending."""
        return self.processes_s(self.positions)

    @property
    def min_process_overhead_s(self) -> float:
        """What any process takes besides its units."""
        return self.starts_s[0]

    def load_s(self, positions: Iterable[int]) -> float:
        """What units take in one process together, once it has started."""
        members = list(positions)
        walls_s = [self.walls_s[position] for position in members]
        if self.setups_s is not None:
            first = {self.overheads.file[position]: position for position in members}
            walls_s += [self.setups_s[position] for position in first.values()]
        return math.fsum(walls_s)

    @cached_property
    def infeasible(self) -> tuple[tuple[int, ...], ...]:
        """Units, and groups that the suite keeps together, that alone pass the deadline.

        At this risk; longest first. No number of shards helps them, and the others are to keep it.
        """
        return self._long_blocks if self.enforces_deadline else ()

    @cached_property
    def enforces_deadline(self) -> bool:
        """Whether shards are made so that they keep the deadline."""
        return is_enforced(sum(map(len, self._long_blocks)), len(self.positions))

    @cached_property
    def longest_feasible_s(self) -> float:
        """What a shard of the longest unit or group takes that is feasible."""
        blocks = self._blocks if self.infeasible else self._longest
        return max(map(self.block_solo_s, blocks[len(self.infeasible) :]))

    @property
    def _longest(self) -> tuple[tuple[int, ...]]:
        return (max(((self.floor,), *self.colocated), key=self.block_solo_s),)

    @cached_property
    def _blocks(self) -> Sequence[tuple[int, ...]]:
        """Units by themselves, or with those that the suite keeps with them, longest first."""
        taken = {unit for members in self.colocated for unit in members}
        blocks = [*self.colocated, *((one,) for one in self.positions if one not in taken)]
        return sorted(blocks, key=lambda block: (-self.block_solo_s(block), block))

    @cached_property
    def _long_blocks(self) -> tuple[tuple[int, ...], ...]:
        if math.isinf(self.deadline_s) or not any(map(self._is_infeasible, self._longest)):
            return ()  # sorting a million takes a second, and the next one is not needed
        return tuple(takewhile(self._is_infeasible, self._blocks))

    def _is_infeasible(self, members: Sequence[int]) -> bool:
        spread = self.spread(members, min(self.processes, len(members)))
        return (
            overrun_probability(self.deadline_s, [self.block_solo_s(members)], [spread]) > self.risk
        )

    def block_solo_s(self, members: Sequence[int]) -> float:
        """What a shard of nothing but units that stay together takes at least."""
        alone_s = max(map(self.solo_s, members))
        if len(members) == 1:
            return alone_s
        return max(alone_s, self.load_s(members) / self.processes + self.min_shard_overhead_s)

    @cached_property
    def deadline_at_risk_s(self) -> float:
        """What a shard may take so that it keeps the deadline on slow machines, at this risk."""
        if not self.enforces_deadline:
            return math.inf
        room = limit_for_risk(self.risk, [1.0], [WallTimeSpread(0.0, 1, self.speed_spread)])
        return self.deadline_s / room

    def spread(self, members: Sequence[int], processes: int) -> WallTimeSpread:
        """How far a shard of these units may be off."""
        variance_s2 = math.fsum(self.variances_s2[member] for member in members)
        return WallTimeSpread(variance_s2, processes, self.speed_spread, self.leg.spread_s)

    @property
    def min_shard_overhead_s(self) -> float:
        """What any shard takes besides its units."""
        return self.leg.total_s + self.min_process_overhead_s

    @cached_property
    def max_shards(self) -> int:
        """The most shards of which none is empty."""
        return len(self.positions) - sum(len(one) - 1 for one in self.colocated)

    def processes_s(self, positions: Iterable[int]) -> list[float]:
        """What a process of each of these units' suites and variants takes besides its units."""
        units = map(self.units.__getitem__, positions)
        suite_keys = {
            (unit.suite, unit.variant) for unit in units
        }  # its key would be made for each
        return sorted(process_overhead_s(self.suites[suite]) for suite, _ in suite_keys)

    def solo_s(self, position: int) -> float:
        """What a shard of this unit alone takes: with its fixtures, its process, and the leg."""
        setup_s = self.setups_s[position] if self.setups_s is not None else 0.0
        process_s = process_overhead_s(self.suites[self.units[position].suite])
        return math.fsum((self.leg.total_s, process_s, self.walls_s[position], setup_s))

    def bound_s(self, shard_count: int) -> float:
        """The least wall time of this many shards; each suite and variant starts at least once."""
        slots = shard_count * self.processes
        started_s = math.fsum(self.starts_s) - min(len(self.starts_s), slots) * self.starts_s[0]
        floor_s = self.solo_s(self.floor)
        return lower_bound_s(
            self.total_s + started_s, floor_s, slots, setup_s=self.min_shard_overhead_s
        )


def process_overhead_s(suite: Suite) -> float:
    """What a process of the suite takes besides its units."""
    return suite.setup_s + suite.teardown_s
