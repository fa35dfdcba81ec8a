"""What a leg never writes: what the rows of `cases`, through the real command, leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from guard.fixtures import passed

from ciguard.guard.legs import contradictions
from ciguard.guard.wording import note_text
from ciguard.model import (
    EventLine,
    Line,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    StartLine,
)

if TYPE_CHECKING:
    from ciguard.model import EventKind

RESUMED = EventLine("resumed", 10.0, 2)
FIRST = (ProcessLine(1, 1, at_s=0.0), ProcessEndLine(1, "completed", 0, 3.0))


def found(*lines: Line, tries: int = 1) -> list[str]:
    record = Record(
        "r",
        None,
        processes=tuple(one for one in lines if isinstance(one, ProcessLine)),
        process_ends=tuple(one for one in lines if isinstance(one, ProcessEndLine)),
        events=tuple(one for one in lines if isinstance(one, EventLine)),
        results=tuple(one for one in lines if isinstance(one, Result)),
        starts=tuple(one for one in lines if isinstance(one, StartLine)),
    )
    return list(map(note_text, contradictions(record, tries)))


def test_losses_of_an_earlier_step_are_no_contradiction() -> None:
    lost = (ProcessLine(1, 1, at_s=0.0), passed("u", process=2), passed("v"))
    own = (ProcessLine(3, 1, at_s=10.5), ProcessEndLine(3, "completed", 0, 11.0))
    assert found(RESUMED, *lost, *own, passed("w", process=3)) == []
    assert found(*lost, *own) != []
    late = ProcessEndLine(1, "completed", 0, 10.7)
    assert found(RESUMED, *lost, *own, late) == ["process 1 does not have one start before one end"]


def test_processes_of_earlier_attempts_have_separate_clocks() -> None:
    second = (ProcessLine(2, 1, at_s=0.5), ProcessEndLine(2, "completed", 0, 2.0))
    ran = (passed("u", outcome="failed"), passed("u", process=2))
    assert found(RESUMED, *FIRST, *second, *ran) == []
    assert found(*FIRST, *second, *ran) == ["1 unit ran in two processes at once: 'u'"]


@pytest.mark.parametrize(
    ("code", "event", "bad"),
    [
        (1, "unexplained_exit", False),
        (1, "exit_in_files", False),
        (2, "recycled", False),
        (5, "not_found", False),
        (1, None, True),
        (0, None, False),
    ],
)
def test_exit_code_without_a_reason_is_a_finding(
    code: int, event: EventKind | None, *, bad: bool
) -> None:
    lines: list[Line] = [
        *(ProcessLine(1, 1, at_s=0.0), ProcessEndLine(1, "completed", code, 1.0)),
        *([EventLine(event, 1.0, 1)] if event else []),
        passed("u", outcome="failed" if bad else "passed"),
    ]
    assert found(*lines) == []
    of_another = [replace(one, process=7) if isinstance(one, EventLine) else one for one in lines]
    output = [f"process 1 ended (completed, exit code {code}), and no line explains it"]
    assert found(*of_another) == (output if event else [])


def test_isolated_rerun_after_a_concurrent_crash_is_valid() -> None:
    """With one try as well: a crash of several is solved by turns alone."""
    first = (ProcessLine(1, 2, at_s=0.0), ProcessEndLine(1, "crash", -11, 3.0))
    second = (ProcessLine(2, 1, at_s=3.1), ProcessEndLine(2, "completed", 0, 4.0))
    died = passed("u", outcome="died", ending="crash")
    assert found(*first, *second, died, passed("u", process=2)) == []


def test_duplicate_lines_are_merged() -> None:
    assert found(*FIRST, *FIRST, passed("u")) == []
    assert found(*FIRST, ProcessLine(1, 2, at_s=0.0), passed("u")) == [
        "process 1 does not have one start before one end"
    ]


def test_records_of_result_files_alone_have_no_processes() -> None:
    assert found(EventLine("result_file", detail="r.xml"), passed("u")) == []
