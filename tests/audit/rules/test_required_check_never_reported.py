"""Required checks that a pull request may wait for in vain, and those that it does not."""

from __future__ import annotations

from typing import Final

import pytest
from audit.workflow_findings import find, lines

RULE: Final = "required-check-never-reported"
MATRIX = "    strategy: {matrix: {py: ['3.11', '3.12']}}\n"
OUTPUT = "    if: needs.changes.outputs.code == 'true'\n"
CHECK = "test (3.11)"
OTHER = "other_workflow_may_report"


def _workflow(test: str, changes: str = "", on: str = "pull_request") -> str:
    """Jobs `changes` and `test`, each with keys of its own, indented by four."""
    return f"on: {on}\njobs:\n  changes:\n    steps: []\n{changes}  test:\n{test}    steps: []\n"


@pytest.mark.parametrize(
    ("test", "changes", "cause", "line"),
    [
        (MATRIX + "    needs: changes\n" + OUTPUT, "", "condition", OUTPUT),
        (MATRIX + "    if: github.actor != 'bot'\n", "", "condition", "if: github.actor != 'bot'"),
        (MATRIX + "    needs: [changes]\n", OUTPUT, "needed_job_skipped", OUTPUT),
    ],
)
def test_finds_a_check_that_a_skipped_matrix_does_not_report(
    test: str, changes: str, cause: str, line: str
) -> None:
    text = _workflow(test, changes)
    (found,) = find(RULE, text, frozenset({CHECK, "lint"}))
    assert (found.subject, found.certainty) == (CHECK, "certain")
    assert found.facts == {"job": "test", "cause": cause, "reported_as": "test"}
    assert lines(found, text) == [line.strip()]


@pytest.mark.parametrize(
    ("test", "on", "check", "cause", "doubt"),
    [
        (
            MATRIX + "    needs: changes\n",
            "pull_request",
            CHECK,
            "needed_job_fails",
            "needed_job_fails",
        ),
        ("", "{pull_request: {paths: [src/**]}}", "test", "paths", OTHER),
        ("", "{pull_request: {paths-ignore: [docs/**]}}", "test", "paths", OTHER),
        (MATRIX, "pull_request", "test", "matrix_name", OTHER),
        (
            MATRIX + "    if: github.event_name == 'push'\n",
            "[push, pull_request]",
            CHECK,
            "condition",
            "push_may_report",
        ),
        (
            "    uses: ./unit.yml\n    if: github.actor != 'bot'\n",
            "pull_request",
            "test / unit",
            "condition",
            "called_workflow",
        ),
    ],
)
def test_doubts_what_another_run_may_report(
    test: str, on: str, check: str, cause: str, doubt: str
) -> None:
    (found,) = find(RULE, _workflow(test, on=on), frozenset({check}))
    assert (found.facts["cause"], found.certainty) == (cause, "possible")
    assert found.caveat == doubt


def test_finds_a_check_that_the_merge_queue_waits_for() -> None:
    test = MATRIX + "    if: github.event_name == 'pull_request'\n"
    assert find(RULE, _workflow(test), frozenset({CHECK})) == []
    queued = _workflow(test, on="[pull_request, merge_group]")
    (found,) = find(RULE, queued, frozenset({CHECK}))
    assert found.certainty == "certain"


@pytest.mark.parametrize(
    ("test", "changes", "on", "check"),
    [
        (MATRIX, "", "pull_request", CHECK),
        (OUTPUT, "", "pull_request", "test"),
        ("    needs: changes\n", OUTPUT, "pull_request", "test"),
        (MATRIX + "    needs: changes\n    if: always()\n", OUTPUT, "pull_request", CHECK),
        (MATRIX + "    if: github.repository == 'octo-org/octo'\n", "", "pull_request", CHECK),
        (MATRIX + "    if: github.actor != 'bot'\n", "", "push", CHECK),
        (MATRIX + "    if: github.actor != 'bot'\n", "", "workflow_call", CHECK),
        (MATRIX + "    if: github.actor != 'bot'\n", "", "pull_request", "test (3.13)"),
        ("", "", "{pull_request: {branches: [main]}}", "test"),
    ],
)
def test_accepts_checks_that_each_pull_request_has(
    test: str, changes: str, on: str, check: str
) -> None:
    assert find(RULE, _workflow(test, changes, on), frozenset({check})) == []


def test_finds_nothing_where_required_checks_are_not_known() -> None:
    assert find(RULE, _workflow(MATRIX + OUTPUT)) == []
