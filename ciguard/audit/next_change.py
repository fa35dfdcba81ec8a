"""The next change of a workflow that was audited, as `ciguard init` would write it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from ciguard.audit.proposal import WorkflowChange
from ciguard.errors import InputError
from ciguard.init.guard_results import PLAN_FILE, test_job, with_next_job
from ciguard.init.move_in import known_address, read_workflow
from ciguard.workflow.guard_job import NEW_JOBS, next_step, read_guarded_job
from ciguard.workflow.positions import SourceText
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.config import Config

PLACEHOLDER: Final = "OWNER/ciguard@COMMIT"  # shown where the address of the actions is not known


def next_change(folder: Path, config: Config, path: str, job: str) -> WorkflowChange:
    """What `ciguard init` would change next in a workflow."""
    text = read_workflow(folder, path)
    workflow = load(text, path)
    step = next_step(workflow)
    job = job or test_job(workflow, SourceText(text), path)
    target = f"{path}:{job}"
    if step not in NEW_JOBS:
        return WorkflowChange(step, target)
    try:
        guarded = read_guarded_job(workflow, job, path)
        address = known_address(config) or PLACEHOLDER
        edited = with_next_job(text, step, guarded, address, PLAN_FILE)
    except InputError as error:
        return WorkflowChange(step, target, problem=f"{error.where}: {error.what}", fix=error.fix)
    lines = difflib.unified_diff(text.splitlines(), edited.splitlines(), path, path, lineterm="")
    return WorkflowChange(step, target, diff="\n".join(lines))
