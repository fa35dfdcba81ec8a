"""The suite of a step that runs `go test`, with its flags and packages: ciguard starts it. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.errors import UsageError
from ciguard.init.workflow_files import StarterSuite
from ciguard.run.frameworks.go import GO, REFUSED
from ciguard.run.frameworks.plugin_protocol import refuse_flags
from ciguard.workflow.movable_job import MovableJob, NotMovable, shorten
from ciguard.workflow.test_commands import is_assignment, split_commands
from ciguard.workflow.yaml_values import get

if TYPE_CHECKING:
    from collections.abc import Sequence

_VARIABLE: Final = re.compile(r"\$[({]?(\w+)[)}]?")
_FLAG: Final = re.compile(r"(?:^|')-\w")  # in a value, or in a text of its expression
_OUTPUT: Final = re.compile(r"--?json$|\d*[<>]")  # ciguard reads the tests' output itself


def go_suite(job: MovableJob, name: str) -> tuple[StarterSuite, MovableJob, list[str]]:
    """Return the suite of `go test`, `richgo test` or `gotestsum`, the job for it, and messages.

    Raises:
        NotMovable: the step has other commands, or a flag that ciguard sets itself.
    """
    if not job.commands:
        raise NotMovable("the step runs no go test", where=job.where, fix="name another --step")
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
    messages = [f"ciguard starts go test itself, in place of: {shorten(command.words)}"]
    for tool in ("richgo", "gotestsum"):
        is_installed = f"/{tool}@" in str(job.value)
        if is_installed or tool in command.arguments:
            own = ("PATH=", f"{tool.upper()}_")
            gone = [word.partition("=")[0] for word in variables if word.startswith(own)]
            variables = [word for word in variables if not word.startswith(own)]
            messages += [f"gone with {tool}: {', '.join(gone)}"] if gone else []
        if is_installed:
            line = job.source.line_number("jobs", job.name, "steps", text=f"/{tool}@")
            messages.append(f"line {line} installs {tool}, which the tests no longer need")
    computed = [word for word in (*variables, *flags) if "$" in word]
    args = [word for word in flags if word not in computed]
    env = dict(word.split("=", 1) for word in variables if word not in computed)
    of_job = {**(get(job.workflow, "env") or {}), **(get(job.value, "env") or {})}
    is_free = "GOFLAGS" not in of_job and not any("env" in step for step in job.steps.values())
    names = [match[1] for match in map(_VARIABLE.fullmatch, computed if is_free else ()) if match]
    names = [name for name in names if _FLAG.search(str(of_job.get(name)))]
    if names:
        messages.append(f"GOFLAGS of the step has {', '.join(names)}: write flags as -name=value")
    left_out = [word for word in computed if word.strip("${()}") not in names]
    if left_out:
        what = f"left out, as the workflow computes them: {', '.join(left_out)}"
        messages.append(f"{what}; flags can be in GOFLAGS in `env` of the job")
    goflags = " ".join(f"${{{{ env.{name} }}}}" for name in names)
    changed = replace(job, runs_suite=True, goflags=goflags)
    return StarterSuite(name, GO.name, args=tuple(args), env=env), changed, messages


def _flags(words: Sequence[str]) -> list[str]:
    """Return the flags and packages of go test; all packages where gotestsum has none."""
    pairs = zip(("", *words), words, strict=False)
    words = [at for before, at in pairs if not (_OUTPUT.match(at) or before.endswith((">", "<")))]
    if "test" in words:
        return [*words[words.index("test") + 1 :]]
    return [*words[words.index("--") + 1 :]] if "--" in words else ["./..."]
