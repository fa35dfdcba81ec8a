"""The plan as the matrix of a workflow: what `fromJSON` turns into jobs. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ciguard.model import Plan


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
                "name": plan.job_name(shard),
            }
            for shard in plan.shards
        ]
    }


def as_output(matrix: dict[str, Any]) -> str:
    """In one line of ASCII."""
    return json.dumps(matrix, separators=(",", ":"))
