"""The script of a job's test step, run as the step would run it: `run:` and `shell:` of a workflow.

Source: docs.github.com, "Workflow syntax", `jobs.<job_id>.steps[*].shell`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from dataclasses import dataclass, replace
from typing import Final, Mapping

from ciguard.errors import InputError, UsageError
from ciguard.model import SLOTS, Plan, Suite
from ciguard.run.frameworks.command import COMMAND
from ciguard.run.frameworks.globs import check_pattern

# How GitHub starts each; "" is a step without `shell:`. Of others the template is the user's own.
SHELLS: Final[Mapping[str, str]] = {
    "": "bash -e {0}",
    "bash": "bash --noprofile --norc -eo pipefail {0}",
    "sh": "sh -e {0}",
    "python": "python {0}",
}
FILE: Final = "{0}"
MAX_RECORDED: Final = 2000  # characters of the script in the record
HASH_DIGITS: Final = 16


@dataclass(frozen=True, **SLOTS)
class Script:
    """What runs the tests: `command` starts it, `text` is what it does."""

    command: tuple[str, ...]
    text: str

    @property
    def recorded(self) -> str:
        """The text as a record holds it: equal where the scripts are, and short."""
        if len(self.text) <= MAX_RECORDED:
            return self.text
        digest = hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self.text[:MAX_RECORDED]}... sha256 {digest[:HASH_DIGITS]}"


def read_script(path: str, shell: str) -> Script:
    """The script in a file.

    Args:
        shell: as a workflow names it: a word of `SHELLS`, or a command with `{0}` for the file.

    Raises:
        InputError: the file cannot be read, or is empty.
        UsageError: the shell cannot be started so.
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
    place = os.path.abspath(path)
    command = tuple(word.replace(FILE, place) for word in shlex.split(template))
    return Script(command, text)


def with_script(
    plan: Plan, script: Script | None, folder: str, results: tuple[str, ...] = ()
) -> Plan:
    """The plan with its suites run by the script, in this folder; "" or nothing for their own.

    The plan job cannot know them: `${{ matrix.x }}` in them has a value in the job alone.

    Args:
        results: patterns of the result files that the script writes.

    Raises:
        UsageError: a pattern is none, or a suite's framework reports by itself.
    """
    for pattern in results:
        check_pattern(pattern, where="--results")

    def changed(suite: Suite) -> Suite:
        if results and suite.framework != COMMAND.name:
            what = f"framework {suite.framework} tells its results by itself"
            raise UsageError(what, where="--results", fix="leave the option out")
        if script is not None:
            suite = replace(suite, command=script.command, is_script=True)
        return replace(suite, cwd=folder or suite.cwd, results=results or suite.results)

    return replace(plan, suites={name: changed(suite) for name, suite in plan.suites.items()})
