"""The next change of a workflow that was audited, as `ciguard init` would write it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from ciguard.audit.proposal import WorkflowChange
from ciguard.errors import InputError
from ciguard.init.guard_results import test_job, with_next_job
from ciguard.init.move_in import known_address, read_workflow
from ciguard.workflow.guard_job import NEW_JOBS, next_step, read_guarded_job
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import LIST_COMMANDS
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.config import Config

PLACEHOLDER: Final = "OWNER/ciguard@COMMIT"  # shown where the address of the actions is not known
LIST_PLACEHOLDER: Final = "COMMAND"


def next_change(
    folder: Path, config: Config, path: str, job: str, *, needs_labels: bool
) -> WorkflowChange:
    """What `ciguard init` would change next in a workflow.

    Args:
        needs_labels: filters ask for categories, which the tools do not list.
    """
    text = read_workflow(folder, path)
    workflow = load(text, path)
    step = next_step(workflow)
    job = job or test_job(workflow, SourceText(text), path)
    target = f"{path}:{job}"
    if step not in NEW_JOBS:
        return WorkflowChange(step, target)
    listing = LIST_PLACEHOLDER
    try:
        guarded = read_guarded_job(workflow, job, path)
        if not needs_labels:
            listing = LIST_COMMANDS.get(guarded.tests.framework, listing)
        address = known_address(config) or PLACEHOLDER
        edited = with_next_job(text, step, guarded, address, listing)
    except InputError as error:
        problem = f"{error.where}: {error.what}"
        return WorkflowChange(step, target, listing, problem=problem, fix=error.fix)
    lines = difflib.unified_diff(text.splitlines(), edited.splitlines(), path, path, lineterm="")
    return WorkflowChange(step, target, listing, diff="\n".join(lines))
