"""Conditions of jobs: what the file tells, and what only a run can."""

from __future__ import annotations

import pytest

from ciguard.workflow.conditions import (
    are_opposite,
    evaluate,
    runs_after_failure,
    runs_after_skip,
    runs_on_push,
)
from ciguard.workflow.yaml_values import load

PULL = "github.event_name == 'pull_request'"
OUTPUT = "needs.changes.outputs.code == 'true'"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("", True),
        ("'Linux' == 'linux' && '1' != 2", True),
        ("'a' != 'a'", False),
        ("true", True),
        ("False", False),
        ("${{ always() }}", True),
        ("!cancelled()", True),
        ("failure()", False),
        (PULL, True),
        ("github.event_name != 'schedule'", True),
        ("github.event_name == 'push'", False),
        ("!(github.event_name == 'push')", True),
        ("github.repository == 'octo-org/octo'", True),
        ("vars.RUN_TESTS == 'yes'", True),
        ("!github.event.pull_request.draft", True),
        ("github.event.pull_request.draft == false", True),
        (OUTPUT, None),
        (f"{PULL} && {OUTPUT}", None),
        (f"{PULL} || {OUTPUT}", True),
        (f"{OUTPUT} && github.event_name == 'push'", False),
        (f"({OUTPUT} || {PULL}) && !failure()", True),
        ("contains(github.event.head_commit.message, 'a && b || c')", None),
        ("contains(github.event.pull_request.labels.*.name, 'x')", None),
        ("(", None),
    ],
)
def test_evaluates_what_is_known_of_a_pull_request(condition: str, expected: bool | None) -> None:
    assert evaluate(condition, "pull_request") is expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("! matrix.cov", "${{ matrix.cov }}", True),
        ("runner.os == 'Windows'", "runner.os != 'windows'", True),
        ("matrix.a || matrix.b && matrix.c", "!(matrix.a || matrix.b && matrix.c)", True),
        ("matrix.a || matrix.b && matrix.c", "!matrix.a && !matrix.b || !matrix.c", False),
        ("failure()", "!failure()", False),
        ("", "", False),
    ],
)
def test_one_of_two_opposite_conditions_is_true(first: str, second: str, expected: bool) -> None:
    assert are_opposite(first, second) is expected


@pytest.mark.parametrize(
    ("condition", "after_failure", "after_skip"),
    [
        ("", False, False),
        (OUTPUT, False, False),
        ("always()", True, True),
        ("${{ ! cancelled() }}", True, True),
        ("!failure()", False, True),
        ("success() || failure()", True, True),
        ("always() && needs.test.result == 'success'", False, True),
    ],
)
def test_runs_after_what_happened_to_needed_jobs(
    condition: str, after_failure: bool, after_skip: bool
) -> None:
    assert runs_after_failure(condition) is after_failure
    assert runs_after_skip(condition) is after_skip


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("push", True),
        ("[pull_request, push]", True),
        ("[pull_request, schedule]", False),
        ("{push: , pull_request: }", True),
        ("{pull_request: , workflow_dispatch: }", False),
        ("{workflow_call: }", True),
        ("workflow_call", True),
        ("{push: {branches: [main]}}", True),
        ("{push: {branches: main, tags: ['v*']}}", True),
        ("{push: {branches: ['**', '!main']}}", False),
        ("{push: {branches: [master, 'release/*']}}", False),
        ("{push: {branches-ignore: ['dependabot/**']}}", True),
        ("{push: {branches-ignore: ['m*']}}", False),
        ("{push: {tags: ['v*']}}", False),
        ("{push: {paths: ['src/**']}}", True),
    ],
)
def test_push_to_the_branch_starts_the_workflow(events: str, expected: bool) -> None:
    assert runs_on_push(load(f"on: {events}", "ci.yml"), "main") is expected


@pytest.mark.parametrize("value", [None, 3, [], {}])
def test_value_that_is_no_workflow_is_not_started(value: object) -> None:
    assert not runs_on_push(value, "main")
