"""A job whose test step is ciguard's action: found, and pinned anew. Pure."""

from __future__ import annotations

import re
from typing import Any

from ciguard.workflow.movable_job import PLAN_JOB
from ciguard.workflow.rewrite import action_path
from ciguard.workflow.yaml_values import jobs_of, load, steps_of


def is_moved(workflow: Any) -> bool:
    """Say whether the workflow has a job `ciguard` that uses an action called plan."""
    return _plan_step(workflow) is not None


def _plan_step(workflow: Any) -> dict[str, Any] | None:
    for _, step in steps_of(jobs_of(workflow).get(PLAN_JOB)):
        uses = str(step.get("uses", ""))
        if "/plan@" in uses or uses == "$/actions/plan":
            return step
    return None


def repin(text: str, where: str, actions: str) -> str:
    """The workflow with ciguard's actions at another address; other lines stay.

    A comment at a line stays where the address has none, and names the same commit.
    """
    plan = _plan_step(load(text, where))
    if plan is None:
        return text
    repository = str(plan["uses"]).partition("/plan")[0]
    pattern = (
        rf"^(?P<key>[ \t]*(?:-[ \t]+)?uses:[ \t]+)(?P<uses>{re.escape(repository)}"
        r"/(?P<name>plan|run|report|history)@[^\s#'\"]+)(?:[ \t]+#[^\r\n]*)?(?=\r?$)"
    )

    def replace(found: re.Match[str]) -> str:
        uses = action_path(actions, found["name"])
        return found[0] if found["uses"] == uses else found["key"] + uses

    return re.sub(pattern, replace, text, flags=re.MULTILINE)
