"""A test job that ciguard's actions can shard: its step, its matrix, and reasons to refuse. Pure.

`init --into` moves such a job: ciguard plans its matrix, and an action runs its test step.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import yaml

from ciguard.errors import InputError, combine
from ciguard.workflow.conditions import are_opposite, bare_condition
from ciguard.workflow.matrix import SHARD, SHARD_PATH, read_matrix, take_axis
from ciguard.workflow.positions import Entry, SourceText, find_entry, indent_of, is_block, is_flow
from ciguard.workflow.result_upload import uploads_artifact
from ciguard.workflow.test_commands import (
    NO_TASKS,
    UNKNOWN,
    FoundCommand,
    FoundStep,
    Tasks,
    action_of,
    find_test_steps,
    split_commands,
    step_script,
    without_retry,
)
from ciguard.workflow.yaml_values import jobs_of, load, run_defaults_of, steps_of

PLAN_JOB: Final = "ciguard"
_ROOT_ACTION: Final = re.compile(r"[\w-]+/ciguard@|\$/$")
REPORT_JOB: Final = "ciguard-report"
HISTORY_JOB: Final = "ciguard-history"
BY_HAND: Final = "write the lines by hand that `ciguard init --into FILE` prints"
SHELL_FIX: Final = (
    "put the test command into a bash step and its other lines into a step before it, or write "
    "the lines by hand that `ciguard init --into FILE` prints"
)
_MATRIX_FIX: Final = "ciguard plans combinations that stand in the file: write them out"
_OWN_SHARDS: Final = frozenset({"--splits", "--num-shards", "--test-group-count"})
# Options that divide the tests by an axis; a moved job does not need them.
_SPLIT_OPTIONS: Final = re.compile(
    r"[ \t]+--(?:(?:splits|group|splitting-algorithm|durations-path)[= ]"
    r"(?:\$\{\{[^}\n]*\}\}|[^\s'\"]+)|(?:store|clean)-durations(?![\w-]))"
)
_SPLIT_GROUP: Final = re.compile(r"--group[= ]\$\{\{ *matrix\.([\w-]+) *\}\}")
# A command, action, permission or key of a job that publishes.
_PUBLISHES: Final = re.compile(
    r"((npm|pnpm|yarn|cargo|uv|poetry|hatch|flit) (\S+ )*publish|(\S+ -m )?twine upload"
    r"|(docker|gem) push|gh release (create|upload))(?!\S)(?!.*--dry-run)|environment$"
    r"|(contents|packages|id-token): write|pypa/gh-action-pypi-publish|softprops/action-gh-release"
)
MAX_SHOWN: Final = 60  # characters of a command in a message
_SHELLS: Final = re.compile(r"(\S*/)?(bash|sh|python)(?!\S)|.*\$\{\{")  # also `bash -el {0}`
# Conditions of a step, without blanks, that are true if all steps before succeeded.
_ALWAYS_TRUE: Final = frozenset({"", "true", "always()", "success()", "!cancelled()"})


class NotMovable(InputError):
    """The test job cannot be moved by edits of its lines; a person may move it by hand."""


@contextmanager
def collected(obstacles: list[NotMovable]) -> Iterator[None]:
    """Add the obstacle that a check finds to a list, so that the next check can follow."""
    try:
        yield
    except NotMovable as error:
        obstacles.append(error)


@dataclass(frozen=True, slots=True)
class MovableJob:
    """A test job with the facts from which the jobs around it are made.

    Attributes:
        step: number of the test step, from 1.
        alternative: number of the test step that runs where the condition of `step` is false, or 0.
        matrix: text of the matrix with the comments, at column 0; "" for none.
        commands: the test commands of both steps; none if `--step` names another step.
        take: axis of the matrix that divides the tests by hand; "" for none.
        replaced: jobs that only comment, as the report of the moved job does.
        shards: number of filters that divided the tests; 0 for none.
        obstacles: reasons why ciguard's actions cannot run the job.
        runs_suite: the action runs the command of the suite instead of the step's.
        goflags: variable of the test steps, for flags that an expression computes; "" for none.
    """

    source: SourceText
    workflow: Any
    where: str
    name: str
    step: int
    alternative: int
    matrix: str
    commands: tuple[FoundCommand, ...]
    take: str
    replaced: Sequence[str]
    shards: int = 0
    obstacles: tuple[NotMovable, ...] = ()
    runs_suite: bool = False
    goflags: str = ""

    def without_split(self, command: str) -> str:
        """Remove the options that divide the tests by the axis `take`, and retries."""
        return without_retry(_SPLIT_OPTIONS.sub("", command) if self.take else command)

    @property
    def steps(self) -> dict[int, dict[str, Any]]:
        """Return the test steps by number: the step, and its alternative."""
        numbers = filter(None, (self.step, self.alternative))
        return {number: self.value["steps"][number - 1] for number in numbers}

    @property
    def retries(self) -> int:
        """Return how often the test step runs a command again if it fails."""
        scripts: list[str] = [step["run"] for step in self.steps.values()]
        return max(run.count("||") - without_retry(run).count("||") for run in scripts)

    @property
    def path(self) -> str:
        return self.where.partition(":")[0]

    @property
    def value(self) -> dict[str, Any]:
        job: dict[str, Any] = self.workflow["jobs"][self.name]
        return job


def find_movable_steps(workflow: Any, tasks: Tasks = NO_TASKS) -> list[FoundStep]:
    """Find the test steps as `find_test_steps`, without the alternatives of steps before them."""
    found = find_test_steps(workflow, tasks)
    return [at for at in found if not 0 < _alternative(workflow, at, found) < at.number]


def _alternative(workflow: Any, step: FoundStep, found: Sequence[FoundStep]) -> int:
    """Return the only other test step of a job, if its condition is the opposite one, or 0."""
    ifs = {at: str(value.get("if", "")) for at, value in steps_of(jobs_of(workflow).get(step.job))}
    others = [at.number for at in found if at.job == step.job and at is not step]
    is_pair = len(others) == 1 and are_opposite(ifs[step.number], ifs[others[0]])
    return others[0] if is_pair else 0


def choose_step(
    workflow: Any, where: str, job: str = "", step: str = "", tasks: Tasks = NO_TASKS
) -> tuple[str, int]:
    """Return the id of the job and the number of the step that runs the tests.

    Args:
        job: id; "" for the only job that runs tests.
        step: number from 1, id or name; "" for the only step that runs tests.
        tasks: of the project.

    Raises:
        NotMovable: no step runs tests, or several do.
    """
    jobs = jobs_of(workflow)
    if not jobs:
        raise InputError("no workflow: it has no jobs", where=where)
    if job and job not in jobs:
        fix = f"its jobs are {', '.join(map(str, jobs))}"
        raise InputError(f"no job {job!r}", where=where, fix=fix)
    test_steps = find_movable_steps(workflow, tasks)
    if step and len({found.job for found in test_steps}) == 1:
        job = job or test_steps[0].job
    if job and step:
        return job, _step_number(jobs[job], f"{where}: jobs.{job}", step)
    candidates = [found for found in test_steps if job in ("", found.job)]
    if len(candidates) == 1:
        return candidates[0].job, candidates[0].number
    if candidates:
        what = f"{len(candidates)} steps run tests"
        names = ", ".join(dict.fromkeys(found.job for found in candidates))
        fix = f"name a job and a step; the jobs are {shorten(names, 200)}"
        raise NotMovable(what, where=where, fix=fix)
    called = [name for name, value in jobs.items() if isinstance(value, dict) and "uses" in value]
    what = "no step with a test command was found"
    fix = "choose one with --job JOB --step NUMBER"
    if called:
        what += f"; jobs that call a workflow: {', '.join(called)}"
        fix += ", or move the job in the workflow that is called"
    raise NotMovable(what, where=where, fix=fix)


def shorten(text: str, width: int = MAX_SHOWN) -> str:
    """Shorten a command or reason at the end of a word."""
    return textwrap.shorten(text, width, placeholder=" ...")


def _step_number(job: Any, where: str, step: str) -> int:
    steps = dict(steps_of(job))
    if not steps:
        fix = "move the job in the workflow that is called"
        raise NotMovable("the job has no steps", where=where, fix=fix)
    matching = [
        number
        for number, value in steps.items()
        if step in (str(number), value.get("id"), value.get("name"))
    ]
    if len(matching) != 1:
        what = f"{len(matching) or 'no'} steps are {step!r}"
        raise InputError(what, where=where, fix=f"pass a number from 1 to {max(steps)}")
    return matching[0]


def load_ended(text: str, where: str) -> Any:
    """Load a text as if a line end followed, which is part of the value of a last block scalar."""
    return load(text if text.endswith("\n") else f"{text}\n", where)


def read_job(
    text: str, where: str, job: str = "", step: str = "", tasks: Tasks = NO_TASKS
) -> MovableJob:
    """Read the test job of a workflow, and what keeps it from a move.

    Args:
        job, step, tasks: as in `choose_step`.

    Raises:
        InputError: no workflow; NotMovable: no job that can be read.
    """
    workflow = load_ended(text, where)
    source = SourceText(text)
    name, number = choose_step(workflow, where, job, step, tasks)
    _reject_shape(workflow, where)
    jobs, entry = source.find("jobs"), source.find("jobs", name)
    if jobs is None or entry is None or not is_block(jobs.value, yaml.MappingNode):
        raise NotMovable("its jobs are in flow style", where=where, fix=BY_HAND)
    where = f"{where}:{source.line_number('jobs', name)}: jobs.{name}"
    if not is_block(entry.value, yaml.MappingNode) or entry.is_alias:
        raise NotMovable("the job is in flow style, or an alias", where=where, fix=BY_HAND)
    test_steps = find_test_steps(workflow, tasks)
    own = [at for at in test_steps if (at.job, at.number) == (name, number)]
    alternative = _alternative(workflow, own[0], test_steps) if own else 0
    by_step = {at.number: at.commands for at in test_steps if at.job == name}
    commands, replaced = by_step.get(number, ()), comment_jobs(workflow)
    obstacles = [*_job_obstacles(workflow, name, replaced, where)]
    for at in filter(None, (number, alternative)):
        place = f"{where}.steps[{at}]"
        if not isinstance(workflow["jobs"][name]["steps"][at - 1].get("run"), str):
            fix = "move the commands of the action into a step"
            raise NotMovable("the step runs an action, no commands", where=place, fix=fix)
        obstacles += _step_obstacles(workflow["jobs"][name], at, by_step.get(at, ()), place)
    matrix = take = ""
    with collected(obstacles):
        matrix = _moved_matrix(source, entry, where)
        read_matrix(matrix, where)
    with collected(obstacles):
        take = _taken_axis(workflow["jobs"][name], number, commands, matrix, where)
    return MovableJob(
        *(source, workflow, where, name, number, alternative, matrix),
        *((*commands, *by_step.get(alternative, ())), take, replaced),
        obstacles=tuple(obstacles),
    )


def reject_obstacles(job: MovableJob, found: Sequence[NotMovable] = ()) -> None:
    """Refuse a job with all of its obstacles; return if there is none.

    Args:
        found: obstacles that other checks found.
    """
    reasons = [*found, *job.obstacles]
    with collected(reasons):
        _reject_condition(job)
    if reasons:
        raise combine(reasons)


def reject_shell(job: MovableJob) -> None:
    """Refuse a shell that ciguard does not run."""
    for number, step in job.steps.items():
        shell = str(step.get("shell") or run_defaults_of(job.workflow, job.value).get("shell", ""))
        if shell and not _SHELLS.match(shell):
            line = job.source.line_number("jobs", job.name, "steps", number, "shell")
            where = f"{job.where}.steps[{number}], line {line}"
            raise NotMovable(f"ciguard runs no {shell} script", where=where, fix=SHELL_FIX)


def _reject_condition(job: MovableJob) -> None:
    """Refuse a test step that a successful job may skip: its shards would have no results."""
    condition = str(job.value["steps"][job.step - 1].get("if", ""))
    if job.alternative or bare_condition(condition).lower() in _ALWAYS_TRUE:
        return
    line = job.source.line_number("jobs", job.name, "steps", job.step, "if")
    what = f"jobs where its condition is false would have no results: if: {shorten(condition)}"
    fix = "move the condition into the command of one step, or to the job, or choose another --step"
    raise NotMovable(what, where=f"{job.where}.steps[{job.step}], line {line}", fix=fix)


def _reject_shape(workflow: dict[str, Any], where: str) -> None:
    """Refuse shapes that GitHub refuses, too: the following functions rely on the right shape."""
    jobs = list(workflow["jobs"].values())
    mappings = list(jobs)
    for owner in (workflow, *(job for job in jobs if isinstance(job, dict))):
        defaults, steps = owner.get("defaults", {}), owner.get("steps", [])
        mappings += [defaults, defaults.get("run", {}) if isinstance(defaults, dict) else None]
        mappings += steps if isinstance(steps, list) else [None]
        for step in steps if isinstance(steps, list) else ():
            mappings.append(step.get("with", {}) if isinstance(step, dict) else None)
    if not all(isinstance(mapping, dict) for mapping in mappings):
        raise InputError("GitHub would refuse it: a job, step, `with` or `defaults`", where=where)


def comment_jobs(workflow: Any) -> list[str]:
    """Return the jobs that only use ciguard's root action: a moved job's report replaces them."""
    return [
        name
        for name, job in jobs_of(workflow).items()
        if [bool(_ROOT_ACTION.match(str(step.get("uses")))) for _, step in steps_of(job)] == [True]
    ]


def _job_obstacles(
    workflow: dict[str, Any], name: str, replaced: Sequence[str], where: str
) -> Iterator[NotMovable]:
    """Yield ids of other jobs and keys of the job that a moved job cannot have."""
    jobs = workflow["jobs"]
    for reserved in (PLAN_JOB, REPORT_JOB, HISTORY_JOB):
        if reserved in jobs and reserved not in replaced:
            yield NotMovable(f"another job is called {reserved}", where=where, fix="rename it")
    concurrency = jobs[name].get("concurrency")
    if concurrency is not None and SHARD_PATH not in str(concurrency):
        what = "its shards would cancel each other: they have one concurrency group"
        fix = f"add {SHARD} to the group"
        yield NotMovable(what, where=f"{where}.concurrency", fix=fix)
    # The upload that `docs/how-to/comment.md` shows has the index in the name of its artifact.
    others = [step for _, step in steps_of(jobs[name]) if not uploads_artifact(step)]
    if "strategy.job-" in str({**jobs[name], "name": "", "steps": others}):
        what = "the job divides its tests by itself: strategy.job-index or strategy.job-total"
        yield NotMovable(what, where=where, fix="take this division out, then run init again")
    if publishes := _publishing_part(jobs[name]):
        fix = "move the tests into a job without it, which this job then needs"
        yield NotMovable(f"each shard could publish: {publishes}", where=where, fix=fix)


def _publishing_part(job: dict[str, Any]) -> str:
    """Return the command, action, permission or key with which a job publishes; "" for none."""
    permissions = job["permissions"] if isinstance(job.get("permissions"), dict) else {}
    if "use_oidc" in str(job):  # the token is for the upload of coverage to Codecov
        permissions = {**permissions, "id-token": "none"}
    texts = [*job, *(f"{name}: {value}" for name, value in permissions.items())]
    for _, step in steps_of(job):
        texts += [action_of(step), *map(" ".join, split_commands(step_script(step)))]
    return next((shorten(text) for text in texts if _PUBLISHES.match(text)), "")


def _step_obstacles(
    job: dict[str, Any], number: int, commands: Sequence[FoundCommand], where: str
) -> Iterator[NotMovable]:
    """Yield reasons why the action cannot run the test step."""
    step = job["steps"][number - 1]
    if len(commands) > 1:
        words = "; ".join(shorten(command.words) for command in commands[:3])
        what = f"{len(commands)} commands run tests: {words}"
        fix = "a step may run the tests once: make a job of each, and choose one"
        yield NotMovable(what, where=where, fix=fix)
    if commands and commands[0].drops_variables:
        what = f"variables do not reach the tests: {shorten(commands[0].words)}"
        fix = "run the tests in the job itself, as with `container:`"
        yield NotMovable(what, where=where, fix=fix)
    folder = str({**run_defaults_of({}, job), **step}.get("working-directory", "")).strip("./")
    for _, other in steps_of(job):
        inputs = other.get("with", {}) if action_of(other) == "actions/checkout" else {}
        name, path = str(inputs.get("repository", "")), str(inputs.get("path", "")).strip("./")
        if "/" in name.partition("${{")[0] and path == folder:
            what = f"the tests are those of another repository: {name}"
            fix = "choose another job; or take `repository` out of its checkout, if it is this one"
            yield NotMovable(what, where=where, fix=fix)
    outputs = f"steps.{step['id']}.outputs" if "id" in step else ""
    if outputs and outputs in str(job):
        what = f"{outputs} is used, which the action does not have"
        yield NotMovable(what, where=where, fix="write the output in a separate step")


def _taken_axis(
    job: dict[str, Any], number: int, commands: Sequence[FoundCommand], matrix: str, where: str
) -> str:
    """Return the axis by which options of the command divide the tests; "" for no such axis.

    Raises:
        NotMovable: the tests are divided in another way.
    """
    if not commands or not _OWN_SHARDS.intersection(re.split(r"[ =]", commands[0].words)):
        return ""
    step = job["steps"][number - 1]
    axes: set[str] = set(_SPLIT_GROUP.findall(step["run"]))
    other_steps = [{**step, "run": _SPLIT_OPTIONS.sub("", step["run"])}]
    other_steps += [
        other for other in job["steps"] if other is not step and "upload-artifact" not in str(other)
    ]
    others = {key: value for key, value in job.items() if key not in ("name", "steps", "strategy")}
    axis = axes.pop() if len(axes) == 1 else ""
    if axis and f"matrix.{axis}" not in f"{other_steps}{others}":
        take_axis(matrix, axis, where)
        return axis
    what = f"the job divides its tests by itself: {shorten(commands[0].words)}"
    fix = "take out these options and the axis of the matrix that they use, then run init again"
    raise NotMovable(what, where=where, fix=fix)


def _moved_matrix(source: SourceText, job: Entry, where: str) -> str:
    """Return the text of the matrix at column 0; "" for none."""
    strategy = find_entry(job.value, "strategy")
    if strategy is None:
        return ""
    if strategy.is_alias or not isinstance(strategy.value, yaml.MappingNode):
        raise NotMovable("strategy is computed, or an alias", where=where, fix=BY_HAND)
    entry = find_entry(strategy.value, "matrix")
    if entry is None:
        return ""
    start, end = matrix_range(source, entry, where)
    column = entry.column if is_flow(entry.value) else entry.value.value[0][0].start_mark.column
    lines = source.text[start:end].splitlines()
    text = "\n".join(line[min(column, indent_of(line)) :] for line in lines)
    if "${{" in text:
        what = "the matrix is computed"
        raise NotMovable(what, where=f"{where}.strategy.matrix", fix=_MATRIX_FIX)
    try:
        load(text, where)
    except InputError as error:
        what = "the matrix uses an anchor of another place"
        raise NotMovable(what, where=f"{where}.strategy.matrix", fix=_MATRIX_FIX) from error
    return text


def matrix_range(source: SourceText, entry: Entry, where: str) -> tuple[int, int]:
    """Return the range of characters of the matrix: a flow mapping, or whole lines.

    Raises:
        NotMovable: the value is an alias or no mapping.
    """
    value = entry.value
    if entry.is_alias or not isinstance(value, yaml.MappingNode):
        what = "the matrix is computed, or an alias"
        raise NotMovable(what, where=f"{where}.strategy.matrix", fix=_MATRIX_FIX)
    if is_flow(value):
        return value.start_mark.index, value.end_mark.index
    after_key = source.colon_end(entry)
    end = source.comments_after(source.content_end(entry), value.value[0][0].start_mark.column)
    return source.next_line(after_key), end


# Program -> variables and prefixes of options that select environments or sessions, options that
# may select several (expressions of the workflow are one "$"), and the selection by an axis.
TOOLS: Final = {
    "tox": (
        ("TOXENV", "TOX_ENV"),
        ("-e", "-m", "-f"),
        re.compile(r"(?:^| )(?:-e ?\S*,|-e .* -e )"),
        ("-e", "tox_env"),
    ),
    "nox": (
        ("NOXSESSION", "NOXPYTHON"),
        ("-s", "-e", "-t", "-k", "-p", "--session", "--tags", "--keywords", "--python"),
        re.compile(
            r"(?:^| )(?:-[se]|--sessions?)[ =]?\S+ [^-\s]"
            r"|^(?!.*(?:^| )(?:-[se]|--session)).*(?:^| )(?:-[ptk]|--pythons?|--tags|--keywords)\b"
        ),
        ("-s", "nox_session"),
    ),
}


def reject_several_environments(job: MovableJob) -> None:
    """Refuse a command that may run several environments, as it does without a selection.

    Raises:
        NotMovable: the tests would run once for each environment.
    """
    environment = f"{job.workflow.get('env')}{job.value}"
    for command in job.commands:
        words = [posixpath.basename(word) for word in command.arguments]
        for tool in {*words}.intersection(TOOLS) if command.framework == UNKNOWN else ():
            variables, selecting, several, (option, axis) = TOOLS[tool]
            options = command.arguments[words.index(tool) + 1 :]
            options = options[: options.index("--")] if "--" in options else options
            text = re.sub(r"\$\{\{.*?\}\}", "$", " ".join(options))
            is_selected = any(word.startswith(selecting) for word in options)
            is_selected = is_selected or any(name in environment for name in variables)
            if several.search(text) or not is_selected:
                what = f"the step may run the tests several times: {shorten(command.words)}"
                names = f"`{axis}: [...]` below `matrix:`, with names of tests in `{tool} -l`"
                fix = f"write {names}, and run {tool} {option} ${{{{ matrix.{axis} }}}}"
                raise NotMovable(what, where=job.where, fix=fix)
