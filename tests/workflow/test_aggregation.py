"""Workflows with an aggregation job, and whether it is green when the job that plans fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ciguard.init.workflow_files import Workflow, render_workflow
from ciguard.template_loader import environment
from ciguard.workflow.aggregation import UndetectedSkip, find_undetected_skips
from ciguard.workflow.yaml_values import load

FILE = ".github/workflows/tests.yml"
GUIDE = Path(__file__).parent.parent.parent / "docs/how-to/into-your-workflow.md"
JOBS = """
on: push
jobs:
  ciguard:
    runs-on: ubuntu-latest
    steps:
      - uses: octo-org/ciguard/plan@0123abc
  test:
    needs: ciguard
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: octo-org/ciguard/run@0123abc
  lint:
    runs-on: ubuntu-latest
    steps: [{run: ruff check}]
  report:
    needs: [ciguard, test]
    if: always()
    runs-on: ubuntu-latest
    steps:
      - uses: octo-org/ciguard/report@0123abc
"""

GREEN = {
    "failure or cancelled, of a list": """
  all-green:
    needs: [lint, test]
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')
        run: exit 1
""",
    "needs as text, expression in braces": """
  all-green:
    needs: test
    if: ${{ always() }}
    steps:
      - if: ${{ contains(needs.*.result, 'failure') }}
        run: exit 1
""",
    "not cancelled, quoted": """
  all-green:
    "needs":
      - "test"
      - 'lint'
    if: '!cancelled()'
    steps:
      - run: |
          results="${{ join(needs.*.result, ' ') }}"
          [[ $results != *failure* ]] || exit 1
""",
    "condition of several lines": """
  all-green:
    needs: [test]
    if: >-
      github.repository == 'octo-org/shop'
      && ( always( ) || github.event_name == 'push' )
    steps:
      - run: exit 1
        if: |
          contains(needs.*.result, 'failure')
          || contains(needs.*.result, 'cancelled')
""",
    "success or failure": """
  all-green:
    needs: [test]
    if: success() || failure()
    steps:
      - run: test "${{ contains(needs.*.result, 'failure') }}" = false
""",
    "condition of the job": """
  all-green:
    needs: [test]
    if: always() && contains(needs.*.result, 'failure')
    steps:
      - run: exit 1
""",
    "deployment that a failure stops": """
  deploy:
    needs: [test]
    if: ${{ !cancelled() && !contains(needs.*.result, 'failure') }}
    steps:
      - run: ./deploy
""",
    "skipped as well, unless a needed job failed": """
  all-green:
    needs: [test]
    if: ${{ cancelled() || contains(needs.*.result, 'failure') }}
    steps:
      - run: exit 1
""",
    "needs a job that runs unless one failed": """
  matrix:
    needs: test
    if: '!failure()'
    uses: ./.github/workflows/matrix.yml
  all-green:
    needs: [lint, matrix]
    if: always()
    steps:
      - run: ${{ (contains(needs.*.result, 'failure')) && 'false' || 'true' }}
""",
    "result by an output of a step": """
  all-green:
    needs: [test]
    if: always()
    steps:
      - id: status
        run: |
          status="success"
          if [ "${{ contains(needs.*.result, 'failure') }}" = true ]; then status=failure; fi
          echo "status=success" >> "$GITHUB_OUTPUT"
          echo "status=$status" >> "$GITHUB_OUTPUT"
      - if: steps.status.outputs.status == 'failure'
        run: exit 1
""",
    "success in words that decide nothing": """
  all-green:
    needs: [test]
    if: always()
    steps:
      # success
      - run: |
          # success
          echo "success"
          if [ "${{ contains(needs.*.result, 'failure') }}" = true ]; then exit 1; fi
      - if: ${{ !contains(needs.*.result, 'failure') && needs.test.result == 'success' }}
        run: echo "All green"
      - if: success()
        run: ./celebrate
""",
    "skipped is accepted": """
  all-green:
    needs: [test]
    if: always()
    env:
      RESULTS: ${{ join(needs.*.result, ' ') }}
    steps:
      - run: |
          for result in $RESULTS; do
            if [ "$result" != success ] && [ "$result" != skipped ]; then exit 1; fi
          done
""",
    "alls-green that allows the skip": """
  all-green:
    needs: [lint, test]
    if: always()
    steps:
      - uses: re-actors/alls-green@release/v1
        with:
          allowed-skips: lint, test
          jobs: ${{ toJSON(needs) }}
""",
    "another job's skip": """
  all-green:
    needs: [lint, test]
    if: always()
    steps:
      - if: needs.lint.result != 'success'
        run: exit 1
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "needs in a message": """
  all-green:
    needs: [test]
    if: always()
    steps:
      - uses: slackapi/slack-github-action@v2
        with:
          payload: '{"text": ${{ toJSON(needs) }}}'
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "needs a job that needs the tests": """
  coverage:
    needs: test
    steps: [{run: coverage combine}]
  all-green:
    needs: coverage
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "ids in another case": """
  all-green:
    needs: [Test]
    if: Always() || failure()
    steps:
      - if: contains(Needs.*.result, 'Failure')
        run: exit 1
""",
}

# The results are read by name: needs alone would change nothing.
GREEN_BY_NAME = {
    "not needed": """
  all-green:
    needs: [test]
    if: always()
    steps:
      - if: needs.test.result == 'failure' || needs['test'].result == 'cancelled'
        run: exit 1
""",
    "needed, and its result not read": """
  all-green:
    needs: [ciguard, test]
    if: always()
    steps:
      - if: needs.test.result == 'failure'
        run: exit 1
""",
}

SAFE = {
    "needs the planning job": """
  all-green:
    needs: [ciguard, test]
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'cancelled')
        run: exit 1
""",
    "needs the report": """
  all-green:
    needs: [test, report]
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "reads the planning job by name": """
  all-green:
    needs: [ciguard, test]
    if: always()
    steps:
      - if: needs.ciguard.result == 'failure' || needs.test.result == 'failure'
        run: exit 1
""",
    "skipped": """
  all-green:
    needs: [test]
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure') || contains(needs.*.result, 'skipped')
        run: exit 1
""",
    "another than success": """
  all-green:
    needs: test
    if: ${{ !cancelled() }}
    steps:
      - if: needs.test.result != 'success' || needs.test.result == 'failure'
        run: exit 1
""",
    "alls-green": """
  all-green:
    needs: [lint, test]
    if: always()
    steps:
      - uses: re-actors/alls-green@release/v1
        with:
          allowed-skips: lint
          jobs: ${{ toJSON(needs) }}
""",
    "jq": """
  all-green:
    needs: [lint, test]
    if: always()
    steps:
      - env:
          NEEDS: ${{ toJson(needs) }}
          TITLE: failure or cancelled?
        run: |
          echo "$NEEDS" | jq -e 'all(.[]; .result == "success")'
""",
    "script of an action": """
  all-green:
    needs: [test]
    if: always()
    steps:
      - uses: actions/github-script@v7
        env:
          NEEDS: ${{ toJSON(needs) }}
        with:
          script: |
            const needs = Object.values(JSON.parse(process.env.NEEDS))
            if (needs.some(need => need.result !== 'success')) core.setFailed('failure')
""",
    "result in the environment of the job": """
  all-green:
    needs: [test]
    if: always()
    env:
      RESULT: ${{ needs.test.result }}
    steps:
      - run: test "$RESULT" = success || { echo "failure"; exit 1; }
""",
    "without always it is skipped": """
  publish:
    needs: [test]
    steps:
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "runs after a failure only": """
  notify:
    needs: [test]
    if: failure()
    steps:
      - run: ./notify "${{ contains(needs.*.result, 'failure') }}"
""",
    "deployment unless a job failed": """
  deploy:
    needs: [test]
    if: "!cancelled() && !failure() && !contains(needs.*.result, 'failure')"
    steps:
      - run: ./deploy
""",
    "deployment after success": """
  deploy:
    needs: [test]
    if: always() && needs.test.result == 'success' && !contains(needs.*.result, 'failure')
    steps:
      - run: ./deploy
""",
    "no test job needed": """
  all-green:
    needs: [lint]
    if: always()
    steps:
      - if: contains(needs.*.result, 'failure')
        run: exit 1
""",
    "decides by no result": """
  coverage:
    needs: [test]
    if: always()
    steps:
      - uses: codecov/codecov-action@v5
      - run: echo "${{ needs.test.result }}"
""",
}


def found_in(text: str) -> list[tuple[str, str, bool, bool]]:
    """Job, planning job, whether that is needed already, and whether results are read by name."""
    found = find_undetected_skips(load(text, FILE), FILE)
    assert {one.file for one in found} <= {FILE}
    return [(one.job, one.planning_job, one.is_needed, one.reads_single_results) for one in found]


@pytest.mark.parametrize("name", GREEN)
def test_job_that_is_green_after_a_failed_plan_is_found(name: str) -> None:
    job = "deploy" if name.startswith("deployment") else "all-green"
    assert found_in(JOBS + GREEN[name]) == [(job, "ciguard", False, False)]


@pytest.mark.parametrize("name", GREEN_BY_NAME)
def test_results_read_by_name_are_told_apart(name: str) -> None:
    is_needed = name.startswith("needed")
    assert found_in(JOBS + GREEN_BY_NAME[name]) == [("all-green", "ciguard", is_needed, True)]


@pytest.mark.parametrize("name", SAFE)
def test_other_jobs_are_not_found(name: str) -> None:
    assert found_in(JOBS + SAFE[name]) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("octo-org/ciguard/run@0123abc", "octo-org/other/run@0123abc"),  # not ciguard's `plan`
        ("octo-org/ciguard/plan@0123abc", "octo-org/ciguard@0123abc"),
    ],
)
def test_workflow_without_the_actions_has_no_findings(before: str, after: str) -> None:
    assert before in JOBS
    assert found_in(JOBS.replace(before, after) + GREEN["condition of the job"]) == []


def test_actions_of_the_checkout_are_found() -> None:
    jobs = JOBS.replace("octo-org/ciguard/", "./").replace("@0123abc", "")
    assert len(found_in(jobs + GREEN["condition of the job"])) == 1


def test_report_that_is_skipped_too_does_not_help() -> None:
    jobs = JOBS.replace("    if: always()\n", "")
    assert len(found_in(jobs + SAFE["needs the report"])) == 1


def test_test_job_that_runs_only_after_a_planned_matrix_is_skipped() -> None:
    condition = "needs: ciguard\n    if: ${{ !cancelled() && needs.ciguard.result == 'success' }}"
    jobs = JOBS.replace("needs: ciguard", condition)
    assert len(found_in(jobs + GREEN["condition of the job"])) == 1
    jobs = jobs.replace(" && needs.ciguard.result == 'success'", "")  # it runs, and is red
    assert found_in(jobs + GREEN["condition of the job"]) == []


def test_each_planning_job_is_a_finding() -> None:
    more = """
  plan-slow:
    steps: [{uses: octo-org/ciguard/plan@0123abc}]
  slow:
    needs: plan-slow
    steps: [{uses: octo-org/ciguard/run@0123abc}]
  all-green:
    needs: [ciguard, test, slow]
    if: always()
    steps: [{if: "contains(needs.*.result, 'failure')", run: exit 1}]
"""
    assert found_in(JOBS + more) == [("all-green", "plan-slow", False, False)]


@pytest.mark.parametrize("static", [False, True])
def test_workflow_of_init(static: bool) -> None:
    workflow = Workflow(
        default_branch="main",
        install="ciguard-shards @ git+https://git.example/o/ciguard@0123abc",
        setup="",
        history="branch:ciguard-history",
        python="3.13",
        confirm_suspects=True,
    )
    text = render_workflow(workflow, environment(), static=static)
    assert found_in(text) == []
    gate = """
  gate:
    needs: [legs]
    if: always()
    steps: [{if: "contains(needs.*.result, 'failure')", run: exit 1}]
"""
    assert found_in(text + gate) == ([] if static else [("gate", "plan", False, False)])
    assert found_in(text + gate.replace("[legs]", "[legs, report]")) == []


def test_workflow_of_the_guide() -> None:
    text = GUIDE.read_text("utf-8").partition("```yaml\n")[2].partition("```")[0]
    assert found_in(text) == []
    changed = text.replace("needs: [ciguard, test, report]", "needs: test")
    assert changed != text
    assert found_in(changed) == [("all-green", "ciguard", False, False)]


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


def test_finding_names_ids_as_the_file_spells_them() -> None:
    text = (JOBS + GREEN["needs as text, expression in braces"]).replace("ciguard:", "Plan:")
    text = text.replace("needs: ciguard", "needs: plan")
    (found,) = find_undetected_skips(load(text, FILE), FILE)
    assert found == UndetectedSkip(
        FILE, "all-green", "Plan", is_needed=False, reads_single_results=False
    )
