"""The command of ciguard that follows an audit of workflows. Pure."""

from __future__ import annotations

import contextlib
import shlex
import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from ciguard.document import Listing, Paragraph, Section
from ciguard.errors import InputError
from ciguard.run.frameworks.registry import DEFAULT
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.guard_job import next_step, read_guarded_job
from ciguard.workflow.movable_job import read_job, reject_step
from ciguard.workflow.test_commands import LIST_COMMANDS, find_test_steps
from ciguard.workflow.yaml_values import jobs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.audit.rules.base import WorkflowFile

Kind = Literal["check", "divide", "guard", "history", "plan"]
LIST_PLACEHOLDER: Final = "COMMAND"
_PURPOSES: Final[Mapping[Kind, str]] = {
    "check": "what the jobs of ciguard lack",
    "divide": "a comment, by a job of eight lines (README of ciguard), or balanced jobs",
    "guard": "judge the results of these jobs in each run, by the tests that a command lists",
    "history": "record the times of the tests",
    "plan": "let ciguard plan the shards",
}


class NextCommand(NamedTuple):
    """A command; `problem` is the reason why it will refuse, with its `fix`, or ""."""

    kind: Kind
    command: str
    problem: str = ""
    fix: str = ""


def after_workflows(files: Sequence[WorkflowFile]) -> NextCommand:
    """Return the command that follows an audit of all workflows.

    It names a job if there is one test job, or one with a matrix, and the command can change it.
    """
    if any(next_step(file.content) != "guard" for file in files):
        return NextCommand("check", "ciguard doctor")
    jobs = {
        (file.path, step.job): file
        for file in files
        for step in find_test_steps(file.content, file.makefile)
    }
    with_matrix = [key for key in jobs if has_matrix(jobs_of(jobs[key].content)[key[1]])]
    candidates = with_matrix or list(jobs)
    if len(candidates) == 1:
        path, job = candidates[0]
        file = jobs[candidates[0]]
        with contextlib.suppress(InputError):
            movable = read_job(file.text, path, job)
            reject_step(movable)
            # Another framework may need a configuration first.
            if all(command.framework == DEFAULT for command in movable.commands):
                return NextCommand("divide", f"ciguard init --into {shlex.quote(path)} --job {job}")
        guard = after_matrix(file.content, path, job)
        if guard is not None and not guard.problem and LIST_PLACEHOLDER not in guard.command:
            return guard
    return NextCommand("divide", "ciguard init")


def after_matrix(
    workflow: Any, path: str, job: str, *, needs_labels: bool = False
) -> NextCommand | None:
    """Return the command that follows an audit of a matrix; None if the job was moved.

    Args:
        needs_labels: a filter selects by categories, which the test tools do not list.
    """
    step = next_step(workflow, job)
    if step == "none":
        return None
    if step == "plan":
        return NextCommand("plan", f"ciguard init --into {shlex.quote(path)}")
    command = f"ciguard init --guard {shlex.quote(f'{path}:{job}')}"
    listing, problem, fix = LIST_PLACEHOLDER, "", ""
    try:
        guarded = read_guarded_job(workflow, job, path)
        if not needs_labels:
            listing = LIST_COMMANDS.get(guarded.tests.framework, listing)
    except InputError as error:
        problem, fix = f"{error.where}: {error.what}", error.fix
    if step == "guard":
        command += f" --list {shlex.quote(listing)}"
    return NextCommand(step, command, problem, fix)


def as_section(following: NextCommand) -> Section:
    """Return the command with its purpose, and before it what makes it refuse."""
    fix, _, lines = following.fix.partition("\n")
    problem = f"Before: {following.problem}. Fix: {fix}" if following.problem else ""
    blocks = (
        Paragraph(problem),
        Listing(textwrap.dedent(lines), "yaml"),
        Paragraph(f"Next: {_PURPOSES[following.kind]}:"),
        Listing(following.command),
    )
    return Section("next", blocks)
