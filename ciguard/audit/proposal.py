"""The proposals after an audit: a plan of the same tests, the next change of the workflow. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.plan.allocation import shard_count_option, walls_of

if TYPE_CHECKING:
    from ciguard.audit.findings import Audit
    from ciguard.model import Plan, ShardCountOption
    from ciguard.workflow.guard_job import NextStep


@dataclass(frozen=True, slots=True)
class ShardLayout:
    """Shards as they are, or would be.

    Attributes:
        largest: tests of the largest shard.
        longest_s: predicted wall time of the longest shard, seconds; None without times.
        cost: None without times.
    """

    shards: int
    largest: int
    longest_s: float | None = None
    cost: ShardCountOption | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """A matrix, and plans of the tests that it runs, each once.

    Attributes:
        as_many: a plan with as many shards.
        as_long: one with as few shards as end as early as the matrix does; None without times.
    """

    matrix: ShardLayout
    as_many: ShardLayout
    as_long: ShardLayout | None = None


@dataclass(frozen=True, slots=True)
class WorkflowChange:
    """The next step of a workflow, as `ciguard init` would write it.

    Attributes:
        target: `FILE:JOB`.
        listing: command that prints the tests, for the step that guards; "" where none is known.
        diff: "" where it cannot be written; then `problem` and `fix` say why, and what to do.
    """

    step: NextStep
    target: str
    listing: str = ""
    diff: str = ""
    problem: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The end of an audit. `proposal` is None where several runners are used, `change` where
    the matrix stands in no workflow.
    """

    proposal: Proposal | None = None
    change: WorkflowChange | None = None


def propose_by_count(found: Audit) -> Proposal | None:
    """A plan without times, which divides the tests evenly.

    None where no test runs, or where jobs of several runners may need different tests.
    """
    sizes = [shard.selected.sure.bit_count() for shard in found.shards]
    running = found.repeated[0].bit_count()
    runners = {shard.shard.runner for shard in found.shards}
    if not running or found.undecided or len(runners) > 1:
        return None
    count = min(len(sizes), running)
    largest = -(-running // count)
    return Proposal(ShardLayout(len(sizes), max(sizes)), ShardLayout(count, largest))


def layout_of(plan: Plan) -> ShardLayout:
    """The shards of a plan."""
    largest = max(len(shard.units) for shard in plan.shards)
    if not plan.has_timings:
        return ShardLayout(len(plan.shards), largest)
    longest_s = max(shard.predicted.wall_s for shard in plan.shards)
    cost = shard_count_option(walls_of(plan.shards), plan.pools, chosen=False)
    return ShardLayout(len(plan.shards), largest, longest_s, cost)
