"""The axis of tox environments or nox sessions that is added to the matrix of a job. Pure.

A test step that runs all environments runs each in a combination of its own: the matrix gets an
axis, and the command gets its value. `move_job` then moves a workflow like one written by hand.
"""

from __future__ import annotations

import copy
import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.errors import InputError
from ciguard.workflow.matrix import combinations
from ciguard.workflow.movable_job import BY_HAND, MovableJob, NotMovable, load_ended, shorten
from ciguard.workflow.positions import Edit, Entry, find_entry
from ciguard.workflow.rewrite import insert_key, level_of, name_edits, with_suffix
from ciguard.workflow.test_commands import UNKNOWN, find_test_commands, split_commands
from ciguard.workflow.yaml_values import load, run_defaults_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that runs several environments or sessions.

    Attributes:
        option: selects environments by their names.
        selecting: prefixes of all options that select environments.
        configuring: prefixes of options that name another configuration.
        several: options that may select several; expressions of the workflow are one "$".
        variables: environment variables that select environments.
        call: the words in a command that `option` can follow.
    """

    name: str
    axis: str
    option: str
    selecting: tuple[str, ...]
    configuring: tuple[str, ...]
    several: re.Pattern[str]
    variables: tuple[str, ...]
    call: re.Pattern[str]

    def options(self, words: Sequence[str]) -> Sequence[str]:
        """Return the words between the program and the arguments for the tests."""
        names = [posixpath.basename(word) for word in words]
        arguments = words[names.index(self.name) + 1 :] if self.name in names else ()
        return arguments[: arguments.index("--")] if "--" in arguments else arguments


TOOLS: Final = (
    Tool(
        name="tox",
        axis="tox_env",
        option="-e",
        selecting=("-e", "-m", "-f"),
        configuring=("-c", "--conf", "--root"),
        several=re.compile(r"(?:^| )(?:-e ?\S*,|-e .* -e )"),
        variables=("TOXENV",),
        call=re.compile(
            r"(?<![\w.$-])tox(?![\w./=@-])(?:[ \t]+(?:run-parallel|run|legacy|le|r|p)(?![^\s]))?"
        ),
    ),
    Tool(
        name="nox",
        axis="nox_session",
        option="-s",
        selecting=("-s", "-e", "-t", "-k", "-p", "--session", "--tags", "--keywords", "--python"),
        configuring=("-f", "--noxfile"),
        several=re.compile(
            r"(?:^| )(?:-[se]|--sessions?)[ =]?\S+ [^-\s]"
            r"|^(?!.*(?:^| )(?:-[se]|--session)).*(?:^| )(?:-[ptk]|--pythons?|--tags|--keywords)\b"
        ),
        variables=("NOXSESSION", "NOXPYTHON"),
        call=re.compile(r"(?<![\w.$-])nox(?![\w./=@-])"),
    ),
)


@dataclass(frozen=True, slots=True)
class SelectedEnvironments:
    """The environments that a tool runs in a job.

    Attributes:
        names: of environments or sessions.
        is_axis: each name is a combination; otherwise, the command has the only name.
    """

    tool: Tool
    names: tuple[str, ...]
    is_axis: bool

    @property
    def value(self) -> str:
        return f"${{{{ matrix.{self.tool.axis} }}}}" if self.is_axis else self.names[0]

    @property
    def words(self) -> str:
        """The words that follow the tool in the command."""
        return f" {self.tool.option} {self.value}"


def tool_of_all_environments(job: MovableJob) -> Tool | None:
    """Return the tool that the test step calls for all environments; None for no such tool."""
    variables = f"{job.workflow.get('env')}{job.value}"
    for tool, words in _calls(job):
        selecting = [word for word in tool.options(words) if word.startswith(tool.selecting)]
        is_selected = selecting or any(name in variables for name in tool.variables)
        return None if is_selected else tool
    return None


def reject_several_environments(job: MovableJob) -> None:
    """Refuse a command that may select several environments.

    Raises:
        NotMovable: the tests would run once for each environment.
    """
    for tool, words in _calls(job):
        options = re.sub(r"\$\{\{.*?\}\}", "$", " ".join(tool.options(words)))
        if tool.several.search(options):
            what = f"the step may run the tests several times: {shorten(' '.join(words))}"
            value = f"{tool.option} ${{{{ matrix.{tool.axis} }}}}"
            fix = f"make them an axis of the matrix, and run {tool.name} {value}"
            raise NotMovable(what, where=job.where, fix=fix)


def _calls(job: MovableJob) -> Iterator[tuple[Tool, list[str]]]:
    """Yield (tool, words) of the commands of the test step that call a tool."""
    for command in job.commands:
        words = command.words.split()
        if command.framework == UNKNOWN:
            names = {posixpath.basename(word) for word in words}
            yield from ((tool, words) for tool in TOOLS if tool.name in names)


def folder_of_tool(job: MovableJob, tool: Tool) -> str:
    """Return the folder in which the tool runs: "" for the top, else with "/" at its end.

    Raises:
        NotMovable: the script leaves the folder, or names another configuration.
    """
    step = job.value["steps"][job.step - 1]
    for words in split_commands(step["run"]):
        is_configured = any(word.startswith(tool.configuring) for word in tool.options(words))
        if is_configured or words[0] in ("cd", "pushd"):
            what = f"which environments {tool.name} runs is not known: {shorten(' '.join(words))}"
            fix = f"make them an axis of the matrix, and name one of them by {tool.option}"
            raise NotMovable(what, where=job.where, fix=fix)
    key = "working-directory"
    default = run_defaults_of(job.workflow, job.value).get(key)
    folder = posixpath.normpath(str(step.get(key) or default or "."))
    return "" if folder == "." else f"{folder}/"


def select_environments(job: MovableJob, selection: SelectedEnvironments) -> str:
    """Return the workflow in which each combination of the job runs one environment.

    Raises:
        NotMovable: the matrix or the command cannot be edited.
    """
    source, where = job.source, job.where
    entry = source.find("jobs", job.name)
    run = source.find("jobs", job.name, "steps", job.step, "run")
    assert entry is not None
    assert run is not None
    workflow = copy.deepcopy(job.workflow)
    # Copied one by one: another job may share them by an alias, and must not change.
    changed = workflow["jobs"][job.name] = {**workflow["jobs"][job.name]}
    changed["steps"] = [{**step} for step in changed["steps"]]
    step = changed["steps"][job.step - 1]
    call, step["run"] = _select_call(job, selection)
    start = source.colon_end(run)
    calls = list(selection.tool.call.finditer(source.text[start : source.content_end(run)]))
    try:
        # If YAML escapes or an alias hide the call, the values will differ.
        at = start + (calls[call].end() if call < len(calls) else 0)
        edits = [Edit(at, at, selection.words)]
        if selection.is_axis:
            edits += _axis_edits(job, entry, selection)
            changed["strategy"] = _with_axis(changed.get("strategy"), selection, where)
            if "name" in changed and "matrix." not in str(changed["name"]):
                suffix = f" {selection.value}"
                edits += name_edits(source, find_entry(entry.value, "name"), suffix)
                changed["name"] = with_suffix(changed["name"], suffix)
        text = source.edited(edits)
        is_same = load_ended(text, where) == workflow
    except InputError as error:
        raise NotMovable(error.what, where=where, fix=error.fix or BY_HAND) from error
    if not is_same:
        what = f"{selection.words.strip()} or its axis cannot be put in by edits of lines"
        raise NotMovable(what, where=where, fix=BY_HAND)
    return text


def _select_call(job: MovableJob, selection: SelectedEnvironments) -> tuple[int, str]:
    """Return the index of the occurrence of the tool that is the call, and the changed script."""
    script, tool = job.value["steps"][job.step - 1]["run"], selection.tool
    words = "; ".join(command.words for command in job.commands)
    expected = [
        words[: match.end()] + selection.words + words[match.end() :]
        for match in tool.call.finditer(words)
    ]
    for number, match in enumerate(tool.call.finditer(script)):
        changed = script[: match.end()] + selection.words + script[match.end() :]
        if [command.words for command in find_test_commands(changed)] == expected:
            return number, changed
    what = f"where to put {selection.words.strip()} is not clear: {shorten(words)}"
    raise NotMovable(what, where=job.where, fix="write it into the step, and its axis")


def _axis_edits(job: MovableJob, entry: Entry, selection: SelectedEnvironments) -> list[Edit]:
    names = (name if load(name, "name") == name else json.dumps(name) for name in selection.names)
    lines = [f"{selection.tool.axis}: [{', '.join(names)}]"]
    deeper = " " * level_of(entry)
    strategy = find_entry(entry.value, "strategy")
    matrix = find_entry(strategy.value, "matrix") if strategy else None
    owner = matrix or strategy or entry
    if matrix is None:
        lines = ["matrix:", *(deeper + line for line in lines)]
    if strategy is None:
        lines = ["strategy:", *(deeper + line for line in ("fail-fast: false", *lines))]
    return [insert_key(job.source, owner.value, lines, job.where)]


def _with_axis(strategy: Any, selection: SelectedEnvironments, where: str) -> dict[str, Any]:
    """Return the strategy with the axis.

    Raises:
        InputError: a combination would not run for each environment.
    """
    strategy = strategy or {"fail-fast": False}
    matrix, axis, names = strategy.get("matrix") or {}, selection.tool.axis, selection.names
    existing = [entry.values for entry in combinations(matrix, where)] if matrix else [{}]
    changed = {axis: list(names), **matrix}
    actual = [entry.values for entry in combinations(changed, where)]
    expected = [{axis: name, **values} for name in names for values in existing]
    if len(actual) != len(expected) or not all(values in actual for values in expected):
        what = f"include, or a key {axis}, gives the matrix other combinations with that axis"
        fix = f"give its entries a value each, and run {selection.tool.name}{selection.words}"
        raise InputError(what, where=where, fix=fix)
    return {**strategy, "matrix": changed}
