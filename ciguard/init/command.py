"""`ciguard init`: look at the repository, show what would be written, write it when told so."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING

import click
from pydantic import TypeAdapter, ValidationError

from ciguard import console, files
from ciguard.config import FILE, Seconds, mistake
from ciguard.errors import ExitCode, UsageError
from ciguard.proposals import WORKFLOW_FILE, is_configured, propose

if TYPE_CHECKING:
    from ciguard.config import Config
    from ciguard.invocation import Invocation
    from ciguard.proposals import Proposal


@click.command()
@click.option("--yes", is_flag=True, help="Write without asking, over an existing workflow too.")
@click.option("--static", is_flag=True, help="Without a plan job: see `ciguard plan --static`.")
@click.option(
    "--checkpoint",
    metavar="TIME",
    help="A leg uploads its record every so often (15m), for runners that get lost.",
)
@click.option("--forks", is_flag=True, help="Also a workflow that tells of runs of forks.")
@click.option("--confirm", is_flag=True, help="Suspects are run again on both commits.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    yes: bool,
    static: bool,
    checkpoint: str | None,
    forks: bool,
    confirm: bool,
) -> int:
    """Write ciguard.toml (never over an existing one) and the workflow made from it."""
    folder, config = invocation.folder, invocation.config()
    if checkpoint is not None:
        config = with_checkpoint(config, checkpoint)
        if is_configured(folder) and config != invocation.config():
            said = f'workflow.checkpoint = "{checkpoint}"'
            console.err(f"set {said} in {FILE} as well: the next ciguard init asks only there")
    for name, asked in (("forks", forks), ("confirm", confirm)):
        if asked and not getattr(config.workflow, name):
            config = with_workflow(config, **{name: True})
            if is_configured(folder):
                said = f"workflow.{name} = true"
                console.err(f"set {said} in {FILE} as well: the next ciguard init asks only there")
    proposals = [
        item for item in propose(folder, config, console.err, static=static) if item.verb != "keep"
    ]
    if not proposals:
        console.out(f"{FILE} and {WORKFLOW_FILE} are up to date")
    written = [item for item in proposals if yes or agreed(item)]
    for item in written:
        files.write(folder / item.path, item.proposed.encode())
        console.out(f"{item.path}: {'created' if item.current is None else 'changed'}")
    if len(written) < len(proposals):
        console.err("nothing else was written; ciguard init --yes writes it")
    return ExitCode.OK


def with_checkpoint(config: Config, text: str) -> Config:
    """The configuration with the option's time in it.

    Raises:
        UsageError: it is none.
    """
    try:
        time_s = TypeAdapter(Seconds).validate_python(text)
    except ValidationError as error:
        what = mistake(error.errors()[0])
        raise UsageError(what, where="--checkpoint", fix="pass one like 15m") from None
    return with_workflow(config, checkpoint=time_s)


def with_workflow(config: Config, **changes: object) -> Config:
    """The configuration with other values of its section for workflows."""
    workflow = config.workflow.model_copy(update=changes)
    return config.model_copy(update={"workflow": workflow})


def agreed(item: Proposal) -> bool:
    """Show the change, and ask where somebody can answer."""
    console.out(f"would {item.verb} {item.path}:\n")
    before = (item.current or "").splitlines(keepends=True)
    difference = difflib.unified_diff(before, item.proposed.splitlines(keepends=True), n=2)
    console.out("".join(difference) if item.current is not None else item.proposed)
    return sys.stdin.isatty() and click.confirm(f"{item.verb} {item.path}?", err=True)
