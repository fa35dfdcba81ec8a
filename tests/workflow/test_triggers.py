"""Which workflows a push to the default branch starts."""

from __future__ import annotations

import pytest

from ciguard.workflow.conditions import runs_on_push
from ciguard.workflow.yaml_values import load


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
