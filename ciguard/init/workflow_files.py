"""The files that `ciguard init` writes: their values, and how they become text.

Pure: values in, text out. What a step may hold is GitHub's, not ours: set-up steps stay verbatim.
"""

from __future__ import annotations

import json
import math
import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal

import yaml

from ciguard.errors import UsageError
from ciguard.init.checksum import with_checksum
from ciguard.workflow.guard_job import TESTS_FILE
from ciguard.workflow.rewrite import NewJobs, action_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from ciguard.workflow.guard_job import GuardedJob, NextStep

# The actions that a generated workflow uses, pinned by commit: a tag can move, a commit cannot.
# Read from the tags of the actions' repositories, 2026-11.
ACTIONS: Final = {
    "checkout": "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1",
    "download_artifact": (
        "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"
    ),
    "setup_go": "actions/setup-go@b7ad1dad31e06c5925ef5d2fc7ad053ef454303e # v7.0.0",
    "setup_node": "actions/setup-node@820762786026740c76f36085b0efc47a31fe5020 # v7.0.0",
    "setup_python": "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0",
    "setup_uv": "astral-sh/setup-uv@20cfd1bf945f4377ade1205e4dbc17946fc9a30d # v10.0.1",
    "upload_artifact": "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
}
# On a GitHub Enterprise Server, which has artifacts of generation 3 only: actions in the repository
# around that server's own, of which only it knows the commits.
LOCAL: Final = {
    "download_artifact": "./.github/actions/ciguard-download",
    "upload_artifact": "./.github/actions/ciguard-upload",
}
LOCAL_FILES: Final = {
    ".github/actions/ciguard-download/action.yml": "download_v3.yml.j2",
    ".github/actions/ciguard-upload/action.yml": "upload_v3.yml.j2",
}
OLD_ARTIFACT_VERSION: Final = 3  # generation of artifacts
SCIPY: Final = "scipy>=1.14"  # the extra `experiment`, which no address of ours can name
MAX_STEPS: Final = 20  # each is two steps and an artifact


@dataclass(frozen=True, slots=True)
class Workflow:
    """What differs from one repository's workflow to another's.

    Attributes:
        install: what pip is told to install; "" writes a step that fails and says so.
        setup: YAML list of steps that prepare the machine for the tests; "" for none.
        history: where the history lies, as `--history` takes it.
        python: version for ciguard alone; the tests keep theirs.
        checkpoint: how long a step begins tests, as `--for` takes it; "" for one step to the end.
        checkpoint_steps: the most steps of a leg, the last of which runs to the end.
        artifacts: generation of GitHub's artifacts: 3 on an Enterprise Server, else 4.
        confirm_suspects: jobs that run suspects of a pull request again on both commits.
        branch: the history is a branch of the repository, which its job writes.
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


@dataclass(frozen=True, slots=True)
class StarterSuite:
    """A suite of a new configuration; empty values are left out."""

    name: str
    cwd: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()


def count_checkpoint_steps(checkpoint_s: float, limit_s: float) -> int:
    """How many steps of that length a limit has room for, the last one to its end.

    Raises:
        UsageError: fewer than two, or more than a workflow should have.
    """
    parts = math.ceil(limit_s / checkpoint_s)
    if 1 < parts <= MAX_STEPS:
        return parts
    where = f"a checkpoint every {checkpoint_s:g} s, with plan.limit = {limit_s:g} s"
    least_s = math.ceil(limit_s / MAX_STEPS)
    what = "no step would end there" if parts == 1 else f"{parts} steps in a job"
    fix = f"take at least {least_s} s and less than {limit_s:g} s"
    raise UsageError(what, where=where, fix=fix)


def render_workflow(
    workflow: Workflow, templates: Environment, *, static: bool = False, forks: bool = False
) -> str:
    """Render a workflow; raise UsageError where the set-up is not a list of steps.

    Args:
        static: without a plan job, for a matrix that `ciguard plan --static` fills in.
        forks: the one that tells of the runs of forks, beside the other.
    """
    check_steps(workflow.setup)
    environment = _for_actions(templates)
    environment.filters["quoted"] = quoted
    pins = {**ACTIONS, **LOCAL} if workflow.artifacts == OLD_ARTIFACT_VERSION else ACTIONS
    name = "forks" if forks else "static" if static else "workflow"
    text = environment.get_template(f"{name}.yml.j2").render(
        asdict(workflow),
        setup=textwrap.dedent(workflow.setup).strip("\n"),
        static=static,
        scipy=SCIPY,
        pins=pins,
    )
    return with_checksum(text)


def local_actions(workflow: Workflow, templates: Environment) -> dict[str, str]:
    """The actions that the workflow needs in its own repository, by their path there."""
    if workflow.artifacts != OLD_ARTIFACT_VERSION:
        return {}
    environment = _for_actions(templates)
    return {
        path: with_checksum(environment.get_template(name).render())
        for path, name in LOCAL_FILES.items()
    }


def _for_actions(templates: Environment) -> Environment:
    # ${{ }} belongs to GitHub in this file, so Jinja gets other delimiters.
    return templates.overlay(
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=False,  # the template's macros open with the line break they need
        lstrip_blocks=False,
    )


def time_text(time_s: float) -> str:
    """ "15m", "90s": as `ciguard run --for` takes it."""
    minutes, rest_s = divmod(time_s, 60)
    return f"{time_s:g}s" if rest_s else f"{minutes:g}m"


def render_configuration(
    install: str,
    setup: str,
    suites: Sequence[StarterSuite],
    templates: Environment,
    *,
    checkpoint: str = "",
    artifacts: int = 4,
    forks: bool = False,
    confirm: str | None = None,
    is_moved: bool = False,
) -> str:
    """Render the starting ciguard.toml.

    Args:
        is_moved: the tests run in a workflow of the user's own, which is not made from this file.
        confirm: what makes a fresh checkout ready, where suspects are to be run again.
    """
    environment = templates.overlay()
    environment.filters["quoted"] = quoted
    return environment.get_template("ciguard.toml.j2").render(
        install=install,
        setup=setup,
        suites={
            quoted(one.name): {
                key: quoted(value) for key, value in asdict(one).items() if key != "name" and value
            }
            for one in suites
        },
        checkpoint=checkpoint,
        artifacts=artifacts,
        forks=forks,
        confirm=confirm,
        is_moved=is_moved,
    )


def render_new_jobs(
    actions: str,
    job: str,
    suite: str,
    matrix: str,
    templates: Environment,
    *,
    is_conditional: bool,
    take: str = "",
) -> NewJobs:
    """Render the jobs that are added around a test job.

    Args:
        actions: as `OWNER/ciguard@COMMIT`.
        matrix: text of its matrix at column 0; "" for none.
        is_conditional: the test job may be skipped although nothing failed.
        take: axis that is no axis of the plan; "" for none.
    """
    environment = _for_actions(templates)
    environment.filters["quoted"] = quoted
    template = environment.get_template("into.yml.j2")
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


def render_guard_job(
    part: NextStep | Literal["listing"],
    actions: str,
    job: GuardedJob,
    templates: Environment,
    listing: str = "",
) -> str:
    """Render a job that reads the results of a test job, "guard" or "history", or "listing": the
    steps of the test job that list the tests by a command.
    """
    environment = _for_actions(templates)
    environment.filters["quoted"] = quoted
    tests = job.tests
    return environment.get_template("guard.yml.j2").render(
        part=part,
        job=job.name,
        target=f"{job.where}:{job.name}",
        listing=listing,
        tests=TESTS_FILE,
        path=f"{tests.folder}/{TESTS_FILE}" if tests.folder else TESTS_FILE,
        folder=tests.folder,
        shell=tests.shell,
        env=tests.env,
        is_conditional=job.is_conditional,
        patterns=job.upload.result_patterns,
        pins=ACTIONS,
        use=lambda name: action_path(actions, name),
    )


def quoted(value: str | Sequence[str]) -> str:
    """Quote for YAML and TOML: every JSON string without surrogate escapes is one of theirs."""
    return json.dumps(value, ensure_ascii=False)


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
        found = type(steps).__name__
        raise UsageError(f"expected a list of steps, found {found}", where=where, fix=fix)
