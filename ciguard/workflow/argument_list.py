"""The split of a PowerShell step that builds a list of arguments for one test command. Pure.

The list is read as far as its elements are literals. The command becomes a bash step, the other
lines a PowerShell step before it.
"""

from __future__ import annotations

import copy
import re
import shlex
from typing import Final

from ciguard.workflow.matrix import EXPRESSION
from ciguard.workflow.movable_job import SHELL_FIX, MovableJob, NotMovable, load_ended, read_job
from ciguard.workflow.positions import Edit, entries, find_entry
from ciguard.workflow.test_commands import LIST, list_items

_CALL: Final = re.compile(r"^&?[ \t]*([\w./-]+(?:[ \t]+[\w./-]+)*)[ \t]+@(\w+)[ \t]*$", re.M)
_LITERALS: Final = re.compile(r"'[^']*'|\"[^\"$`]*\"|#.*|[\s,]")
# What the next step would not see, or what has to follow the command.
_STATE: Final = re.compile(
    r"^\s*(?:\$env:(?!GITHUB_)\w+\s*=|(?:cd|pushd|Set-Location|Push-Location)\b)", re.M
)
_EXIT: Final = re.compile(r"(?:\s|#.*|exit \$LASTEXITCODE\b)*")


def split_argument_list(job: MovableJob, path: str) -> MovableJob:
    """Return the job with a bash step for its test command; the same job for another shell.

    Raises:
        NotMovable: an argument is computed or conditional, or lines follow the command; with the
            line of the workflow.
    """
    step = job.value["steps"][job.step - 1]
    run = job.source.find("jobs", job.name, "steps", job.step, "run")
    calls = list(_CALL.finditer(step["run"]))
    is_powershell = str(step.get("shell")) in ("pwsh", "powershell") and not job.alternative
    if not is_powershell or len(calls) != 1 or run is None:
        return job
    script, call = step["run"], calls[0]
    items: list[str] = []
    problems: list[tuple[int, str]] = []
    for match in LIST.finditer(script):
        if match[1] == call[2]:
            items += list_items(match[3])
            if match[0][:1].isspace():
                problems.append((match.start(), "a condition adds arguments"))
            elif _LITERALS.sub("", EXPRESSION.sub("", match[3])):
                problems.append((match.start(), "an argument is computed"))
    before = LIST.sub(
        lambda match: "" if match[1] == call[2] else match[0], script[: call.start()]
    ).strip("\n")
    if not _EXIT.fullmatch(script[call.end() :]):
        problems.append((call.end(), "lines follow the test command"))
    if state := _STATE.search(before):
        at = script.index(state[0].lstrip())
        problems.append((at, "a variable or folder is set for the test command"))
    if problems:
        first = job.source.text.count("\n", 0, job.source.colon_end(run)) + 2
        lines = ", ".join(
            f"line {first + script.count(chr(10), 0, at)}: {what}" for at, what in sorted(problems)
        )
        what = f"ciguard runs no {step['shell']} script, and cannot split it: {lines}"
        raise NotMovable(what, where=f"{job.where}.steps[{job.step}]", fix=SHELL_FIX)
    return _split(job, path, before, shlex.join((*call[1].split(), *items)))


def _split(job: MovableJob, path: str, before: str, command: str) -> MovableJob:
    source, expected = job.source, copy.deepcopy(job.workflow)
    steps = source.find("jobs", job.name, "steps")
    assert steps is not None
    node = steps.value.value[job.step - 1]
    run, shell = find_entry(node, "run"), find_entry(node, "shell")
    assert run is not None
    assert shell is not None
    dash = source.text.rindex("-", 0, node.start_mark.index)
    indent = source.text[source.line_start(dash) : dash]
    kept = [item for item in entries(node) if item.name in ("env", "working-directory")]
    values = expected["jobs"][job.name]["steps"]
    added = {item.name: values[job.step - 1][item.name] for item in kept}
    added |= {"shell": str(shell.value.value), "run": f"{before}\n"}
    lines = [
        f"- shell: {added['shell']}",
        *(f"  {source.text[item.start : source.content_end(item)]}" for item in kept),
        "  run: |",
        *(f"    {line}".rstrip() for line in before.split("\n")),
    ]
    text = "".join(f"{indent}{line}".rstrip() + source.line_break for line in lines)
    start = source.comments_before(dash, dash - source.line_start(dash))
    column = " " * (run.column + 2)
    edits = [
        Edit(start, start, text if before.strip() else ""),
        Edit(shell.value.start_mark.index, shell.value.end_mark.index, "bash"),
        Edit(run.start, source.content_end(run), f"run: |{source.line_break}{column}{command}"),
    ]
    values[job.step - 1] |= {"shell": "bash", "run": f"{command}\n"}
    if before.strip():
        values.insert(job.step - 1, added)
    changed = source.edited(edits)
    if load_ended(changed, path) != expected:
        what = "the PowerShell step cannot be split by edits of lines"
        raise NotMovable(what, where=job.where, fix=SHELL_FIX)
    return read_job(changed, path, job.name, str(job.step + bool(before.strip())))
