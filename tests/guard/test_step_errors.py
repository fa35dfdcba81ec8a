"""The error of a failed step, in lines of real logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from ciguard.guard.log_patterns import step_error
from ciguard.model.jobs import Step

BEGIN: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
STEPS: Final = tuple(
    Step(name, number, conclusion, started_at=BEGIN + timedelta(minutes=number))
    for number, (name, conclusion) in enumerate(
        [("Check out", "success"), ("Install", "failure"), ("Post Check out", "success")]
    )
)
EXIT: Final = "##[error]Process completed with exit code 1."
PIP: Final = (
    "ERROR: Could not find a version that satisfies the requirement foo==9 (from versions: none)",
    "ERROR: No matching distribution found for foo==9",
)
NPM: Final = (  # of npm/cli#8374 and codechecks/docs#14
    "npm ERR! code ENOVERSIONS",
    "npm ERR! No valid versions available for codechecks",
    "npm ERR!     /home/runner/.npm/_logs/2020-01-02T09_25_49_424Z-debug.log",
    "Install for codechecks@latest failed with code 1",
)
GIT: Final = (  # of actions/checkout#417
    "##[error]fatal: repository 'https://github.com/o/private/' not found",
    "The process '/usr/bin/git' failed with exit code 128",
    "##[error]The process '/usr/bin/git' failed with exit code 128",
)
CURL: Final = "curl: (22) The requested URL returned error: 404"
DOCKER: Final = ('ERROR: failed to calculate checksum of ref: "/shared-config": not found',)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (PIP, PIP[1]),
        (("\x1b[31mERROR: foo\x1b[0m",), "ERROR: foo"),
        (NPM, NPM[0]),
        (GIT, GIT[0].removeprefix("##[error]")),
        (DOCKER, DOCKER[0]),
        (("ERROR: real", "Error count: 0"), "ERROR: real"),
        (("error[E0308]: mismatched types",), "error[E0308]: mismatched types"),
        (("a.c:3:5: error: unknown", "make: *** [all] Error 1", ""), "make: *** [all] Error 1"),
        (("/x.sh: line 1: foo: command not found",), "/x.sh: line 1: foo: command not found"),
        (("Traceback (most recent call last):", "KeyError: 'x'"), "KeyError: 'x'"),
        ((CURL,), CURL),
        (("make all", "shell: /usr/bin/bash -e {0}", "##[endgroup]"), None),
    ],
)
def test_error_of_the_failed_step_alone(lines: tuple[str, ...], error: str | None) -> None:
    sides = [(0, ["##[group]Run actions/checkout@v4", "error: a retry that helped"])]
    sides += [(1, ["##[group]Run pip install", *lines, EXIT])]
    sides += [(2, ["Post job cleanup.", "fatal: no submodule mapping", "##[error]of cleaning up"])]
    log = "".join(
        f"2026-11-21T10:0{minute}:0{second}.1Z {line}\n"
        for minute, own in sides
        for second, line in enumerate(own)
    )
    assert step_error(log, STEPS, STEPS[1]) == error
    end = log.index("\n", log.index("##[group]Run pip")) + 1
    assert step_error(log[end:], STEPS, STEPS[1]) == error  # GitHub gave the end of the log
    assert step_error(log[log.index("Post job") :], STEPS, STEPS[1]) is None


def test_steps_without_times_are_not_told_apart() -> None:
    failed = Step("Install", 2, "failure")
    assert step_error("\n".join(PIP), [failed], failed) == PIP[1]
