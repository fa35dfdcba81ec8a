"""The step of README's ladder that follows an audit: a command, or a job to add. Pure."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import textwrap
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import yaml

from ciguard.document import Listing, Paragraph, Section
from ciguard.errors import InputError
from ciguard.run.frameworks.registry import DEFAULT
from ciguard.workflow.artifacts import find_result_upload
from ciguard.workflow.check_names import has_matrix
from ciguard.workflow.movable_job import PLAN_JOB, read_job, reject_obstacles, reject_shell
from ciguard.workflow.rewrite import is_moved
from ciguard.workflow.test_commands import action_of, find_test_steps
from ciguard.workflow.yaml_values import jobs_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.rules.base import WorkflowFile
    from ciguard.audit.shard_filters import HandMatrix

Kind = Literal["check", "comment", "divide", "plan"]
_PURPOSES: Final[Mapping[Kind, str]] = {
    "check": "what the jobs of ciguard lack",
    "comment": "a comment on the results of each run, by this job in the workflow "
    "(docs/how-to/comment.md of ciguard has its inputs, such as the list of tests)",
    "divide": "a comment, by a job of eight lines (README of ciguard), or balanced jobs",
    "plan": "balanced jobs",
}
_OWN_COMMAND: Final = re.compile(r"\bciguard\s+(?:guard|report|history)\b")
_OWN_ACTION: Final = re.compile(r"(?:.*/ciguard|\$)/actions/\w+")
_COMMENT_ACTION: Final = re.compile(r"[\w-]+/ciguard")
_UPLOAD: Final = """\
- if: always()
  uses: actions/upload-artifact@v7
  with:
    name: results-${{ strategy.job-index }}
    path: the JUnit or TRX files that the tests write
"""
_COMMENT_JOB: Final = """\
  ciguard:
    needs: [JOB]
    if: always()
    runs-on: ubuntu-latest
    permissions: { actions: read, checks: read, contents: read, pull-requests: write }
    steps:
      - uses: ACTION
        with: { artifacts: true, results: RESULTS, needs: "${{ toJSON(needs) }}", expect: SHARDS }
"""


class NextStep(NamedTuple):
    """A command, or lines to add to a workflow.

    Attributes:
        problem: what has to change before, or "".
        fix: how to change it.
    """

    kind: Kind
    command: str = ""
    lines: str = ""
    problem: str = ""
    fix: str = ""


def after_workflows(files: Sequence[WorkflowFile]) -> NextStep:
    """Return the command that follows an audit of all workflows.

    It names a job if there is one test job, or one with a matrix, and the command can change it.
    """
    if any(_uses_ciguard(file.content) for file in files):
        return NextStep("check", "ciguard doctor")
    jobs = {
        (file.path, step.job): file
        for file in files
        for step in find_test_steps(file.content, file.tasks)
    }
    kind: Kind = "plan" if any(_commenting(file.content) for file in files) else "divide"
    with_matrix = [key for key in jobs if has_matrix(jobs_of(jobs[key].content)[key[1]])]
    candidates = with_matrix or list(jobs)
    if len(candidates) == 1:
        path, job = candidates[0]
        with contextlib.suppress(InputError):
            movable = read_job(jobs[candidates[0]].text, path, job, tasks=jobs[candidates[0]].tasks)
            reject_shell(movable)
            reject_obstacles(movable)
            # Another framework may need a configuration first.
            if all(command.framework == DEFAULT for command in movable.commands):
                return NextStep(kind, f"ciguard init --into {shlex.quote(path)} --job {job}")
    return NextStep(kind, "ciguard init")


def after_matrix(workflow: Any, path: str, matrix: HandMatrix, action: str) -> NextStep | None:
    """Return what follows an audit of a matrix; None if ciguard's jobs are there.

    Args:
        action: address of the root action, as `OWNER/ciguard@COMMIT`.
    """
    if _uses_ciguard(workflow):
        return None
    if commenting := _commenting(workflow):
        following = NextStep("plan", f"ciguard init --into {shlex.quote(path)} --job {matrix.job}")
        if PLAN_JOB not in commenting:
            return following
        problem = f"{path}: jobs.{PLAN_JOB} has the id of a job that init adds"
        fix = "remove that job: the jobs of init comment, too"
        return following._replace(problem=problem, fix=fix)
    where, problem, fix = f"{path}: jobs.{matrix.job}", "", ""
    upload = find_result_upload(jobs_of(workflow)[matrix.job])
    artifacts = {shard.artifact for shard in matrix.shards}
    if upload is None:
        problem = f"{where}: no step uploads test results"
        fix = f"upload its results in a step of the job:\n{_UPLOAD}"
        upload = find_result_upload({"steps": yaml.safe_load(_UPLOAD)})
    elif len(artifacts) < len(matrix.shards) or "" in artifacts:
        problem = f"{where}: the artifact has no name of its own in each shard: {upload.artifact}"
        fix = "name it after values of the matrix, or ${{ strategy.job-index }}"
    assert upload is not None
    values = {
        "JOB": str(matrix.job),  # YAML reads some ids as numbers
        "ACTION": action,
        "RESULTS": json.dumps("\n".join(upload.result_patterns)),
        "SHARDS": str(len(matrix.shards)),
    }
    lines = re.sub("|".join(values), lambda match: values[match[0]], _COMMENT_JOB)
    return NextStep("comment", lines=lines, problem=problem, fix=fix)


def _commenting(workflow: Any) -> list[str]:
    """Return the ids of the jobs that use the root action."""
    return [name for name, uses in _actions(workflow) if _COMMENT_ACTION.fullmatch(uses)]


def _actions(workflow: Any) -> Iterator[tuple[str, str]]:
    """Yield the id of the job and the action of each step that uses one."""
    for name, job in jobs_of(workflow).items():
        for _, step in steps_of(job):
            yield name, action_of(step)


def _uses_ciguard(workflow: Any) -> bool:
    """Return whether jobs plan or judge with ciguard; the job that comments does not count."""
    steps = [step for job in jobs_of(workflow).values() for _, step in steps_of(job)]
    return (
        is_moved(workflow)
        or any(_OWN_ACTION.fullmatch(uses) for _, uses in _actions(workflow))
        or any(_OWN_COMMAND.search(str(step.get("run", ""))) for step in steps)
    )


def as_section(following: NextStep) -> Section:
    """Return the step with its purpose, and before it what has to change."""
    fix, _, lines = following.fix.partition("\n")
    problem = f"Before: {following.problem}. Fix: {fix}" if following.problem else ""
    blocks = (
        Paragraph(problem),
        Listing(textwrap.dedent(lines), "yaml"),
        Paragraph(f"Next: {_PURPOSES[following.kind]}:"),
        Listing(following.command),
        Listing(following.lines, "yaml"),
    )
    return Section("next", blocks)
