"""The command `ciguard init`: show the files that it would write, ask, and write them."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from ciguard import console
from ciguard.config.file import FILE, Config
from ciguard.config.invocation import Invocation
from ciguard.errors import ExitCode, InputError, UsageError, combine
from ciguard.init.candidates import (
    MAX_CHOICES,
    SEPARATE,
    Candidate,
    choose_candidate,
    find_candidates,
    find_same_checks,
    with_used_actions,
)
from ciguard.init.generated_files import WORKFLOW_FILE, GeneratedFile, generate, separate_keys
from ciguard.init.move_in import moved_files, snippet
from ciguard.init.workflow_files import is_generated
from ciguard.sources import local
from ciguard.workflow.actions_address import actions_address
from ciguard.workflow.movable_job import BY_HAND, NotMovable

Target = tuple[str, str, str]  # path of the workflow, job, step

_LINE: Final = re.compile(r"\blines? \d|:\d")  # in a message
NO_JOBS: Final = (
    "a moved workflow gets no jobs for these keys: add them by hand, or use `ciguard init --new`"
)
STILL_RUNS: Final = (
    "job {} of {} still runs its tests, until you delete it. The new workflow has none of its "
    "steps, versions, variables, services, combinations: add what the tests need to workflow.setup"
)


@click.command()
@click.option("--into", metavar="FILE", help="Workflow with the test job to move.")
@click.option("--job", metavar="ID", default="", help="Test job (default: the only one).")
@click.option("--step", metavar="N", default="", help="Test step: number, id or name.")
@click.option("--new", is_flag=True, help="Write a separate workflow.")
@click.option("--yes", is_flag=True, help="Write without asking, except over edited files.")
@click.option("--force", is_flag=True, help="Write without asking, also over edited files.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    *,
    into: str | None,
    job: str,
    step: str,
    new: bool,
    yes: bool,
    force: bool,
) -> int:
    """Move a test job of a workflow to ciguard's actions, or write a separate workflow.

    The command shows each change and asks before it writes. If several steps run tests, it asks
    which one to move.
    """
    folder = invocation.folder
    config = with_used_actions(folder, invocation.config(), _notify)
    if (job or step) and into is None:
        raise UsageError("no workflow is named", where="--job, --step", fix="pass --into FILE")
    target = (into, job, step) if into else None
    try:
        if into is not None or not new:
            target = _choose_target(folder, config, into, job, step)
        move = moved_files(folder, config, *target) if target else None
    except NotMovable as error:
        console.err(f"ciguard init: {error}")
        if into is None:
            console.err(f"a separate workflow beside it: {SEPARATE}")
        elif target and BY_HAND in str(error):
            console.out(snippet(folder, config, *target))  # longer than a screen
        return error.exit_code
    if move and target and not (move.step or move.files):
        console.out(f"{target[0]} uses ciguard's actions already")
        for other in find_candidates(folder)[1][:MAX_CHOICES] if into is None else ():
            console.out(f"another test step: {other.command}")
    changed_files = move.files if move else _generated(folder, config, force=force)
    is_sure = yes or force
    if not is_sure:
        for item in changed_files:
            show_change(item)
    if move and move.step:  # after the difference, which is longer than a screen
        console.err(move.step if into else f"{move.step}; {SEPARATE}: a separate workflow")
    if move and is_sure and any(map(_LINE.search, move.messages)):
        console.err("line numbers are those before the change:")
    for message in move.messages if move else ():
        console.err(f"- {message}")
    if move and (keys := separate_keys(config)):
        console.err(f"- {', '.join(keys)}: {NO_JOBS}")
    may_ask = sys.stdin.isatty()
    written = [
        item
        for item in changed_files
        if is_sure or (may_ask and click.confirm(f"{item.verb} {item.path}?", err=True))
    ]
    for item in written:
        local.write(folder / item.path, item.content.encode())
        console.out(f"{item.path}: {'created' if item.current is None else 'changed'}")
    if len(written) < len(changed_files):
        what = "written: all files that you accepted" if written else "nothing was written"
        console.err(f"{what}; run the same command with --yes to write all")
    return ExitCode.OK


def _notify(text: str) -> None:
    """Print a message in lines that fit a terminal."""
    fold = partial(textwrap.fill, width=80, subsequent_indent="  ", break_long_words=False)
    console.err("\n".join(fold(line, break_on_hyphens=False) for line in text.splitlines()))


def _generated(folder: Path, config: Config, *, force: bool) -> Sequence[GeneratedFile]:
    """Return the changed files of a separate workflow.

    Raises:
        InputError: a file was edited, and `force` is not set.
    """
    for other in find_same_checks(folder):
        _notify(f"{other}: delete or rename it: {WORKFLOW_FILE} has the same check")
    if not (folder / WORKFLOW_FILE).exists():
        for item in find_candidates(folder)[1][:1]:
            _notify(STILL_RUNS.format(item.job, item.path))
        _notify("a failing base branch opens an issue, unless the job `report` has `issue: false`")
    generated = generate(folder, config, _notify)
    changed_files = [item for item in generated if item.verb != "keep"]
    if not changed_files:
        console.out(f"{FILE} and {WORKFLOW_FILE} are up to date")
    if not force:
        refuse_edited(changed_files)
    return changed_files


def _choose_target(
    folder: Path, config: Config, into: str | None, job: str, step: str
) -> Target | None:
    """Return the test step to move, in workflow `into` or in any; None for a separate workflow.

    Raises:
        CiguardError: several steps run tests and there is no terminal, or no address is configured.
    """
    if into is None and (folder / WORKFLOW_FILE).exists():
        return None
    path, found = find_candidates(folder)
    into = into or path or None
    candidates = [item for item in found if into in (None, item.path) and job in ("", item.job)]
    if step or not candidates:
        if not into:
            console.err("no workflow here runs tests")
        return (into, job, step) if into else None
    actions_address(config.actions)  # check the address before asking the user
    chosen: Candidate | None = candidates[0]
    if len(candidates) > 1:
        chosen = choose_candidate(
            candidates, lambda item: moved_files(folder, config, *item.target)
        )
    return chosen.target if chosen else None


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


def show_change(item: GeneratedFile) -> None:
    console.out(f"would {item.verb} {item.path}:\n")
    if item.current is None:
        console.out(item.content)
        return
    before, after = (text.splitlines() for text in (item.current, item.content))
    names = (f"a/{item.path}", f"b/{item.path}")
    console.out("\n".join(difflib.unified_diff(before, after, *names, n=2, lineterm="")))
