"""`ciguard init --guard FILE[:JOB]`: adds jobs that judge and record the results of a matrix.

The first call adds the job that judges, and lets the test job list its tests; the second call adds
the job that records the history. The matrix itself does not change.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from ciguard import console
from ciguard.audit import shard_filters
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import terms
from ciguard.audit.test_set import TestSet
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError, UsageError
from ciguard.init.generated_files import GeneratedFile
from ciguard.init.move_in import read_workflow
from ciguard.init.repository import repository_files
from ciguard.workflow.actions_address import actions_address
from ciguard.workflow.guard_job import next_step, read_guarded_job, split_target, test_job
from ciguard.workflow.job_templates import with_next_job
from ciguard.workflow.movable_job import NotMovable
from ciguard.workflow.test_commands import LIST_COMMANDS, split_commands
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from pathlib import Path

    from ciguard.audit.shard_filters import HandMatrix
    from ciguard.config.file import Config
    from ciguard.workflow.guard_job import GuardedJob


# Only the output of the last command of a list or pipe would be written to the file.
_NOT_ONE_COMMAND: Final = re.compile(r"[;&|\n]|(?<![0-9])>|(^|\s)#")
_BY_PLAN: Final = (
    "list the tests of each shard yourself: ciguard plan --inventory, then guard --results"
)


def guarded_files(
    folder: Path, config: Config, target: str, listing: str = "", filter_key: str = ""
) -> list[GeneratedFile]:
    """Return the workflow with the next job; nothing if the workflow has both jobs.

    Args:
        target: workflow file; after a colon the test job, if several jobs run tests.
        listing: command that prints the tests that exist; required for the first job.
        filter_key: matrix key of a shard's filter; "" to find the filter in the command.

    Raises:
        InputError: no such workflow, or its filters cannot be read.
        NotMovable: the job uploads no results, or the file cannot be edited.
        UsageError: the address of the actions is not known, or `listing` is not one command.
    """
    repository_files(folder)
    path, job = split_target(target)
    text = read_workflow(folder, path)
    workflow = load(text, path)
    job = job or test_job(workflow, path)
    step = next_step(workflow, job)
    if step not in ("guard", "history"):
        then = f"; the next step is ciguard init --into {path}" if step == "plan" else ""
        console.out(f"{path} guards its results already{then}")
        return []
    guarded = read_guarded_job(workflow, job, path)
    filters = _filters(text, path, job, filter_key)
    if step == "guard":
        _check_listing(listing, guarded, has_labels=filters.has_labels)
    edited = with_next_job(
        text,
        step,
        guarded,
        actions_address(config.actions),
        listing=listing,
        filter_key=filter_key,
    )
    if _as_written(_filters(edited, path, job, filter_key)) != _as_written(filters):
        what = "with a step that lists the tests, its filters would be read as others"
        raise NotMovable(what, where=f"{path}: jobs.{job}", fix="name the tests' step by its tool")
    return [GeneratedFile(path, text, edited)]


def _filters(text: str, path: str, job: str, filter_key: str) -> HandMatrix:
    """Read the filters of the job's shards, as the added job will read them.

    Raises:
        InputError: a filter cannot be evaluated, so that each run would be incomplete.
    """
    matrix = shard_filters.read_workflow(text, path, job, filter_key)
    probe = Evaluator(TestSet((InventoryUnit("any/test"),)), matrix.language)
    for shard in matrix.shards:
        where = f"{path}:{shard.line}"
        if shard.expression is None:
            what = f"the filter of shard {shard.name:.120} is not known"
            raise InputError(what, where=where, fix=shard.unknown)
        for term in terms(shard.expression):
            if not term.is_label and not probe.term(term).is_known:
                what = f"ciguard cannot evaluate {shard.written(term):.120}"
                raise InputError(what, where=where, fix=_BY_PLAN)
    return matrix


def _as_written(matrix: HandMatrix) -> list[tuple[str, str]]:
    return [(shard.name, shard.text) for shard in matrix.shards]


def _check_listing(listing: str, job: GuardedJob, *, has_labels: bool) -> None:
    """Raise UsageError unless `listing` is one command, whose output can go to a file."""
    commands = list(split_commands(listing))
    if len(commands) == 1 and not _NOT_ONE_COMMAND.search(listing):
        return
    if commands:
        what = f"more than one command: {listing:.120}"
        raise UsageError(what, where="--list", fix="put it into a script: --list ./list-tests.sh")
    example = LIST_COMMANDS.get(job.tests.framework, "")
    if not example or has_labels:
        example = "./list-tests.sh"
    more = ", with the categories that its filters ask for" if has_labels else ""
    fix = f"pass the command that prints them{more}, such as --list {shlex.quote(example)}"
    raise UsageError("nothing says which tests exist", where="--guard", fix=fix)
