"""Which rows a run has, and the keys they are sorted by."""

from __future__ import annotations

from typing import Any

from ciguard.model import EventLine, Record, Result, ShardLine, StartLine, UnitKey
from ciguard.serve.results.rows import (
    ENDING_CODES,
    OUTCOME_CODES,
    ResultRow,
    hash_message,
    hash_unit,
    run_results,
)
from ciguard.serve.state.run_key import RunKey

KEY = RunKey(1, 2, 3)


def record(*results: Result, **more: Any) -> Record:
    return Record("r", ShardLine("plan", "unit-1"), results=results, **more)


def result(unit: str, outcome: Any = "passed", **more: Any) -> Result:
    return Result(unit, outcome, suite="unit", variant="", **more)


def rows(*records: Record, missing: tuple[tuple[UnitKey, str], ...] = ()) -> dict[str, ResultRow]:
    by_shard = {f"unit-{number}": one for number, one in enumerate(records, 1)}
    found = run_results(KEY, 5, by_shard, missing)
    assert (found.key, found.at_ms) == (KEY, 5)
    assert len({(one.unit, one.case) for one in found.rows}) == len(found.rows)
    return {one.case or one.unit: one for one in found.rows}


def test_a_result_is_a_row() -> None:
    measured = result("a", case="a", wall_s=1.5, cpu_s=1.0, peak_bytes=10, peak_delta_bytes=2)
    assert rows(record(measured)) == {
        "a": ResultRow("unit", "", "a", None, "unit-1", 1, 0, 0, 1, 1.5, 1.0, 10, 2, None)
    }


def test_the_final_result_counts_and_the_message_is_of_the_last_failure() -> None:
    found = rows(
        record(
            result("a", "failed", case="x", process=1, message="first"),
            result("a", "failed", case="x", process=2, message="second"),
            result("a", case="x", process=3),
        )
    )
    assert (found["x"].outcome, found["x"].status, found["x"].tries) == (1, 0, 3)
    assert found["x"].message == "second"


def test_of_two_legs_the_worst_counts() -> None:
    good, bad = record(result("a")), record(result("a", "failed"))
    for records in ((good, bad), (bad, good)):
        assert rows(*records)["a"].outcome == OUTCOME_CODES["failed"]


def test_what_is_missing_is_a_row_and_what_was_cut_is_unfinished() -> None:
    lost, cut = UnitKey("unit", "", "lost"), UnitKey("unit", "", "cut")
    found = rows(
        record(
            result("cut", case="x"),
            result("again", process=1),
            starts=(StartLine("again", "unit", process=2),),
        ),
        missing=((lost, "unit-9"), (cut, "unit-1")),
    )
    assert (found["lost"].outcome, found["lost"].status) == (OUTCOME_CODES["missing"], 2)
    assert (found["lost"].shard, found["lost"].ending) == ("unit-9", ENDING_CODES["unknown"])
    assert (found["x"].outcome, found["x"].status) == (1, 2)
    assert found["again"].status == 2
    assert set(found) == {"lost", "x", "again"}


def test_long_messages_are_cut() -> None:
    message = rows(record(result("a", "failed", message="x" * 10_000)))["a"].message
    assert message == "x" * 4096


def test_keys_are_those_of_files_written_earlier() -> None:
    # A change of these numbers makes every file by test wrong.
    assert hash_unit(42, "unit", "py311", "a") == -1233561162589269952
    assert hash_message(42, "no") == 7461175508542891147


def test_keys_tell_parts_apart() -> None:
    keys = {
        hash_unit(1, "ab", "c", "d"),
        hash_unit(1, "a", "bc", "d"),
        hash_unit(1, "a", "b", "cd"),
        hash_unit(11, "ab", "c", "d"),
        hash_unit(1, "", "ab:c", "d"),
        hash_unit(1, "\ud800", "c", "d"),
    }
    assert len(keys) == 6
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert len({hash_message(1, "a"), hash_message(2, "a"), hash_message(1, "b")}) == 3


def test_events_are_no_rows() -> None:
    assert rows(record(events=(EventLine("closed", unit="a"),))) == {}
