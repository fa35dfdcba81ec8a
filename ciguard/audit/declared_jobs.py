"""Jobs of workflow files, and the lookup of the declared job of a run's job by its name. Pure.

GitHub shows a job by its `name`, otherwise its id; the values of a matrix follow in parentheses
unless `name` uses them. The jobs of a called workflow follow the caller's name: `tests / unit
(linux)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ciguard.audit.rules.base import WorkflowFile
from ciguard.guard.diagnosis import DEFAULT_LIMIT_S
from ciguard.workflow.conditions import runs_after_skip
from ciguard.workflow.matrix import texts_of
from ciguard.workflow.yaml_values import get, jobs_of, steps_of, triggers_of

_MAX_DEPTH: Final = 4  # of workflows that call one another
_EXPRESSION: Final = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_SHARD_WORD: Final = re.compile(
    r"shards?|groups?|splits?|chunks?|parts?|partitions?|slices?|buckets?|containers|"
    r"shard_?(index|id|number)|filters?|tests?|suites?|modules?|packages?|(ci_)?node_index"
)


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """A job of a workflow file.

    Attributes:
        workflow: path of the file that starts the job.
        name: as in the file, with expressions.
        pattern: the names that GitHub shows for the job.
        limit_s: `timeout-minutes` in seconds; None if an expression computes it.
        divides_tests: the name of an axis of the matrix suggests that it divides tests.
        is_aggregation: the job needs other jobs, and runs although they failed.
        test_steps: the names that GitHub shows for the steps that run tests.
    """

    workflow: str
    name: str
    pattern: re.Pattern[str]
    limit_s: float | None = DEFAULT_LIMIT_S
    has_matrix: bool = False
    divides_tests: bool = False
    is_aggregation: bool = False
    test_steps: tuple[re.Pattern[str], ...] = ()


class DeclaredJobs:
    """Index of the jobs of workflow files, by the names that their runs show."""

    def __init__(self, workflows: Sequence[WorkflowFile]) -> None:
        files = {workflow.path: workflow for workflow in workflows}
        self._by_name: dict[tuple[str, str], DeclaredJob | None] = {}
        self._by_workflow = {
            path: sorted(
                _declared(file, files, path, _MAX_DEPTH),
                key=lambda job: -len(_EXPRESSION.sub("", job.name)),
            )
            for path, file in files.items()
        }

    def of_workflow(self, workflow: str) -> Sequence[DeclaredJob]:
        """Return all jobs that a workflow starts, also those of the workflows that it calls."""
        return self._by_workflow.get(workflow, ())

    def find(self, workflow: str, name: str) -> DeclaredJob | None:
        """Return the job that a run shows by this name; of several, that with the longest text."""
        key = workflow, name
        if key not in self._by_name:
            matching = (job for job in self.of_workflow(workflow) if job.pattern.fullmatch(name))
            self._by_name[key] = next(matching, None)
        return self._by_name[key]


def test_workflows(workflows: Sequence[WorkflowFile]) -> tuple[str, ...]:
    """Return the paths of workflows whose runs run tests, without those that are only called."""
    declared = DeclaredJobs(workflows)
    return tuple(
        workflow.path
        for workflow in workflows
        if triggers_of(workflow.content).keys() - {"workflow_call"}
        and any(job.test_steps for job in declared.of_workflow(workflow.path))
    )


def _declared(
    workflow: WorkflowFile, files: Mapping[str, WorkflowFile], path: str, depth: int
) -> Iterator[DeclaredJob]:
    steps = workflow.test_steps()
    for key, job in jobs_of(workflow.content).items():
        if not isinstance(job, dict):
            continue
        declared = _declared_job(path, str(key), job)
        called = job.get("uses")
        if not isinstance(called, str):
            numbers = {step.number for step in steps if step.job == str(key)}
            names = (_step_name(step) for number, step in steps_of(job) if number in numbers)
            yield replace(declared, test_steps=tuple(map(_pattern, names)))
        elif called.startswith("./") and called[2:] in files and depth:
            for inner in _declared(files[called[2:]], files, path, depth - 1):
                joined = re.compile(f"{declared.pattern.pattern} / {inner.pattern.pattern}")
                yield replace(inner, name=f"{declared.name} / {inner.name}", pattern=joined)
        else:
            any_inner = re.compile(f"{declared.pattern.pattern} / .+")
            yield replace(declared, pattern=any_inner, limit_s=None)


def _declared_job(path: str, key: str, job: Mapping[str, Any]) -> DeclaredJob:
    matrix = get(job.get("strategy"), "matrix")
    title = job.get("name")
    name = "".join(texts_of(title)) if isinstance(title, (str, int, float)) else key
    pattern = _pattern(name).pattern
    if matrix is not None and "matrix" not in "".join(_EXPRESSION.findall(name)):
        pattern += r"(?: \(.*\))?"
    condition = "".join(texts_of(job["if"])) if "if" in job else ""
    minutes = job.get("timeout-minutes")
    limit_s = DEFAULT_LIMIT_S if minutes is None else None
    if isinstance(minutes, (int, float)) and not isinstance(minutes, bool):
        limit_s = 60.0 * minutes
    return DeclaredJob(
        workflow=path,
        name=name,
        pattern=re.compile(pattern, re.DOTALL),
        limit_s=limit_s,
        has_matrix=matrix is not None,
        divides_tests=any(
            _SHARD_WORD.fullmatch(key.lower().replace("-", "_")) for key in _keys(matrix)
        ),
        is_aggregation="needs" in job and runs_after_skip(condition),
    )


def _pattern(name: str) -> re.Pattern[str]:
    """Return a pattern of the names that GitHub may show for a name with expressions."""
    return re.compile(".*".join(map(re.escape, _EXPRESSION.split(name))), re.DOTALL)


def _keys(matrix: Any) -> Iterator[str]:
    """Yield the names of the axes, and the keys below them and below `include`."""
    if isinstance(matrix, dict):
        for key, value in matrix.items():
            if key not in ("include", "exclude"):
                yield str(key)
            yield from _keys(value)
    elif isinstance(matrix, list):
        for value in matrix:
            yield from _keys(value)


def _step_name(step: Mapping[str, Any]) -> str:
    """Return a step's name as GitHub shows it: without one, the first line of the script."""
    name = step.get("name")
    if isinstance(name, str):
        return name
    lines = str(step.get("run", "")).strip().splitlines()
    return f"Run {lines[0] if lines else ''}"
