"""What a check says, and how it is shown."""

from __future__ import annotations

import pytest

from ciguard.doctor.checks import (
    as_json,
    document,
    error,
    ok,
    warn_of_cancelled_pushes,
    warn_of_undetected_skip,
    warning,
)
from ciguard.render.plaintext import as_text
from ciguard.workflow.aggregation import UndetectedSkip

CHECKS = [
    ok("git", "origin is git@github.com:octo-org/shop.git"),
    warning("history", "nothing at branch:ciguard-history yet: " + "so " * 20, "wait"),
    error(
        "actions", "", "set actions in ciguard.toml, which is the place where it is looked for " * 2
    ),
]


def test_one_line_per_check_within_80_columns() -> None:
    text = as_text(document(CHECKS))
    lines = text.splitlines()
    assert lines[0] == "ok       git      origin is git@github.com:octo-org/shop.git"
    assert lines[1].startswith("warning  history  nothing at")
    assert all(len(line) <= 80 for line in lines)
    assert "                  fix: set actions in ciguard.toml" in text
    assert lines[-1] == "1 error, 1 warning"


def test_json_has_the_same_checks() -> None:
    found = as_json(CHECKS)
    assert (found["schema"], found["errors"], found["warnings"]) == (1, 1, 1)
    assert [one["name"] for one in found["checks"]] == ["git", "history", "actions"]


@pytest.mark.parametrize(
    ("is_needed", "reads_single_results", "fix"),
    [
        (False, False, "add `plan` to its needs"),
        (False, True, "add `plan` to its needs, and test needs.plan.result as well"),
        (True, True, "test needs.plan.result as well"),
    ],
)
def test_fix_of_an_undetected_skip(is_needed: bool, reads_single_results: bool, fix: str) -> None:
    found = warn_of_undetected_skip(
        UndetectedSkip("ci.yml", "gate", "plan", is_needed, reads_single_results)
    )
    what = "ci.yml: job gate is green if job plan fails: tests are skipped"
    assert (found.level, found.what, found.fix) == ("warning", what, fix)


REF = "tests-${{ github.ref }}"
ON_PULL = "${{ github.event_name == 'pull_request' }}"


@pytest.mark.parametrize(
    ("events", "group", "cancels", "count"),
    [
        (["push", "pull_request"], REF, True, 1),
        ({"push": {"branches": ["main"]}}, REF, "${{ github.event_name != 'merge_group' }}", 1),
        (["push", "pull_request"], REF, False, 0),
        (["push", "pull_request"], REF, ON_PULL, 0),
        (["push", "pull_request"], REF, "${{ github.ref != 'refs/heads/main' }}", 0),
        (["push", "pull_request"], "${{ github.head_ref || github.run_id }}", True, 0),
        ({"push": {"branches": ["release"]}}, REF, True, 0),
        (["pull_request"], REF, True, 0),
    ],
)
@pytest.mark.parametrize("in_job", [False, True])
def test_pushes_that_cancel_runs_of_the_base_are_a_warning(
    *, events: object, group: str, cancels: object, count: int, in_job: bool
) -> None:
    setting = {"concurrency": {"group": group, "cancel-in-progress": cancels}}
    workflow = {"on": events, **({"jobs": {"tests": setting}} if in_job else setting)}
    found = list(warn_of_cancelled_pushes("ci.yml", workflow, "main"))
    what = "ci.yml: a push to main cancels the run of the previous push: few complete"
    assert [check.what for check in found] == [what] * count
