from __future__ import annotations

from dataclasses import replace

from ciguard.history.ingest import end_s, start_s, suite_overheads
from ciguard.history.runs import SuiteOverhead
from ciguard.model import EndLine, ProcessEndLine, ProcessLine, Record, Result, StartLine


def result(unit: str, process: int, at_s: float | None, wall_s: float | None = 1.0) -> Result:
    return Result(unit, "passed", process=process, at_s=at_s, wall_s=wall_s)


def test_overheads_of_a_leg_with_one_process() -> None:
    """Start of the leg 0.5 s, of the process 2 s; gaps 0.1 and 0.3 s; behind them 3 s and 0.2 s."""
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 3, at_s=0.5),),
        starts=(StartLine("a", process=1, at_s=2.5), StartLine("b", process=1, at_s=4.6)),
        results=(
            Result("a", "passed", process=1, at_s=4.5, wall_s=1.5, setup_s=0.5),
            result("b", 1, 5.9),
        ),
        process_ends=(ProcessEndLine(1, "completed", at_s=8.9),),
        end=EndLine("completed", at_s=9.1),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 2.0, 3.0, 0.2),)
    assert (start_s(record), end_s(record)) == (0.5, 0.2)


def test_overheads_exclude_kills_crashes_and_retries() -> None:
    """Process 1 is killed over a hanging test; 2 runs it again, and 3 what was left."""
    record = Record(
        "r",
        None,
        processes=tuple(ProcessLine(number, 1, at_s=10.0 * number) for number in (1, 2, 3)),
        starts=tuple(
            StartLine(unit, process=number, at_s=10.0 * number + 1) for number, unit in ENDED
        ),
        results=(
            Result("a", "died", process=1, at_s=19.0, wall_s=5.0, ending="timeout"),
            Result("a", "died", process=2, at_s=29.0, wall_s=5.0, ending="crash", try_number=2),
            result("b", 3, 32.0),
        ),
        process_ends=(
            ProcessEndLine(1, "timeout", at_s=19.5),
            ProcessEndLine(2, "crash", at_s=29.5),
            ProcessEndLine(3, "completed", at_s=32.5),
        ),
        end=EndLine("completed", at_s=33.0),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 1.0, 0.5, 0.0),)
    assert end_s(record) == 0.5


ENDED = ((1, "a"), (2, "a"), (3, "b"))


def test_results_without_times_give_only_the_remaining_overhead() -> None:
    """A program whose results are read when it has ended: 9 s of it for 6 s of tests."""
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 2, at_s=1.0),),
        results=(result("a", 1, None, 2.0), result("b", 1, None, 4.0)),
        process_ends=(ProcessEndLine(1, "completed", at_s=10.0),),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, None, 3.0, None),)
    assert end_s(record) is None, "it was cut"


def test_concurrent_tests_in_one_process_have_no_gaps() -> None:
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 2, at_s=0.0),),
        starts=(StartLine("a", process=1, at_s=1.0), StartLine("b", process=1, at_s=1.0)),
        results=(result("a", 1, 6.0, 5.0), result("b", 1, 5.0, 4.0)),
        process_ends=(ProcessEndLine(1, "completed", at_s=6.5),),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 1.0, 0.5, 0.0),)


def test_no_measurement_gives_no_overhead() -> None:
    record = Record("r", None, processes=(ProcessLine(1, 1),), results=(result("a", 1, None),))
    assert suite_overheads(record) == ()
    assert (start_s(record), end_s(record)) == (None, None)


def test_base_memory_ignores_a_zero_first_sample() -> None:
    """What it holds behind its first unit is the least that is known."""
    sizes = (0, 10_000, 30_000)
    results = tuple(
        replace(result(f"t{place}", 1, None), rss_before_bytes=size)
        for place, size in enumerate(sizes)
    )
    (cost,) = suite_overheads(
        Record("r", None, processes=(ProcessLine(1, 3, at_s=0.5),), results=results)
    )
    assert cost.base_bytes == 10_000
    (cost,) = suite_overheads(
        Record(
            "r",
            None,
            processes=(ProcessLine(1, 3, at_s=0.5),),
            starts=(StartLine("t0", process=1, at_s=0.7),),
            results=results[:1],
        )
    )
    assert cost.base_bytes is None
