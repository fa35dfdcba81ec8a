"""Rendering of the files that `ciguard init` writes. Set-up steps stay verbatim. Pure."""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

import yaml

from ciguard import __version__
from ciguard.errors import UsageError
from ciguard.model import DRILL_KINDS
from ciguard.run.frameworks.registry import DEFAULT, FRAMEWORKS
from ciguard.workflow.check_names import CHECK
from ciguard.workflow.job_templates import ACTIONS, quoted, workflow_environment
from ciguard.workflow.rewrite import NewJobs, action_path

_FIRST_LINE: Final = re.compile(r"# ciguard init \S+, sha256 ([0-9a-f]{64}):.*\n")


def with_checksum(text: str) -> str:
    """Put the first line with the checksum before a text."""
    return (
        f"# ciguard init {__version__}, sha256 {_sha256(text)}: "
        f"change ciguard.toml and run init again\n{text}"
    )


def is_generated(text: str) -> bool:
    """Return whether the text has a first line with a checksum, also if it was edited."""
    return _FIRST_LINE.match(_normalise(text)) is not None


def is_unedited(text: str) -> bool:
    """Return whether the text has a first line with the right checksum."""
    first_line = _FIRST_LINE.match(_normalise(text))
    return first_line is not None and first_line[1] == _sha256(rest_of(text))


def rest_of(text: str) -> str:
    """Return the normalised text below the line with the checksum; all text without this line."""
    text = _normalise(text)
    first_line = _FIRST_LINE.match(text)
    return _normalise(text[first_line.end() :]) if first_line else text


def _sha256(text: str) -> str:
    return hashlib.sha256(_normalise(text).encode()).hexdigest()


def _normalise(text: str) -> str:
    # Idempotent: a normalised text is hashed again.
    return re.sub(r"\r+\n", "\n", text).rstrip("\r\n") + "\n"


MAX_STEPS: Final = 20  # each needs an artifact
_SUITE_KEYS: Final = ("framework", "cwd", "command", "args", "env")
UNNAMED: Final = "# no name: reports would put it before each test"
COVERAGE_PY: Final = f"""\
- uses: {ACTIONS["setup_python"]}
  with: {{python-version: 3.x}} # as the tests
- run: python -m pip install coverage # and the plug-ins that its configuration names"""
TIMEOUT: Final = 'timeout = "10m" # of one {}; without a limit, a hang keeps its shard busy'


@dataclass(frozen=True, slots=True)
class Workflow:
    """The values of a repository's workflow.

    Attributes:
        actions: address of ciguard's actions, as `OWNER/ciguard@COMMIT # VERSION`.
        setup: YAML list of steps that prepare the machine for the tests; "" for none.
        history: location of the history, as in `--history`.
        checkpoint: time during which a step starts tests, as in `--for`; "" for a single step.
        checkpoint_steps: maximum number of steps of a job; the last step runs to the end.
        confirm_suspects: add jobs that run suspects of a pull request again on both commits.
        culprit_budget: time of a search for the commit that made the base red; "" for no search.
        culprit_minutes: time limit of its job, with the set-up.
        branch: the history is a branch of the repository, written by a job.
        service: a service stores the history: jobs identify themselves, and none writes it.
        claims: address of the service that gives jobs further tests during the run; "" for none.
        coverage: format in which the tests' coverage is collected; "" for none.
        pages: "public" to publish pages of the history; "" for none.
    """

    default_branch: str
    actions: str
    setup: str
    history: str
    checkpoint: str = ""
    checkpoint_steps: int = 1
    confirm_suspects: bool = False
    culprit_budget: str = ""
    culprit_minutes: int = 0
    branch: bool = True
    service: bool = False
    claims: str = ""
    coverage: str = ""
    pages: str = ""


@dataclass(frozen=True, slots=True)
class StarterSuite:
    """A suite of a new configuration; empty values are left out."""

    name: str
    framework: str = ""
    cwd: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    retries: int = 0  # a key of [policy]


def count_checkpoint_steps(checkpoint_s: float, limit_s: float) -> int:
    """Return the number of steps of a job between checkpoints; the last step runs to the limit.

    Raises:
        UsageError: fewer than two, or more than `MAX_STEPS`.
    """
    parts = math.ceil(limit_s / checkpoint_s)
    if 1 < parts <= MAX_STEPS:
        return parts
    where = f"a checkpoint every {checkpoint_s:g} s, with plan.limit = {limit_s:g} s"
    least_s = math.ceil(limit_s / MAX_STEPS)
    what = "no step would end there" if parts == 1 else f"{parts} steps in a job"
    fix = f"take at least {least_s} s and less than {limit_s:g} s"
    raise UsageError(what, where=where, fix=fix)


def render_workflow(workflow: Workflow, *, forks: bool = False) -> str:
    """Render a workflow; raise UsageError if the set-up is not a list of steps.

    Args:
        forks: render the workflow that comments on pull requests from forks.
    """
    check_steps(workflow.setup)
    name = "forks" if forks else "workflow"
    text = (
        workflow_environment()
        .get_template(f"{name}.yml.j2")
        .render(
            asdict(workflow),
            setup=textwrap.dedent(workflow.setup).strip("\n"),
            drills=DRILL_KINDS,
            plan_job="plan",
            job="tests",
            pins=ACTIONS,
            use=lambda name: action_path(workflow.actions, name),
        )
    )
    return with_checksum(text)


def time_text(time_s: float) -> str:
    """Format a time for `ciguard run --for`: "15m", "90s"."""
    minutes, seconds = divmod(time_s, 60)
    return f"{time_s:g}s" if seconds else f"{minutes:g}m"


def configuration_tables(setup: str, suites: Sequence[StarterSuite]) -> dict[str, list[str]]:
    """Return lines of ciguard.toml by table, without empty tables."""
    tables = {"workflow": [f"setup = '''\n{setup}\n'''"] if setup else []}
    for suite in suites:
        values = {key: getattr(suite, key) for key in _SUITE_KEYS}
        lines = [] if suite.name else [UNNAMED]
        lines += [f"{key} = {_value(value)}" for key, value in values.items() if value]
        limit = TIMEOUT.format(FRAMEWORKS[suite.framework or DEFAULT].unit)
        limit = limit if suite is suites[0] else limit.partition(" #")[0]
        tables[f"suite.{quoted(suite.name)}"] = [*lines, limit]
        tables["policy"] = [f"retries = {suite.retries}"] if suite.retries else []
    return {name: lines for name, lines in tables.items() if lines}


def with_tables(text: str, tables: Mapping[str, Sequence[str]], where: str) -> str:
    """Add lines to tables of a TOML text: below the header of an existing table, or at the end.

    Raises:
        UsageError: the text has such a table in another form.
    """
    end = "\r\n" if "\r\n" in text else "\n"
    edited = text
    for table, lines in tables.items():
        added = "".join(f"{line}\n" for line in lines).replace("\n", end)
        header = re.search(rf"(?m)^\[{re.escape(table)}\][^\n]*(\n|\Z)", edited)
        if header:
            edited = edited[: header.end()] + added + edited[header.end() :]
        else:
            edited = f"{edited.rstrip()}{end * 2}[{table}]{end}{added}".lstrip()
    try:
        tomllib.loads(edited)
    except tomllib.TOMLDecodeError as error:
        block = "\n".join(f"[{table}]\n" + "\n".join(lines) for table, lines in tables.items())
        what = f"its keys cannot be completed: {error}"
        raise UsageError(what, where=where, fix=f"add these lines yourself:\n{block}") from error
    return edited


def _value(value: str | tuple[str, ...] | Mapping[str, str]) -> str:
    """Format a value as TOML; the keys of a table are names of variables."""
    if isinstance(value, (str, tuple)):
        return quoted(value)
    return "{ " + ", ".join(f"{name} = {quoted(text)}" for name, text in value.items()) + " }"


def render_new_jobs(
    actions: str,
    job: str,
    suite: str,
    matrix: str,
    *,
    is_conditional: bool,
    check: str = CHECK,
    has_drill: bool = False,
    take: str = "",
    shards: int = 0,
    framework: str = "",
    command: Sequence[str] = (),
    coverage: str = "",
) -> NewJobs:
    """Render the jobs that are added around a test job.

    Args:
        actions: as `OWNER/ciguard@COMMIT`.
        matrix: text of the job's matrix at column 0; "" for none.
        is_conditional: the test job may be skipped without a failure.
        check: name of the report.
        has_drill: a run that is started by hand has the input `drill`.
        take: axis that the plan removes from the matrix; "" for none.
        shards: number for each combination; 0 if the plan chooses it.
        framework: of a suite that the action runs by itself; "" if the step has the command.
        command: of this suite.
        coverage: format in which the tests' coverage is collected; "" for none.
    """
    template = workflow_environment().get_template("into.yml.j2")
    values = {"job": job, "suite": suite, "matrix": matrix, "is_conditional": is_conditional}
    values |= {"has_drill": has_drill, "take": take, "shards": shards, "framework": framework}
    values |= {"command": command, "coverage": coverage, "setup": COVERAGE_PY}
    return NewJobs(
        *(
            template.render(
                values,
                part=part,
                plan_job="ciguard",
                check=check,
                pins=ACTIONS,
                use=lambda name: action_path(actions, name),
            )
            for part in ("plan", "coverage", "report", "history", "test", "suite")
        )
    )


def check_steps(setup: str) -> None:
    """Raise UsageError unless `setup` is empty or a YAML list of mappings."""
    if not setup.strip():
        return
    where = "workflow.setup"
    fix = 'write the steps as in a workflow file: "- run: python -m pip install -r dev.txt"'
    try:
        steps = yaml.safe_load(textwrap.dedent(setup))
    except yaml.YAMLError as error:
        raise UsageError(f"not YAML: {error}", where=where, fix=fix) from error
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        kind = type(steps).__name__
        raise UsageError(f"expected a list of steps, found {kind}", where=where, fix=fix)
