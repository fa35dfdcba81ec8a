"""Rendering of the files that `ciguard init` writes. Set-up steps stay verbatim. Pure."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from ciguard.errors import UsageError
from ciguard.init.checksum import with_checksum
from ciguard.render.templates import environment
from ciguard.workflow.job_templates import ACTIONS, quoted, workflow_environment
from ciguard.workflow.rewrite import NewJobs, action_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# A GitHub Enterprise Server has artifacts of generation 3 only. These local actions wrap the
# actions of the server, whose commits are not known here.
LOCAL: Final = {
    "download_artifact": "./.github/actions/ciguard-download",
    "upload_artifact": "./.github/actions/ciguard-upload",
}
LOCAL_FILES: Final = {
    ".github/actions/ciguard-download/action.yml": "download_v3.yml.j2",
    ".github/actions/ciguard-upload/action.yml": "upload_v3.yml.j2",
}
OLD_ARTIFACT_VERSION: Final = 3  # generation of artifacts
MAX_STEPS: Final = 20  # each needs two steps of GitHub and an artifact


@dataclass(frozen=True, slots=True)
class Workflow:
    """The values of a repository's workflow.

    Attributes:
        install: requirement for pip; "" writes a step that fails with a message.
        setup: YAML list of steps that prepare the machine for the tests; "" for none.
        history: location of the history, as in `--history`.
        python: version for ciguard alone; the tests keep theirs.
        checkpoint: time during which a step starts tests, as in `--for`; "" for a single step.
        checkpoint_steps: maximum number of steps of a job; the last step runs to the end.
        artifacts: generation of GitHub's artifacts: 3 on an Enterprise Server, else 4.
        confirm_suspects: add jobs that run suspects of a pull request again on both commits.
        branch: the history is a branch of the repository, written by a job.
        service: a service stores the history: jobs identify themselves, and none writes it.
        claims: address of the service that gives jobs further tests during the run; "" for none.
    """

    default_branch: str
    install: str
    setup: str
    history: str
    python: str
    checkpoint: str = ""
    checkpoint_steps: int = 1
    artifacts: int = 4
    confirm_suspects: bool = False
    branch: bool = True
    service: bool = False
    claims: str = ""


@dataclass(frozen=True, slots=True)
class StarterSuite:
    """A suite of a new configuration; empty values are left out."""

    name: str
    framework: str = ""
    cwd: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


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


def render_workflow(workflow: Workflow, *, static: bool = False, forks: bool = False) -> str:
    """Render a workflow; raise UsageError if the set-up is not a list of steps.

    Args:
        static: without a plan job, for a matrix that `ciguard plan --static` fills in.
        forks: render the workflow that comments on pull requests from forks.
    """
    check_steps(workflow.setup)
    pins = {**ACTIONS, **LOCAL} if workflow.artifacts == OLD_ARTIFACT_VERSION else ACTIONS
    name = "forks" if forks else "workflow"
    text = (
        workflow_environment()
        .get_template(f"{name}.yml.j2")
        .render(
            asdict(workflow),
            setup=textwrap.dedent(workflow.setup).strip("\n"),
            static=static,
            pins=pins,
        )
    )
    return with_checksum(text)


def local_actions(workflow: Workflow) -> dict[str, str]:
    """Return the local actions that the workflow needs, by their path in the repository."""
    if workflow.artifacts != OLD_ARTIFACT_VERSION:
        return {}
    return {
        path: with_checksum(workflow_environment().get_template(name).render())
        for path, name in LOCAL_FILES.items()
    }


def time_text(time_s: float) -> str:
    """Format a time for `ciguard run --for`: "15m", "90s"."""
    minutes, seconds = divmod(time_s, 60)
    return f"{time_s:g}s" if seconds else f"{minutes:g}m"


def render_configuration(
    install: str,
    setup: str,
    suites: Sequence[StarterSuite],
    *,
    checkpoint: str = "",
    artifacts: int = 4,
    forks: bool = False,
    confirm: str | None = None,
    is_moved: bool = False,
) -> str:
    """Render the starting ciguard.toml.

    Args:
        is_moved: the tests run in an existing workflow, which is not generated from this file.
        confirm: command that prepares a fresh checkout for suspects; None for no confirmation.
    """
    templates = environment()
    templates.filters["quoted"] = quoted
    return templates.get_template("ciguard.toml.j2").render(
        install=install,
        setup=setup,
        suites={
            quoted(suite.name): {
                key: _value(value)
                for key, value in asdict(suite).items()
                if key != "name" and value
            }
            for suite in suites
        },
        checkpoint=checkpoint,
        artifacts=artifacts,
        forks=forks,
        confirm=confirm,
        is_moved=is_moved,
    )


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
    take: str = "",
) -> NewJobs:
    """Render the jobs that are added around a test job.

    Args:
        actions: as `OWNER/ciguard@COMMIT`.
        matrix: text of the job's matrix at column 0; "" for none.
        is_conditional: the test job may be skipped without a failure.
        take: axis that the plan removes from the matrix; "" for none.
    """
    template = workflow_environment().get_template("into.yml.j2")
    values = {"job": job, "suite": suite, "matrix": matrix, "is_conditional": is_conditional}
    values["take"] = take
    return NewJobs(
        *(
            template.render(
                values, part=part, pins=ACTIONS, use=lambda name: action_path(actions, name)
            )
            for part in ("plan", "report", "history")
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
