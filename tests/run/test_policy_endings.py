"""How a process ended, from what was observed of it and its exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ciguard.model import Result
from ciguard.run.actions import Start
from ciguard.run.endings import ending_of, is_unexplained
from ciguard.run.running import Running

if TYPE_CHECKING:
    from ciguard.model import (
        Ending,
    )

STARTED = Start(1, (0, 1), "", "", 0, "first")
DEATH = Result("b", "died", ending="crash")


@pytest.mark.parametrize(
    ("running", "exit_code", "clean", "out_of_memory", "expected"),
    [
        (Running(STARTED, closed={0, 1}), 0, True, False, "completed"),
        (Running(STARTED, closed={0, 1}), 0, True, True, "completed"),  # a child was killed
        (Running(STARTED, closed={0}, open={1: 0.0}, spoke=True), 0, True, False, "crash"),
        (Running(STARTED, closed={0}, open={1: 0.0}), -9, False, True, "out_of_memory"),
        (Running(STARTED, open={1: 0.0}, reported={1}), 0, True, False, "completed"),
        (Running(STARTED, closed={0}), 2, False, False, "crash"),
        (Running(STARTED, closed={0}, recycled=True), 2, False, False, "completed"),
        (Running(STARTED, closed={0}, recycled=True), -11, False, False, "crash"),
        (Running(STARTED), 4, False, False, "setup_failed"),
        (Running(STARTED), 139, False, False, "crash"),  # SIGSEGV, handed on by a shell
        (Running(STARTED, open={0: 0.0}), 127, False, False, "setup_failed"),  # no such program
        (Running(STARTED, open={0: 0.0}, spoke=True), 127, False, False, "crash"),
        (Running(STARTED, open={0: 0.0}), 0, True, False, "completed"),  # it wrote nothing at all
        (Running(STARTED, open={0: 0.0}), 1, False, False, "crash"),
        (Running(STARTED, stopping="deadline"), -9, False, True, "deadline"),
    ],
)
def test_how_a_process_ended(
    running: Running, exit_code: int, clean: bool, out_of_memory: bool, expected: str
) -> None:
    assert ending_of(running, exit_code, clean=clean, out_of_memory=out_of_memory) == expected


@pytest.mark.parametrize(
    ("running", "ending", "exit_code", "errors", "expected"),
    [
        (Running(STARTED, closed={0, 1}), "completed", 0, False, False),
        (Running(STARTED, closed={0, 1}), "completed", 1, False, True),
        (Running(STARTED, closed={0}, reported={1}), "completed", 1, False, True),
        (Running(STARTED, closed={0, 1}), "crash", 3, False, True),
        (Running(STARTED, closed={0, 1}), "crash", -11, False, True),  # behind its last unit
        (Running(STARTED, closed={0, 1}, bad={0}), "completed", 1, False, False),
        (Running(STARTED, closed={0, 1}, bad={0}), "crash", -11, False, True),  # no assert does
        (Running(STARTED, closed={0, 1}, bad={0}), "crash", 3, False, True),
        (Running(STARTED, closed={0, 1}, bad={1}, died={1: DEATH}), "crash", -11, False, False),
        (Running(STARTED, closed={0, 1}, bad={0}, stopping="timeout"), "timeout", 2, False, True),
        (Running(STARTED, closed={0}, bad={0}), "crash", -11, False, False),
        (Running(STARTED, closed={0, 1}, recycled=True), "completed", 2, False, False),
        (Running(STARTED, closed={0}, stopping="timeout", blamed=1), "timeout", 2, False, False),
        (Running(STARTED, closed={0, 1}, stopping="timeout"), "timeout", 2, False, True),
        (Running(STARTED), "completed", 5, False, False),  # nothing selected: all is missing
        (Running(STARTED, closed={0}), "completed", 1, False, True),
        (Running(STARTED, closed={0}), "completed", 1, True, False),  # the other: not imported
        (Running(STARTED, closed={0, 1}), "completed", 1, True, True),
        (Running(STARTED, closed={0}), "crash", -11, False, False),  # the other is searched
    ],
)
def test_an_exit_code_that_nothing_explains(
    running: Running, ending: Ending, exit_code: int, errors: bool, expected: bool
) -> None:
    assert is_unexplained(running, ending, exit_code, errors=errors) == expected
