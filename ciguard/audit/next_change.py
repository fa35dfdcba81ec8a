"""The next change of a workflow that was audited, as `ciguard init` would write it."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from ciguard.audit.proposal import WorkflowChange
from ciguard.errors import InputError
from ciguard.sources import local
from ciguard.workflow.actions_address import known_address
from ciguard.workflow.guard_job import NEW_JOBS, next_step, read_guarded_job, test_job
from ciguard.workflow.job_templates import with_next_job
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import LIST_COMMANDS
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.config.file import Config

PLACEHOLDER: Final = "OWNER/ciguard@COMMIT"  # shown where the address of the actions is not known
LIST_PLACEHOLDER: Final = "COMMAND"


def next_change(
    folder: Path, config: Config, path: str, job: str, *, filter_key: str, needs_labels: bool
) -> WorkflowChange:
    """Return the next change of a workflow by `ciguard init`.

    Args:
        needs_labels: a filter selects by categories, which the test tools do not list.
    """
    text = local.read(folder / path).decode("utf-8")
    workflow = load(text, path)
    job = job or test_job(workflow, SourceText(text), path)
    step = next_step(workflow, job)
    target = f"{path}:{job}"
    if step not in NEW_JOBS:
        return WorkflowChange(step, target)
    listing = LIST_PLACEHOLDER
    try:
        guarded = read_guarded_job(workflow, job, path)
        if not needs_labels:
            listing = LIST_COMMANDS.get(guarded.tests.framework, listing)
        address = known_address(config.actions) or PLACEHOLDER
        filters = {"listing": listing, "filter_key": filter_key}
        edited = with_next_job(text, step, guarded, address, **filters)
    except InputError as error:
        problem = f"{error.where}: {error.what}"
        return WorkflowChange(step, target, listing, problem=problem, fix=error.fix)
    lines = difflib.unified_diff(text.splitlines(), edited.splitlines(), path, path, lineterm="")
    return WorkflowChange(step, target, listing, diff="\n".join(lines))
