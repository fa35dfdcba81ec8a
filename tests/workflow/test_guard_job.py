"""A job that judges the results of a matrix as it is: what is found, what is added, what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from workflow.generated_workflows import generate

from ciguard.workflow.guard_job import (
    CommandStep,
    GuardedJob,
    ResultUpload,
    add_jobs,
    find_result_upload,
    next_step,
    read_guarded_job,
)
from ciguard.workflow.movable_job import NotMovable
from ciguard.workflow.yaml_values import load

if TYPE_CHECKING:
    from collections.abc import Mapping

UPLOAD = "actions/upload-artifact@v7"
GUARD = """\
ciguard-report:
  runs-on: ubuntu-latest
  steps:
    - uses: octo-org/ciguard/actions/report@0123
"""
LISTING = f"""\
- if: strategy.job-index == 0
  run: "./list > ciguard-tests.txt"
- uses: {UPLOAD}
  with:
    name: ciguard-tests
"""


def job(*uploads: Mapping[str, object], condition: str | None = None) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"run": "pytest"}]
    for inputs in uploads:
        steps.append({"uses": UPLOAD, "with": dict(inputs)})
        if condition is not None:
            steps[-1]["if"] = condition
    return {"strategy": {"matrix": {"part": ["a", "b"]}}, "steps": steps}


@pytest.mark.parametrize(
    ("name", "path", "patterns"),
    [
        ("r-${{ matrix.part }}", "out/junit.xml", ("r-*/**/junit.xml",)),
        ("r-${{ matrix.part }}", "**/*.trx", ("r-*/**/*.trx",)),
        ("r", "TestResults/", ("r/**/*.trx", "r/**/*.xml")),
        ("r", "out/junit-${{ matrix.part }}.xml", ("r/**/junit-*.xml",)),
        ("r", "coverage.xml\nout/junit.xml\n!out/old.xml", ("r/**/junit.xml",)),
        (
            "test-results-${{ matrix.part }}",
            "out",
            ("test-results-*/**/*.trx", "test-results-*/**/*.xml"),
        ),
        (
            "r ${{ matrix.os }}-${{ matrix.part }}${{ strategy.job-index }}",
            "junit.xml",
            ("r *-*/**/junit.xml",),
        ),
    ],
)
def test_step_that_uploads_results_is_found_by_path_or_name(
    name: str, path: str, patterns: tuple[str, ...]
) -> None:
    found = find_result_upload(job({"name": "logs", "path": "*.log"}, {"name": name, "path": path}))
    assert found is not None
    assert (found.step, found.artifact) == (3, name)
    assert found.result_patterns == patterns


@pytest.mark.parametrize(
    "inputs",
    [
        {"name": "logs", "path": "*.log"},
        {"name": "coverage", "path": "coverage.xml"},
        {"name": "coverage-results", "path": "out/cobertura.xml"},
        {"name": "x"},
    ],
)
def test_other_artifacts_are_no_results(inputs: Mapping[str, object]) -> None:
    assert find_result_upload(job(inputs)) is None


@pytest.mark.parametrize(
    ("steps", "defaults", "expected"),
    [
        ([{"run": "pip install ."}, {"run": "pytest"}], {}, CommandStep(2, "pytest")),
        ([{"run": "pip install ."}, {"run": "./all"}], {}, CommandStep(2)),
        (
            [{"run": "dotnet test", "working-directory": "src/", "env": {"A": 1, "B": True}}],
            {},
            CommandStep(1, "dotnet test", "src", env={"A": "1", "B": "true"}),
        ),
        (
            [{"run": "go test", "shell": "bash"}],
            {"run": {"working-directory": "shop", "shell": "sh"}},
            CommandStep(1, "go test", "shop", "bash"),
        ),
    ],
)
def test_step_that_runs_the_tests_is_found(
    steps: list[dict[str, Any]], defaults: dict[str, Any], expected: CommandStep
) -> None:
    uploads = {"name": "r-${{ matrix.part }}", "path": "junit.xml"}
    value = job(uploads)
    value["steps"][:1] = steps
    workflow = {"defaults": defaults, "jobs": {"test": value}}
    assert read_guarded_job(workflow, "test", "ci.yml").tests == expected


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (job(), "ci.yml: jobs.test: no step uploads test results"),
        (
            job({"name": "results", "path": "junit.xml"}),
            "ci.yml: jobs.test.steps[2]: the artifacts of all shards have one name: results",
        ),
        (
            job({"name": "r-${{ matrix.part }}", "path": "junit.xml"}, condition="failure()"),
            "ci.yml: jobs.test.steps[2]: results are not uploaded in every case: if: failure()",
        ),
        (
            job({"name": "r-${{ matrix.part }}-${{ github.sha }}", "path": "junit.xml"}),
            "ci.yml: jobs.test.steps[2]: the matrix alone does not make a name of each shard",
        ),
        (
            {
                **job(),
                "steps": job({"name": "${{ matrix.part }}", "path": "junit.xml"})["steps"][1:],
            },
            "ci.yml: jobs.test: no step before the upload of its results runs a command",
        ),
    ],
)
def test_job_whose_results_cannot_be_judged_is_refused(
    changed: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NotMovable) as raised:
        read_guarded_job({"jobs": {"test": changed}}, "test", "ci.yml")
    assert str(raised.value).startswith(problem)
    assert raised.value.fix


@pytest.mark.parametrize("condition", ["always()", "${{ !cancelled() }}", "success() || failure()"])
def test_condition_that_holds_after_a_failure_is_enough(condition: str) -> None:
    uploads = {"name": "r-${{ matrix.part }}", "path": "junit.xml"}
    workflow = {"jobs": {"test": job(uploads, condition=condition)}}
    assert read_guarded_job(workflow, "test", "ci.yml").upload.step == 2


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"run": "pytest"}, "guard"),
        ({"run": "ciguard guard --plan p.json"}, "history"),
        ({"uses": "octo-org/ciguard/actions/report@0123"}, "history"),
        ({"uses": "$/actions/history"}, "plan"),
        ({"run": "pipx run ciguard history add results"}, "plan"),
        ({"uses": "octo-org/other/actions/report@0123"}, "guard"),
    ],
)
def test_next_step_is_the_first_that_is_not_there(step: dict[str, str], expected: str) -> None:
    assert next_step({"jobs": {"test": {"steps": [step]}}}) == expected


def test_moved_workflow_has_no_next_step() -> None:
    plan = {"uses": "octo-org/ciguard/actions/plan@0123"}
    assert next_step({"jobs": {"ciguard": {"steps": [plan]}}}) == "none"


@pytest.mark.parametrize("seed", range(25))
def test_nothing_else_changes_in_any_workflow(seed: int) -> None:
    made = generate(seed)
    end = "" if made.has_final_break else made.line_break
    before = f"{made.text}{end}"
    workflow = load(before, "ci.yml")
    number = next(
        at for at, one in enumerate(workflow["jobs"]["test"]["steps"], 1) if isinstance(one, dict)
    )
    upload = ResultUpload(number, "r-${{ matrix.x }}", ("junit.xml",))
    guarded = GuardedJob("ci.yml", "test", CommandStep(number), upload, False)
    after = add_jobs(before, guarded, {"ciguard-report": GUARD}, LISTING)
    workflow["jobs"]["test"]["steps"][number - 1].setdefault("if", "always()")
    workflow["jobs"]["test"]["steps"][number - 1 : number - 1] = yaml.safe_load(LISTING)
    workflow["jobs"] |= yaml.safe_load(GUARD)
    assert load(after, "ci.yml") == workflow
    changed = {*before.splitlines()} - {*after.splitlines()}
    assert len(changed) <= 1  # the dash of the step stands before `if` now


def test_job_of_that_name_is_refused() -> None:
    text = f"jobs:\n  test:\n    steps:\n      - uses: {UPLOAD}\n"
    guarded = GuardedJob("ci.yml", "test", CommandStep(1), ResultUpload(1, "r", ()), False)
    with pytest.raises(NotMovable, match="there is a job test already"):
        add_jobs(text, guarded, {"test": GUARD})
