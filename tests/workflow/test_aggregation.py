"""Workflows with an aggregation job, and whether it is green when the job that plans fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ciguard.init.workflow_files import Workflow, render_workflow
from ciguard.workflow.aggregation import find_aggregations, find_judging_jobs, find_undetected_skips
from ciguard.workflow.check_names import names_check
from ciguard.workflow.yaml_values import jobs_of, load

FILE = ".github/workflows/tests.yml"
GUIDE = Path(__file__).parent.parent.parent / "docs/how-to/into-your-workflow.md"
JOBS = """
on: push
jobs:
  ciguard:
    runs-on: ubuntu-latest
    steps:
      - uses: octo-org/ciguard/actions/plan@0123abc
  test:
    needs: ciguard
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: octo-org/ciguard/actions/run@0123abc
  lint:
    runs-on: ubuntu-latest
    steps: [{run: ruff check}]
  report:
    needs: [ciguard, test]
    if: always()
    runs-on: ubuntu-latest
    steps:
      - uses: octo-org/ciguard/actions/report@0123abc
  skipped-report:
    needs: test
    steps: [{uses: octo-org/ciguard/actions/report@0123abc}]
  coverage:
    needs: test
    steps: [{run: coverage combine}]
  unless-failure:
    needs: test
    if: '!failure()'
    uses: ./.github/workflows/matrix.yml
"""

FAILED = "contains(needs.*.result, 'failure')"
CANCELLED = "contains(needs.*.result, 'cancelled')"
EXIT = {"if": f"{FAILED} || {CANCELLED}", "run": "exit 1"}

# Needs, condition and steps of a job, and whether it is green when the job that plans fails.
SHAPES: dict[str, tuple[list[str] | str, str, list[Any], bool]] = {
    "a step that fails, as in moby": (
        ["lint", "test"],
        "${{ always() }}",
        [EXIT, {"name": "success", "run": 'echo "completed successfully"'}],
        True,
    ),
    "false or true, after a job that a failure stops, as in poetry": (
        ["lint", "unless-failure"],
        "always()",
        [{"run": "${{ (" + f"{FAILED} || {CANCELLED}" + ") && 'false' || 'true' }}"}],
        True,
    ),
    "condition of the job, as in pennylane": (
        ["test"],
        "${{\n  always() &&\n  !" + FAILED + " &&\n  !" + CANCELLED + "\n}}\n",
        [{"uses": "codecov/codecov-action@v5"}],
        True,
    ),
    "needs a job that needs the tests": ("coverage", "always()", [EXIT], True),
    "needs in a message": (
        ["test"],
        "always()",
        [{"uses": "slack/send@v2", "with": {"payload": "${{ toJSON(needs) }}"}}, EXIT],
        True,
    ),
    "needs a report that is skipped, too": (["test", "skipped-report"], "always()", [EXIT], True),
    "needs the planning job": (["ciguard", "test"], "always()", [EXIT], False),
    "needs the report": (["test", "report"], "always()", [EXIT], False),
    "looks for skipped": (
        ["test"],
        "always()",
        [{"if": f"{FAILED} || contains(needs.*.result, 'skipped')", "run": "exit 1"}],
        False,
    ),
    "demands success": (
        "test",
        "${{ !cancelled() }}",
        [
            {
                "if": "needs.test.result != 'success' || needs.test.result == 'failure'",
                "run": "false",
            }
        ],
        False,
    ),
    "demands success of the environment": (
        "test",
        "always()",
        [{"env": {"R": "${{ needs.test.result }}"}, "run": "test $R = success || echo failure"}],
        False,
    ),
    "alls-green": (
        ["lint", "test"],
        "always()",
        [{"uses": "re-actors/alls-green@v1", "with": {"jobs": "${{ toJSON(needs) }}"}}],
        False,
    ),
    "is skipped after a failure": ("test", "", [EXIT], False),
    "runs after success": ("test", "always() && needs.test.result == 'success'", [EXIT], False),
    "needs no test job": (["lint"], "always()", [EXIT], False),
    "decides by no result": ("test", "always()", [{"run": "echo ${{ needs.test.result }}"}], False),
    # Green, and in doubt: the search for words does not tell it from one that demands success.
    "accepts a skip": (
        ["test"],
        "always()",
        [EXIT, {"run": 'jq \'all(.result == "success" or .result == "skipped")\' needs.json'}],
        False,
    ),
}


def found_in(workflow: Any) -> list[tuple[str, str, bool, bool]]:
    """Job, planning job, whether that is needed already, and whether results are read by name."""
    found = find_undetected_skips(workflow, FILE)
    assert {one.file for one in found} <= {FILE}
    return [(one.job, one.planning_job, one.is_needed, one.reads_single_results) for one in found]


def with_gate(needs: list[str] | str, condition: str, steps: list[Any], jobs: str = JOBS) -> Any:
    workflow: Any = load(jobs, FILE)
    workflow["jobs"]["gate"] = {"needs": needs, "if": condition, "steps": steps}
    return workflow


@pytest.mark.parametrize("shape", SHAPES)
def test_job_that_is_green_after_a_failed_plan_is_found(shape: str) -> None:
    needs, condition, steps, is_found = SHAPES[shape]
    expected = [("gate", "ciguard", False, False)] if is_found else []
    assert found_in(with_gate(needs, condition, steps)) == expected


NO_AGGREGATION = {*("is skipped after a failure", "needs no test job", "decides by no result")}


@pytest.mark.parametrize("shape", SHAPES)
def test_job_that_decides_by_results_is_an_aggregation(shape: str) -> None:
    needs, condition, steps, is_green = SHAPES[shape]
    found = find_aggregations(with_gate(needs, condition, steps), "test")
    assert list(found) == ([] if shape in NO_AGGREGATION else ["gate"])
    assert found or not is_green


@pytest.mark.parametrize(
    ("needs", "result", "expected"),
    [
        (["test"], "needs.test.result", [("gate", "ciguard", False, True)]),
        (["ciguard", "test"], "needs['test'].result", [("gate", "ciguard", True, True)]),
        (["ciguard", "test"], "needs.test.result == needs.ciguard.result || needs.test.result", []),
    ],
)
def test_results_read_by_name_are_told_apart(needs: list[str], result: str, expected: Any) -> None:
    steps = [{"if": f"{result} == 'failure'", "run": "exit 1"}]
    assert found_in(with_gate(needs, "always()", steps)) == expected


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ("octo-org/ciguard/", "./", 1),
        ("octo-org/ciguard/actions/run", "octo-org/other/actions/run", 0),  # not ciguard's `plan`
        ("octo-org/ciguard/actions/plan", "octo-org/ciguard", 0),
        # It runs, and fails without a plan; with a look at the plan job's result it is skipped.
        ("needs: ciguard", "needs: ciguard\n    if: ${{ !cancelled() }}", 0),
        (
            "needs: ciguard",
            "needs: ciguard\n    if: always() && needs.ciguard.result == 'success'",
            1,
        ),
    ],
)
def test_jobs_that_plan_and_that_are_skipped(before: str, after: str, count: int) -> None:
    assert before in JOBS
    jobs = JOBS.replace(before, after)
    assert len(found_in(with_gate(["test"], "always()", [EXIT], jobs))) == count


def test_each_planning_job_is_a_finding() -> None:
    more = """
  plan-slow:
    steps: [{uses: octo-org/ciguard/actions/plan@0123abc}]
  slow:
    needs: plan-slow
    steps: [{uses: octo-org/ciguard/actions/run@0123abc}]
"""
    gate = with_gate(["ciguard", "test", "slow"], "always()", [EXIT], JOBS + more)
    assert found_in(gate) == [("gate", "plan-slow", False, False)]


def test_workflow_of_init() -> None:
    workflow = Workflow(
        default_branch="main",
        actions="octo-org/ciguard@0123abc",
        setup="",
        history="branch:ciguard-history",
        confirm_suspects=True,
        culprit_budget="20m",
    )
    text = render_workflow(workflow)
    assert found_in(load(text, FILE)) == []
    assert found_in(with_gate(["tests"], "always()", [EXIT], text)) == [
        ("gate", "plan", False, False)
    ]
    assert found_in(with_gate(["tests", "report"], "always()", [EXIT], text)) == []


SAMPLES = Path(__file__).parent.parent / "samples"
WORKFLOWS = {
    "guide": GUIDE.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0],
    **{
        path.parent.name: path.read_text("utf-8") for path in SAMPLES.glob("move_in/*/expected.yml")
    },
    **{
        f"init, service: {service}": render_workflow(
            Workflow("main", "o/ciguard@0123", "", "", service=service, claims="https://x")
        )
        for service in (False, True)
    },
}


@pytest.mark.parametrize("text", WORKFLOWS.values(), ids=WORKFLOWS)
def test_check_to_require_is_that_of_the_job_which_judges(text: str) -> None:
    """Its name stands in the documentation, in what `init` prints, and in what `doctor` advises."""
    workflow = load(text, FILE)
    owners = [name for name, job in jobs_of(workflow).items() if names_check(name, job, "ciguard")]
    assert owners == [find_judging_jobs(workflow)[0]]
    uses = [str(step.get("uses")) for step in workflow["jobs"][owners[0]]["steps"]]
    runs = [str(step.get("run")) for step in workflow["jobs"][owners[0]]["steps"]]
    assert any("/report@" in one for one in uses) or any(" report --plan" in one for one in runs)


def test_workflow_of_the_guide() -> None:
    text = GUIDE.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    assert found_in(load(text, FILE)) == []
    assert find_judging_jobs(load(text, FILE)) == ("ciguard-report", "all-green")
    changed = text.replace("needs: [ciguard, ciguard-report, test]", "needs: test")
    assert changed != text
    assert found_in(load(changed, FILE)) == [("all-green", "ciguard", False, False)]


@pytest.mark.parametrize(
    "value",
    [
        *(None, "text", 3, [], {}, {"jobs": None}, {"jobs": []}, {"jobs": {"a": None, 1: "b"}}),
        {"jobs": {"a": {"needs": {"b": 1}, "if": True, "steps": [None, {"uses": 1, "with": 2}]}}},
        {"jobs": {"a": {"needs": "b", "steps": {}}, "b": {"needs": ["a", None], "steps": "run"}}},
    ],
)
def test_value_that_is_no_workflow_has_no_findings(value: Any) -> None:
    assert find_undetected_skips(value, FILE) == ()
