"""`ciguard init --guard FILE[:JOB]`: jobs that judge and record the results of a matrix as it is.

The first call adds the job that judges, the next one the job that records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.codec import plan_file
from ciguard.errors import InputError
from ciguard.init.generated_files import GeneratedFile
from ciguard.init.move_in import actions_address, read_workflow
from ciguard.init.repository import repository_files
from ciguard.init.workflow_files import render_guard_job
from ciguard.model.shard_names import safe_name
from ciguard.sources import local
from ciguard.template_loader import environment
from ciguard.workflow.guard_job import NEW_JOBS, add_jobs, next_step, read_guarded_job, split_target
from ciguard.workflow.movable_job import NotMovable, choose_step
from ciguard.workflow.positions import SourceText
from ciguard.workflow.test_commands import find_test_steps
from ciguard.workflow.yaml_values import jobs_of, load

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from ciguard.config import Config
    from ciguard.workflow.guard_job import GuardedJob, NextStep

PLAN_FILE: Final = "ciguard-plan.json"


def guarded_files(
    folder: Path, config: Config, target: str, plan: str = PLAN_FILE
) -> list[GeneratedFile]:
    """The workflow with the next job: none where it has both.

    Args:
        target: workflow file, and its test job after a colon where several run tests.
        plan: file of the plan that `ciguard audit -o` wrote, relative to the folder.

    Raises:
        InputError: no such workflow or plan, or the plan has other shards.
        NotMovable: the job uploads no results, or the file cannot be edited.
        UsageError: the address of the actions is not known.
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
    _require_plan(folder, plan, guarded)
    edited = with_next_job(text, step, guarded, actions_address(config), plan)
    return [GeneratedFile(path, text, edited)]


def with_next_job(text: str, step: NextStep, job: GuardedJob, actions: str, plan: str) -> str:
    """The workflow with the job that a step adds.

    Raises:
        NotMovable: the file cannot be edited.
    """
    rendered = render_guard_job(step, actions, job, plan, environment())
    return add_jobs(text, job, {NEW_JOBS[step]: rendered})


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


def _require_plan(folder: Path, plan: str, job: GuardedJob) -> None:
    """Raise InputError unless the plan's shards are the artifacts that the job uploads."""
    matrix = f"{job.where}:{job.name}"
    fix = f"write it: ciguard audit --matrix {matrix} --tests FILE -o {plan}"
    if not (folder / plan).is_file():
        raise InputError("there is no plan", where=plan, fix=fix)
    keys = {shard.key for shard in plan_file.decode(local.read(folder / plan), plan).shards}
    if odd := sorted(keys ^ {*map(safe_name, job.artifacts)}):
        what = f"its shards are not the artifacts of {matrix}: {', '.join(odd[:3])}"
        raise InputError(what, where=plan, fix=fix)
