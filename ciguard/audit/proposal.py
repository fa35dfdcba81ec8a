"""A plan of the same tests that an audit proposes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.plan.allocation import shard_count_option, walls_of

if TYPE_CHECKING:
    from ciguard.audit.findings import Audit
    from ciguard.model import Plan, ShardCountOption


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Sizes of the shards of a matrix or plan.

    Attributes:
        shards: number of shards.
        largest: number of tests of the largest shard.
        longest_s: predicted wall time of the longest shard, seconds; None without times.
        cost: None without times.
    """

    shards: int
    largest: int
    longest_s: float | None = None
    cost: ShardCountOption | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A matrix, and plans that run each of its tests once.

    Attributes:
        as_many: a plan with as many shards.
        as_long: a plan with the fewest shards that take no longer; None without times.
    """

    matrix: ShardLayout
    as_many: ShardLayout
    as_long: ShardLayout | None = None


def propose_by_count(audit: Audit) -> Proposal | None:
    """Propose a plan that divides the tests evenly, without times.

    Returns:
        None if no test runs, if a test is undecided, or for jobs of several runners.
    """
    sizes = [shard.selected.sure.bit_count() for shard in audit.shards]
    running = audit.repeated[0].bit_count()
    runners = {shard.shard.runner for shard in audit.shards}
    if not running or audit.undecided or len(runners) > 1:
        return None
    count = min(len(sizes), running)
    largest = -(-running // count)
    return Proposal(ShardLayout(len(sizes), max(sizes)), ShardLayout(count, largest))


def layout_of(plan: Plan) -> ShardLayout:
    """Return the sizes of the shards of a plan."""
    largest = max(len(shard.units) for shard in plan.shards)
    if not plan.has_timings:
        return ShardLayout(len(plan.shards), largest)
    longest_s = max(shard.predicted.wall_s for shard in plan.shards)
    cost = shard_count_option(walls_of(plan.shards), plan.pools, chosen=False)
    return ShardLayout(len(plan.shards), largest, longest_s, cost)
