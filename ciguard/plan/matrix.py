"""The plan as the matrix of a workflow: what `fromJSON` turns into jobs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ciguard.model import Plan, Shard


def matrix(plan: Plan, job_minutes: int) -> dict[str, Any]:
    """One entry a shard, in the words of templates/workflow.yml.j2; never empty.

    Args:
        job_minutes: limit of the whole job; the step's own lies below it, because a job that hits
            its limit is reported as cancelled and uploads nothing.
    """
    return {
        "include": [
            {
                "shard": shard.key,
                "runs_on": plan.pools[shard.pool].runs_on,
                "timeout_minutes": job_minutes,
                "step_timeout_minutes": shard.timeout_minutes,
                "name": job_name(plan, shard),
            }
            for shard in plan.shards
        ]
    }


def job_name(plan: Plan, shard: Shard) -> str:
    """`tests (03)`; with the suite and the pool where the plan has several."""
    words = [shard.key]
    suites = {unit.suite for unit in shard.units}
    if len(plan.suites) > 1 and len(suites) == 1:
        words += filter(None, suites)
    if len(plan.pools) > 1:
        words.append(shard.pool)
    return f"tests ({', '.join(words)})"


def as_output(matrix: dict[str, Any]) -> str:
    """In one line of ASCII."""
    return json.dumps(matrix, separators=(",", ":"))
