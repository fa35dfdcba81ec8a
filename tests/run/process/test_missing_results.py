"""Why a unit has no result, from the events of its process alone."""

from __future__ import annotations

import pytest

from ciguard.model import EventKind, EventLine, UnitKey
from ciguard.run.output.view import describe_missing, not_run_events
from ciguard.run.process.handle import ProcessReport

KEY = UnitKey("s", "v", "sub/test_a.py::TestA::test_one[x]")


def event(kind: EventKind, unit: str, detail: str = "") -> EventLine:
    return EventLine(kind, suite="s", variant="v", unit=unit, detail=detail)


def why(*events: EventLine, announces: bool = True, unreadable: str = "") -> tuple[str, str]:
    output = ProcessReport(unreadable=unreadable)
    for one in events:
        output.add(one)
    found = output.missing_kind(KEY, announces=announces)
    return found, describe_missing(found, output, KEY, framework="any", exit_code=3)


VANISHED = event("not_collected", KEY.unit)


@pytest.mark.parametrize("place", ["sub/test_a.py", "sub/test_a.py::TestA", "sub", "", "."])
def test_collection_error_of_the_parent_is_the_reason(place: str) -> None:
    error = event("collection_error", place, "Traceback\nE   ImportError: no x\n\n")
    assert why(VANISHED, error) == ("not_imported", "it could not be imported: ImportError: no x")


@pytest.mark.parametrize("place", ["sub/test_a", "test_a.py", "sub/test_b.py", "sub/test_a.py::T"])
def test_unrelated_collection_error_is_not_the_reason(place: str) -> None:
    assert why(VANISHED, event("collection_error", place, "E   ImportError"))[0] == "not_found"


def test_early_stop_lists_the_first_hundred_units_and_counts_all() -> None:
    missing = [UnitKey("s", "v", f"t{number}") for number in range(250)]
    complete, *listed = not_run_events(missing, 400, "deadline: 9 s are over", 9.5)
    output = "250 of 400 tests did not run: deadline: 9 s are over"
    assert complete == EventLine("not_run", 9.5, detail=output)
    assert [(one.suite, one.variant, one.unit) for one in listed] == missing[:100]
    assert {one.detail for one in listed} == {"it was not started: deadline: 9 s are over"}
    assert list(not_run_events([], 400, "deadline", 9.5)) == []


def test_reason_reported_by_the_framework() -> None:
    taken = event("not_collected", KEY.unit, "collected, then deselected by another plugin")
    assert why(taken)[1] == "it was collected, then deselected by another plugin"
    assert why(VANISHED)[1] == "it was not found by any in this checkout"
    assert why()[1] == "its process ended with exit code 3 before it started"
    wrote_none = "the command wrote no result for it to $CIGUARD_RECORD_FILE"
    assert why(announces=False)[1] == wrote_none
    assert why(announces=False, unreadable="line 2")[1] == f"{wrote_none} (line 2)"
