"""The files that `ciguard init` writes: their values, and how they become text.

Pure: values in, text out. What a step may hold is GitHub's, not ours: set-up steps stay verbatim.
The first line of a file is the SHA-256 of the rest, so that an edit is recognised. Line ends (a
checkout with autocrlf), newlines at the end of the file and the matrix that `ciguard plan --static`
fills in are no edits. The version in the line does not count either.
"""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

import yaml

from ciguard import __version__
from ciguard.errors import UsageError
from ciguard.plan.outputs import without_matrix
from ciguard.render.templates import environment
from ciguard.workflow.job_templates import ACTIONS, quoted, workflow_environment
from ciguard.workflow.rewrite import NewJobs, action_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
MAX_STEPS: Final = 20  # each is two steps and an artifact

_FIRST_LINE: Final = re.compile(r"# ciguard init \S+, sha256 ([0-9a-f]{64}):.*\n")


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
        service: a service keeps the history: jobs show it who they are, and none writes it.
        claims: address of the service that jobs ask for tests during the run; "" for none.
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


def render_workflow(workflow: Workflow, *, static: bool = False, forks: bool = False) -> str:
    """Render a workflow; raise UsageError where the set-up is not a list of steps.

    Args:
        static: without a plan job, for a matrix that `ciguard plan --static` fills in.
        forks: the one that tells of the runs of forks, beside the other.
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
    """The actions that the workflow needs in its own repository, by their path there."""
    if workflow.artifacts != OLD_ARTIFACT_VERSION:
        return {}
    return {
        path: with_checksum(workflow_environment().get_template(name).render())
        for path, name in LOCAL_FILES.items()
    }


def time_text(time_s: float) -> str:
    """ "15m", "90s": as `ciguard run --for` takes it."""
    minutes, rest_s = divmod(time_s, 60)
    return f"{time_s:g}s" if rest_s else f"{minutes:g}m"


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
        is_moved: the tests run in a workflow of the user's own, which is not made from this file.
        confirm: what makes a fresh checkout ready, where suspects are to be run again.
    """
    templates = environment()
    templates.filters["quoted"] = quoted
    return templates.get_template("ciguard.toml.j2").render(
        install=install,
        setup=setup,
        suites={
            quoted(one.name): {
                key: _value(value) for key, value in asdict(one).items() if key != "name" and value
            }
            for one in suites
        },
        checkpoint=checkpoint,
        artifacts=artifacts,
        forks=forks,
        confirm=confirm,
        is_moved=is_moved,
    )


def _value(value: str | tuple[str, ...] | Mapping[str, str]) -> str:
    """As TOML has it; the names of a table are those of variables."""
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
        matrix: text of its matrix at column 0; "" for none.
        is_conditional: the test job may be skipped although nothing failed.
        take: axis that is no axis of the plan; "" for none.
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
        found = type(steps).__name__
        raise UsageError(f"expected a list of steps, found {found}", where=where, fix=fix)


def with_checksum(text: str) -> str:
    """The text below its first line."""
    return (
        f"# ciguard init {__version__}, sha256 {_sha256(text)}: "
        f"change ciguard.toml and run init again\n{text}"
    )


def is_generated(text: str) -> bool:
    """Return whether the text has such a first line, whatever was edited below."""
    return _FIRST_LINE.match(_normalise(text)) is not None


def is_unedited(text: str) -> bool:
    """Return whether the text has such a first line, and the rest matches it."""
    found = _FIRST_LINE.match(_normalise(text))
    return found is not None and found[1] == _sha256(rest_of(text))


def rest_of(text: str) -> str:
    """The normalised text below the first line; the whole text if it has no such line."""
    text = _normalise(text)
    found = _FIRST_LINE.match(text)
    return _normalise(text[found.end() :]) if found else text


def has_same_rest(text: str, other: str) -> bool:
    """Return whether two texts differ in their first line and their matrix at most."""
    return without_matrix(rest_of(text)) == without_matrix(rest_of(other))


def _sha256(text: str) -> str:
    return hashlib.sha256(without_matrix(_normalise(text)).encode()).hexdigest()


def _normalise(text: str) -> str:
    # Idempotent: what was normalised is hashed again.
    return re.sub(r"\r+\n", "\n", text).rstrip("\r\n") + "\n"
