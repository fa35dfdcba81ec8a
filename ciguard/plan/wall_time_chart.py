"""Predicted wall time by shard as a Mermaid chart. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.mermaid import bar_chart

if TYPE_CHECKING:
    from ciguard.model import Plan


def mermaid(plan: Plan) -> str:
    """The fenced block, with the lower bound as its line."""
    return bar_chart(
        "Predicted wall by shard",
        "lower bound",
        [shard.key for shard in plan.shards],
        [shard.predicted.wall_s for shard in plan.shards],
        [plan.lower_bound_s] * len(plan.shards),
    )
