"""`ciguard init --guard FILE[:JOB]`: jobs that judge and record the results of a matrix as it is.

The first call adds the job that judges, and lets the test job list its tests; the next one adds the
job that records.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ciguard import console
from ciguard.errors import UsageError
from ciguard.init.generated_files import GeneratedFile
from ciguard.init.move_in import actions_address, read_workflow
from ciguard.init.repository import repository_files
from ciguard.init.workflow_files import render_guard_job
from ciguard.template_loader import environment
from ciguard.workflow.guard_job import (
    NEW_JOBS,
    add_jobs,
    next_step,
    read_guarded_job,
    split_target,
)
from ciguard.workflow.movable_job import NotMovable, choose_step
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import LIST_COMMANDS, find_test_steps
from ciguard.workflow.yaml_values import jobs_of, load

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.config import Config
    from ciguard.workflow.guard_job import GuardedJob, NextStep


def guarded_files(
    folder: Path, config: Config, target: str, listing: str = ""
) -> list[GeneratedFile]:
    """The workflow with the next job: none where it has both.

    Args:
        target: workflow file, and its test job after a colon where several run tests.
        listing: command that prints the tests that exist; needed for the first job.

    Raises:
        InputError: no such workflow, or its matrix is computed.
        NotMovable: the job uploads no results, or the file cannot be edited.
        UsageError: the address of the actions is not known, or no command lists the tests.
    """
    repository_files(folder)
    path, job = split_target(target)
    text = read_workflow(folder, path)
    workflow = load(text, path)
    step = next_step(workflow)
    if step not in ("guard", "history"):
        then = f"; the next step is ciguard init --into {path}" if step == "plan" else ""
        console.out(f"{path} guards its results already{then}")
        return []
    guarded = read_guarded_job(workflow, job or test_job(workflow, SourceText(text), path), path)
    if step == "guard" and not listing:
        example = LIST_COMMANDS.get(guarded.tests.framework, "./list-tests.sh")
        fix = f"pass the command that prints them, such as --list {shlex.quote(example)}"
        raise UsageError("nothing says which tests exist", where="--guard", fix=fix)
    edited = with_next_job(text, step, guarded, actions_address(config), listing)
    return [GeneratedFile(path, text, edited)]


def with_next_job(text: str, step: NextStep, job: GuardedJob, actions: str, listing: str) -> str:
    """The workflow with the job that a step adds.

    Raises:
        NotMovable: the file cannot be edited.
    """
    templates = environment()
    rendered = render_guard_job(step, actions, job, templates)
    steps = render_guard_job("listing", actions, job, templates, listing) if step == "guard" else ""
    return add_jobs(text, job, {NEW_JOBS[step]: rendered}, steps)


def test_job(workflow: Any, source: SourceText, path: str) -> str:
    """The only job with a matrix that runs tests.

    Raises:
        NotMovable: there are several, or none.
    """
    jobs = jobs_of(workflow)
    with_matrix = [
        name
        for name in dict.fromkeys(step.job for step in find_test_steps(workflow))
        if (jobs[name].get("strategy") or {}).get("matrix")
    ]
    if len(with_matrix) > 1:
        what = f"several jobs with a matrix run tests: {', '.join(with_matrix)}"
        raise NotMovable(what, where=path, fix=f"name one: --guard {path}:{with_matrix[0]}")
    return with_matrix[0] if with_matrix else choose_step(workflow, source, path)[0]
