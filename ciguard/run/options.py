"""Command line of a leg, and the script of a job's test step (`run:` and `shell:` of a workflow).

A leg runs the script exactly as GitHub would run the step.
Source: docs.github.com, "Workflow syntax", `jobs.<job_id>.steps[*].shell`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shlex
from dataclasses import dataclass, replace
from typing import Any, Final, Mapping, Sequence

from ciguard.errors import InputError, UsageError
from ciguard.model import SLOTS, Plan, Suite
from ciguard.model.plan import deadline_within
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.globs import check_pattern
from ciguard.run.selection import Selection
from ciguard.text import parse_seconds

# GitHub's command for each shell; "" is a step without `shell:`. Others are the user's commands.
SHELLS: Final[Mapping[str, str]] = {
    "": "bash -e {0}",
    "bash": "bash --noprofile --norc -eo pipefail {0}",
    "sh": "sh -e {0}",
    "python": "python {0}",
}
FILE: Final = "{0}"
MAX_RECORDED: Final = 2000  # characters of the script in the record
HASH_DIGITS: Final = 16

USAGE = """%(prog)s --plan FILE|DIR --shard KEY --record DIR [OPTIONS]
       %(prog)s --record DIR [--results GLOB] -- COMMAND"""


@dataclass(frozen=True, **SLOTS)
class Script:
    """A script that runs the tests: the command that starts it, and its text."""

    command: tuple[str, ...]
    text: str

    @property
    def recorded(self) -> str:
        """The text for the record; a long text is cut and ends with its hash."""
        if len(self.text) <= MAX_RECORDED:
            return self.text
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.text[:MAX_RECORDED]}... sha256 {digest[:HASH_DIGITS]}"


def read_script(path: str, shell: str) -> Script:
    """Read the script from a file.

    Args:
        shell: as in a workflow: a key of `SHELLS`, or a command with `{0}` for the file.

    Raises:
        InputError: the file cannot be read, or is empty.
        UsageError: the shell is neither.
    """
    template = SHELLS.get(shell.strip(), shell)
    if FILE not in template:
        fix = f"set shell to one of {', '.join(filter(None, SHELLS))}, or to a command with {FILE}"
        raise UsageError(f"cannot run a script with {shell!r}", where="--shell", fix=fix)
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read()
    except OSError as error:
        fix = "write the commands of the test step into it"
        what = f"cannot be read: {error.strerror or error}"
        raise InputError(what, where=path, fix=fix) from error
    if not text.strip():
        raise InputError("is empty", where=path, fix="write the commands of the test step into it")
    file = os.path.abspath(path)
    command = tuple(word.replace(FILE, file) for word in shlex.split(template))
    return Script(command, text)


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ciguard run",
        usage=USAGE,
        description="Run one shard of a plan, or any command, under supervision.",
        epilog="Exit code: 0 all tests passed, 10 tests failed, 13 a test did not run.",
        allow_abbrev=False,
    )
    parser.add_argument("--plan", metavar="FILE|DIR", help="plan of the run")
    parser.add_argument("--shard", metavar="KEY", help="shard to run")
    parser.add_argument("--record", metavar="DIR", required=True, help="new folder for the record")
    part = parser.add_mutually_exclusive_group()
    help_text = "last test to run: its id, or a part of it"
    part.add_argument("--until", metavar="TEST", help=help_text)
    help_text = "time after which no test starts, such as 15m"
    parser.add_argument("--for", metavar="TIME", help=help_text)
    help_text = "time limit of the step (default: that of the plan)"
    parser.add_argument("--limit", metavar="TIME", help=help_text)
    help_text = "script that runs the tests (default: command of the suite)"
    parser.add_argument("--script", metavar="FILE", help=help_text)
    help_text = "shell of the script (default: bash -e)"
    parser.add_argument("--shell", metavar="SHELL", help=help_text)
    help_text = "working folder (default: that of the suite)"
    parser.add_argument("--working-directory", metavar="DIR", help=help_text)
    help_text = "further arguments of the suite, such as a seed"
    parser.add_argument("--args", metavar="WORDS", help=help_text)
    several: Any = {"action": "append", "default": []}
    help_text = "records of earlier attempts; run the tests that they left"
    part.add_argument("--resume-from", metavar="DIR", help=help_text, **several)
    help_text = "records of earlier steps; run the tests that they left"
    part.add_argument("--continue", metavar="DIR", help=help_text, **several)
    help_text = "result files of the command, such as reports/**/*.xml"
    parser.add_argument("--results", metavar="GLOB", help=help_text, **several)
    help_text = "with --resume-from: run the whole shard if the last attempt ended by itself"
    parser.add_argument("--unless-ended", action="store_true", help=help_text)
    help_text = "write outputs of the step; end with 0 at a checkpoint"
    parser.add_argument("--github", action="store_true", help=help_text)
    return parser


def split_at_separator(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments into those of the leg and the command after `--`."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    index = words.index("--")
    return words[:index], words[index + 1 :]


def script_of(options: argparse.Namespace) -> Script | None:
    """Return the script that runs the tests; None for the commands of the suites.

    Raises:
        CiguardError: a shell without a script; or see `read_script`.
    """
    if options.script is not None:
        return read_script(options.script, options.shell or "")
    if options.shell is not None:
        raise UsageError("--shell without --script", fix="pass --script FILE as well")
    return None


def adapted_plan(plan: Plan, options: argparse.Namespace, script: Script | None) -> Plan:
    """Return the plan with the changes of this step: script, arguments, folder, results and limit.

    The plan job cannot know these: expressions such as `${{ matrix.x }}` have a value only here.

    Raises:
        UsageError: arguments for a script, an invalid time or pattern, or result files of a
            framework that reports its results itself.
    """
    if options.args and script is not None:
        fix = "add the words to the command in the script"
        raise UsageError("--args with --script: a script takes no arguments", fix=fix)
    added_args, results = tuple(shlex.split(options.args or "")), tuple(options.results)
    if options.limit is not None:
        deadline_s = deadline_within(seconds(options.limit, where="--limit"))
        plan = replace(plan, policy=replace(plan.policy, deadline_s=deadline_s))
    for pattern in results:
        check_pattern(pattern, where="--results")

    def adapted(suite: Suite) -> Suite:
        if results and suite.framework != COMMAND.name:
            what = f"framework {suite.framework} tells its results by itself"
            raise UsageError(what, where="--results", fix="leave the option out")
        if script is not None:
            suite = replace(suite, command=script.command, is_script=True)
        cwd = options.working_directory or suite.cwd
        args = suite.args + added_args
        return replace(suite, args=args, cwd=cwd, results=results or suite.results)

    return replace(plan, suites={name: adapted(suite) for name, suite in plan.suites.items()})


def selection_of(options: argparse.Namespace) -> Selection:
    """Return the selection of the shard's units.

    Raises:
        UsageError: an empty value, or an invalid time.
    """
    values = vars(options)
    until, resumed, continued = (values[name] for name in ("until", "resume_from", "continue"))
    named = (("--until", [until]), ("--resume-from", resumed), ("--continue", continued))
    for option, option_values in named:
        if "" in option_values:
            fix = "is a variable of the shell not set? Leave the option out to run the whole shard"
            raise UsageError(f"{option} is empty", fix=fix)
    if values["unless_ended"] and not resumed:
        fix = "pass --resume-from DIR as well, or remove --unless-ended"
        raise UsageError("--unless-ended is valid only with --resume-from", fix=fix)
    return Selection(
        until=until or "",
        earlier=(*resumed, *continued),
        continues_attempt=bool(continued),
        unless_ended=values["unless_ended"],
        step_limit_s=None if values["for"] is None else seconds(values["for"], where="--for"),
    )


def seconds(text: str, *, where: str) -> float:
    """Return 900 for "15m". Raises UsageError for an invalid or zero time."""
    with contextlib.suppress(ValueError):
        length_s = parse_seconds(text)
        if length_s > 0:
            return length_s
    raise UsageError(f"no time: {text!r}", where=where, fix="pass one like 90s, 15m or 1h30m")
