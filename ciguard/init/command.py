"""`ciguard init`: shows the files that it would write, asks, and writes them."""

from __future__ import annotations

import difflib
import json
import sys
from typing import TYPE_CHECKING

import click
from pydantic import ValidationError

from ciguard import console
from ciguard.config.file import FILE, Config, configured_by, describe_mistake
from ciguard.config.sections import WorkflowConfig
from ciguard.errors import ExitCode, InputError, UsageError, combine
from ciguard.init.checksum import is_generated
from ciguard.init.generated_files import WORKFLOW_FILE, GeneratedFile, generate
from ciguard.init.guard_results import guarded_files
from ciguard.init.move_in import choose_workflow, moved_files, snippet
from ciguard.sources import local
from ciguard.workflow.movable_job import NotMovable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ciguard.config.invocation import Invocation


@click.command()
@click.option("--into", metavar="FILE", help="Workflow whose test job gets ciguard's actions.")
@click.option("--job", metavar="ID", default="", help="Test job (default: the only one).")
@click.option("--step", metavar="N", default="", help="Test step: number, id or name.")
@click.option(
    "--guard",
    metavar="FILE[:JOB]",
    help="Workflow whose matrix stays: add the job that judges its results, then the history.",
)
@click.option(
    "--list",
    "listing",
    metavar="COMMAND",
    default="",
    help="Command that prints the tests, for --guard: one shard runs it in each run.",
)
@click.option(
    "--filter-key",
    metavar="KEY",
    default="",
    help="Matrix key of a shard's filter, for --guard (see `ciguard audit`).",
)
@click.option("--new", is_flag=True, help="Write a workflow of its own, also beside a test job.")
@click.option(
    "--yes", is_flag=True, help="Write without asking, except over a file that was edited."
)
@click.option("--force", is_flag=True, help="Write without asking, also over edited files.")
@click.option(
    "--static",
    is_flag=True,
    help="Write a workflow without a plan job (see `ciguard plan --static`).",
)
@click.option(
    "--checkpoint",
    metavar="TIME",
    help="Let each job upload its record at this interval, such as 15m.",
)
@click.option(
    "--forks", is_flag=True, help="Also write a workflow that comments on pull requests from forks."
)
@click.option(
    "--confirm-suspects", is_flag=True, help="Add jobs that run suspects again on both commits."
)
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    into: str | None,
    job: str,
    step: str,
    guard: str | None,
    listing: str,
    filter_key: str,
    new: bool,
    yes: bool,
    force: bool,
    static: bool,
    checkpoint: str | None,
    forks: bool,
    confirm_suspects: bool,
) -> int:
    """Write ciguard.toml and the workflow, or move into the workflow that has the only test step.

    The command shows each change and asks first. An existing ciguard.toml gets the suites and the
    set-up that it lacks, but no options: set the keys of [workflow] instead, and pass --static each
    time. For a workflow that was edited, it shows the difference, writes nothing and ends with 3.
    """
    folder, config = invocation.folder, invocation.config()
    options = {"checkpoint": checkpoint, "forks": forks, "confirm_suspects": confirm_suspects}
    changed = with_workflow(config, {name: value for name, value in options.items() if value})
    for name, value in changed.workflow:
        if configured_by(folder) and value != getattr(config.workflow, name):
            setting = f"workflow.{name} = {json.dumps(options[name])}"
            console.err(f"set {setting} in {FILE} as well: the next ciguard init asks only there")
    config = changed
    if (job or step) and into is None:
        raise UsageError("no workflow is named", where="--job, --step", fix="pass --into FILE")
    own_workflow = new or static or any(options.values())
    changed_files = None
    if guard is not None:
        changed_files = guarded_files(folder, config, guard, listing, filter_key)
    elif into is not None or not own_workflow:
        try:
            changed_files = _moved_files(folder, config, into, job, step)
        except NotMovable as error:
            # The reason goes first: the lines to write by hand are longer than a screen.
            console.err(f"ciguard init: {error}")
            console.out(snippet(folder, config, into or "", job))
            return error.exit_code
    if changed_files is None:
        generated = generate(folder, config, console.err, static=static)
        changed_files = [item for item in generated if item.verb != "keep"]
        if not changed_files:
            console.out(f"{FILE} and {WORKFLOW_FILE} are up to date")
        if not force:
            refuse_edited(changed_files)
    written = [item for item in changed_files if yes or force or confirm_change(item)]
    for item in written:
        local.write(folder / item.path, item.content.encode())
        console.out(f"{item.path}: {'created' if item.current is None else 'changed'}")
    if len(written) < len(changed_files):
        console.err("nothing else was written; ciguard init --yes writes it")
    return ExitCode.OK


def _moved_files(
    folder: Path, config: Config, into: str | None, job: str, step: str
) -> list[GeneratedFile] | None:
    """Return the files of workflow `into`, else of the only test step; None without such a step.

    Raises:
        CiguardError: the workflow `into` cannot be changed.
    """
    path = into
    if path is None:
        if (folder / WORKFLOW_FILE).exists():
            return None
        path, job, step, why = choose_workflow(folder, config)
        console.err(why)
    if not path:
        return None
    try:
        return moved_files(folder, config, path, job, step)
    except NotMovable as error:
        if into is None:
            console.err(f"the tests of {error.where} stay as they are: {error.what}")
            return None
        raise


def with_workflow(config: Config, options: Mapping[str, object]) -> Config:
    """Return the configuration with options in the section [workflow].

    Raises:
        UsageError: the time of a checkpoint is malformed.
    """
    try:
        workflow = WorkflowConfig.model_validate(
            {**config.workflow.model_dump(exclude_unset=True), **options}
        )
    except ValidationError as error:
        what = describe_mistake(error.errors()[0])
        raise UsageError(what, where="--checkpoint", fix="pass one like 15m") from None
    return config.model_copy(update={"workflow": workflow})


def refuse_edited(changed_files: Sequence[GeneratedFile]) -> None:
    """Raise InputError for files that were edited, after showing the differences."""
    edited = [item for item in changed_files if item.is_edited]
    mistakes = []
    for item in edited:
        show_change(item)
        was = is_generated(item.current or "")
        what = "edited after ciguard init wrote it" if was else "not written by ciguard init"
        fix = f"--force overwrites it; or move your changes into {FILE}"
        mistakes.append(InputError(what, where=item.path, fix=fix))
    if mistakes:
        raise combine(mistakes)


def confirm_change(item: GeneratedFile) -> bool:
    """Show the change, and ask for confirmation in a terminal."""
    show_change(item)
    return sys.stdin.isatty() and click.confirm(f"{item.verb} {item.path}?", err=True)


def show_change(item: GeneratedFile) -> None:
    console.out(f"would {item.verb} {item.path}:\n")
    if item.current is None:
        console.out(item.content)
        return
    before, after = (
        text.replace("\r\n", "\n").split("\n") for text in (item.current, item.content)
    )
    console.out("\n".join(difflib.unified_diff(before, after, n=2, lineterm="")))
