"""What a check says, and how it is shown."""

from __future__ import annotations

import pytest

from ciguard.doctor.checks import (
    as_json,
    check_artifact_version,
    document,
    error,
    ok,
    warn_of_undetected_skip,
    warning,
)
from ciguard.render.plaintext import as_text
from ciguard.workflow.aggregation import UndetectedSkip

CHECKS = [
    ok("git", "origin is git@github.com:octo-org/shop.git"),
    warning("history", "nothing at branch:ciguard-history yet: " + "so " * 20, "wait"),
    error(
        "install", "", "set install in ciguard.toml, which is the place where it is looked for " * 2
    ),
]


def test_one_line_per_check_within_80_columns() -> None:
    text = as_text(document(CHECKS))
    lines = text.splitlines()
    assert lines[0] == "ok       git      origin is git@github.com:octo-org/shop.git"
    assert lines[1].startswith("warning  history  nothing at")
    assert all(len(line) <= 80 for line in lines)
    assert "                  fix: set install in ciguard.toml" in text
    assert lines[-1] == "1 error, 1 warning"


def test_json_has_the_same_checks() -> None:
    found = as_json(CHECKS)
    assert (found["schema"], found["errors"], found["warnings"]) == (1, 1, 1)
    assert [one["name"] for one in found["checks"]] == ["git", "history", "install"]


@pytest.mark.parametrize(
    ("is_own", "artifacts", "level"),
    [(True, 3, "ok"), (True, 4, "warning"), (False, 3, "error"), (False, 4, "ok")],
)
def test_artifact_version_must_match_the_server(is_own: bool, artifacts: int, level: str) -> None:
    found = check_artifact_version(
        "https://x.example", "3.17.4", is_own=is_own, artifacts=artifacts
    )
    assert found.level == level
    assert ("3.17.4" in found.what) is is_own
    assert bool(found.fix) is (level != "ok")


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
