"""How a process ended, from what was observed of it and its exit code."""

from __future__ import annotations

import pytest

from ciguard.model import Ending, Result
from ciguard.run.policy.actions import Reason, Start
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.process.ending import classify_exit, is_unexplained

STARTED = Start(1, (0, 1), "", "", 0, Reason("first"))
DEATH = Result("b", "died", ending="crash")


@pytest.mark.parametrize(
    ("running", "exit_code", "clean", "out_of_memory", "expected"),
    [
        (ProcessState(STARTED, finished={0, 1}), 0, True, False, "completed"),
        (ProcessState(STARTED, finished={0, 1}), 0, True, True, "completed"),  # a child was killed
        (
            ProcessState(STARTED, finished={0}, open_units={1: 0.0}, wrote_lines=True),
            0,
            True,
            False,
            "crash",
        ),
        (
            ProcessState(STARTED, finished={0}, open_units={1: 0.0}),
            -9,
            False,
            True,
            "out_of_memory",
        ),
        (ProcessState(STARTED, open_units={1: 0}, partial_units={1}), 0, True, False, "completed"),
        (ProcessState(STARTED, finished={0}), 2, False, False, "crash"),
        (ProcessState(STARTED, finished={0}, recycled=True), 2, False, False, "completed"),
        (ProcessState(STARTED, finished={0}, recycled=True), -11, False, False, "crash"),
        (ProcessState(STARTED), 4, False, False, "setup_failed"),
        (ProcessState(STARTED), 139, False, False, "crash"),  # SIGSEGV, handed on by a shell
        (
            ProcessState(STARTED, open_units={0: 0.0}),
            127,
            False,
            False,
            "setup_failed",
        ),  # no such program
        (ProcessState(STARTED, open_units={0: 0.0}, wrote_lines=True), 127, False, False, "crash"),
        (
            ProcessState(STARTED, open_units={0: 0.0}),
            0,
            True,
            False,
            "completed",
        ),  # it wrote nothing at all
        (ProcessState(STARTED, open_units={0: 0.0}), 1, False, False, "crash"),
        (ProcessState(STARTED, stopping="deadline"), -9, False, True, "deadline"),
    ],
)
def test_process_ending_is_classified(
    running: ProcessState, exit_code: int, clean: bool, out_of_memory: bool, expected: str
) -> None:
    assert classify_exit(running, exit_code, clean=clean, out_of_memory=out_of_memory) == expected


@pytest.mark.parametrize(
    ("running", "ending", "exit_code", "errors", "expected"),
    [
        (ProcessState(STARTED, finished={0, 1}), "completed", 0, False, False),
        (ProcessState(STARTED, finished={0, 1}), "completed", 1, False, True),
        (ProcessState(STARTED, finished={0}, partial_units={1}), "completed", 1, False, True),
        (ProcessState(STARTED, finished={0, 1}), "crash", 3, False, True),
        (ProcessState(STARTED, finished={0, 1}), "crash", -11, False, True),  # behind its last unit
        (ProcessState(STARTED, finished={0, 1}, failed_units={0}), "completed", 1, False, False),
        (
            ProcessState(STARTED, finished={0, 1}, failed_units={0}),
            "crash",
            -11,
            False,
            True,
        ),  # no assert does
        (ProcessState(STARTED, finished={0, 1}, failed_units={0}), "crash", 3, False, True),
        (
            ProcessState(STARTED, finished={0, 1}, failed_units={1}, deaths={1: DEATH}),
            "crash",
            -11,
            False,
            False,
        ),
        (
            ProcessState(
                STARTED, finished={0, 1}, failed_units={0}, stopping="timeout", refuses_exit=True
            ),
            "timeout",
            2,
            False,
            True,
        ),
        (ProcessState(STARTED, finished={0}, failed_units={0}), "crash", -11, False, False),
        (ProcessState(STARTED, finished={0, 1}, recycled=True), "completed", 2, False, False),
        (
            ProcessState(STARTED, finished={0}, stopping="timeout", stop_unit=1),
            "timeout",
            2,
            False,
            False,
        ),
        (
            ProcessState(STARTED, finished={0, 1}, stopping="timeout", refuses_exit=True),
            "timeout",
            2,
            False,
            True,
        ),
        (ProcessState(STARTED), "completed", 5, False, False),  # nothing selected: all is missing
        (ProcessState(STARTED, finished={0}), "completed", 1, False, True),
        (
            ProcessState(STARTED, finished={0}),
            "completed",
            1,
            True,
            False,
        ),  # the other: not imported
        (ProcessState(STARTED, finished={0, 1}), "completed", 1, True, True),
        (ProcessState(STARTED, finished={0}), "crash", -11, False, False),  # the other is searched
    ],
)
def test_unexplained_exit_code(
    running: ProcessState, ending: Ending, exit_code: int, errors: bool, expected: bool
) -> None:
    assert is_unexplained(running, ending, exit_code, errors=errors) == expected
