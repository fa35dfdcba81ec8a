"""How often what goes wrong now went wrong before: told in every format, counted as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from compare.compare_factories import case, died, files_of, run_of

from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.wording import failure_rate_text
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison
    from ciguard.history.file import History
    from ciguard.model import Result

GOOD, BAD = case("u"), case("u", outcome="failed")
TIMED_OUT, STOPPED = died("u", "timeout"), died("u", "cancelled")


def history(past: list[Result | None]) -> History:
    """A run for each, a day apart; None is a run without the test."""
    found = None
    for day, result in enumerate(past, 1):
        facts = {"run_id": day, "started_at": f"2026-11-{day:02}T10:00:00Z", "event": "push"}
        results = [case("v"), *([result] if result is not None else [])]
        files = files_of({"01": results}, **facts)
        one = history_of(read_records(files.items()), RunMetadata())
        found = one if found is None else merge(found, one)
    assert found is not None
    return found


def compared(now: Result, past: list[Result | None]) -> Comparison:
    head = run_of({"01": [now, case("v")]}, run_id=99, started_at="2026-11-25T10:00:00Z")
    return compare_run(head, history(past))


CASES = [
    (BAD, [BAD, GOOD, GOOD, GOOD], (1, 4), "; failed in 1 of 4 baseline runs"),
    (BAD, [GOOD, TIMED_OUT, BAD, GOOD], (2, 4), "; failed in 2 of 4 baseline runs"),
    (TIMED_OUT, [BAD], (1, 1), "; failed in 1 of 1 baseline run"),
    (BAD, [BAD, None, None, GOOD], (1, 2), "; failed in 1 of 2 baseline runs"),
    (BAD, [GOOD, GOOD], (0, 2), ""),
    (BAD, [STOPPED, GOOD, GOOD], (0, 2), ""),  # its leg was cancelled: that is no word about it
    (BAD, [None, None], (0, 0), ""),
]


@pytest.mark.parametrize(("now", "past", "counts", "words"), CASES)
def test_transition_reports_its_baseline_failure_rate(
    now: Result, past: list[Result | None], counts: tuple[int, int], words: str
) -> None:
    found = compared(now, past)
    (one,) = [one for one in found.transitions if one.key.unit == "u"]
    assert one.past is not None
    assert (one.past.ended.count("failed"), len(one.past.ended)) == counts
    assert failure_rate_text(one) == words
    for shape in ("text", "markdown", "html"):
        assert FORMATS[shape](found).count("failed in ") == bool(words), shape


def test_fixed_test_has_no_failure_rate() -> None:
    found = compared(GOOD, [BAD, BAD, BAD])
    (one,) = found.transitions
    assert (one.kind, one.past, one.answer, failure_rate_text(one)) == ("fixed", None, None, "")
