"""The suite of a step that runs `go test`, with its flags and packages: ciguard starts it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.errors import UsageError
from ciguard.init.workflow_files import StarterSuite
from ciguard.run.frameworks.go import GO, REFUSED
from ciguard.run.frameworks.plugin_protocol import refuse_flags
from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.test_commands import is_assignment, split_commands

if TYPE_CHECKING:
    from collections.abc import Sequence


def go_suite(job: MovableJob, name: str) -> tuple[StarterSuite, list[str]]:
    """Return the suite of the job's `go test`, `richgo test` or `gotestsum`, and messages.

    Raises:
        NotMovable: the step has other commands, or a flag that ciguard sets itself.
    """
    command, scripts = job.commands[0], dict.fromkeys(step["run"] for step in job.steps.values())
    words, *others = [words for script in scripts for words in split_commands(script)]
    if others:
        what = f"ciguard starts go test itself, without the step's {' '.join(others[0]):.60}"
        raise NotMovable(what, where=job.where, fix="move other commands into a step before it")
    flags, variables = _flags(command.arguments), [word for word in words if is_assignment(word)]
    try:
        refuse_flags(flags, REFUSED, GO.name)
    except UsageError as error:
        raise NotMovable(f"{error.what} of go test", where=job.where, fix=error.fix) from error
    computed = [word for word in (*variables, *flags) if "$" in word]
    args = [word for word in flags if word not in computed]
    env = dict(word.split("=", 1) for word in variables if word not in computed)
    messages = [f"ciguard starts go test itself, in place of: {shorten(command.words)}"]
    if computed:
        what = f"left out, as the workflow computes them: {', '.join(computed)}"
        messages.append(f"{what}; flags can be in GOFLAGS in `env` of the job")
    return StarterSuite(name, GO.name, args=tuple(args), env=env), messages


def _flags(words: Sequence[str]) -> list[str]:
    """Return the flags and packages of go test; all packages where gotestsum has none."""
    if "test" in words:
        return [*words[words.index("test") + 1 :]]
    return [*words[words.index("--") + 1 :]] if "--" in words else ["./..."]
