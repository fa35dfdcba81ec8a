"""What results come to: the last try of every unit, what is missing, the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from ciguard.errors import ExitCode
from ciguard.model import Ending, PlannedUnit, Result, StartLine, UnitKey
from ciguard.run.policy.leg_verdict import LegVerdict, Tally, judge_leg

PLANNED = (PlannedUnit("a"), PlannedUnit("b"))


def judge(
    *results: Result,
    ending: Ending = "completed",
    dropped: int = 0,
    unexplained: int = 0,
    signal: ExitCode | None = None,
) -> LegVerdict:
    tally = Tally()
    for result in results:
        tally.add(result)
    return judge_leg(
        tally, PLANNED, ending, dropped=dropped, unexplained=unexplained, signalled=signal
    )


PASSED = (Result("a", "passed", process=1), Result("b", "skipped", process=1))
FAILED = (Result("a", "failed", process=1), Result("b", "passed", process=1))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (judge(*PASSED), ExitCode.OK),
        (judge(*FAILED), ExitCode.TESTS_FAILED),
        (judge(PASSED[0], Result("b", "died", process=1)), ExitCode.TESTS_FAILED),
        (judge(*PASSED, unexplained=1), ExitCode.TESTS_FAILED),
        (judge(PASSED[0]), ExitCode.INCOMPLETE),
        (judge(PASSED[0], unexplained=1), ExitCode.INCOMPLETE),
        (judge(FAILED[0]), ExitCode.INCOMPLETE),
        (judge(*PASSED, dropped=1), ExitCode.INCOMPLETE),
        (judge(*PASSED, ending="deadline"), ExitCode.INCOMPLETE),
        (judge(*PASSED, ending="cancelled", signal=ExitCode.TERMINATED), ExitCode.TERMINATED),
    ],
)
def test_exit_codes(found: LegVerdict, code: ExitCode) -> None:
    assert found.exit_code == code


class _Counted(str):
    """A word that knows how often it was compared."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        _Counted.looks += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_counting_bad_units_is_linear_in_cases() -> None:
    tally, cases = Tally(), 200
    for number in range(cases):
        word: Any = _Counted("failed" if number == cases - 1 else "passed")
        tally.add(Result("a", word, case=str(number), process=1))
    assert tally.count_bad() == 1
    assert _Counted.looks < 20 * cases


def test_progress_counts_a_unit_as_bad_until_its_retry_passes() -> None:
    tally, counts = Tally(), []
    for result in (
        Result("a", "failed", case="1", process=1),
        Result("a", "passed", case="2", process=2),
        Result("b", "died", ending="deadline", process=2),
        Result("a", "passed", case="1", process=3),
        Result("b", "passed", process=3),
    ):
        tally.add(result)
        counts.append(tally.count_bad())
    assert counts == [1, 1, 2, 1, 0]


def test_verdict_has_counts_and_missing_units() -> None:
    found = judge(FAILED[0], ending="setup_failed")
    assert found.counts == {"failed": 1}
    assert found.bad == (FAILED[0],)
    assert found.missing == (UnitKey("", "", "b"),)
    assert found.ending == "setup_failed"


def test_retry_without_a_result_is_incomplete() -> None:
    """Whoever reads the record says so too."""
    tally = Tally()
    for line in (*PASSED, Result("a", "failed", process=2)):
        tally.add(line)
    tally.start(StartLine("a", process=3))
    found = judge_leg(tally, PLANNED, "completed")
    assert (found.exit_code, found.missing) == (ExitCode.INCOMPLETE, (UnitKey("", "", "a"),))
    found = judge_leg(tally, PLANNED, "completed", in_files={UnitKey("", "", "a")})
    assert found.exit_code == ExitCode.TESTS_FAILED, "its result is in a file"


def test_failure_before_a_kill_counts_in_the_resumed_leg() -> None:
    tally = Tally()
    for held in (
        Result("a", "failed", case="x", process=1),
        Result("a", "passed", case="y", process=1),
    ):
        tally.hold(held)
    tally.add(Result("b", "passed", process=2))
    assert judge_leg(tally, PLANNED, "completed").missing == (UnitKey("", "", "a"),)
    tally.add(Result("a", "passed", case="y", process=2))
    found = judge_leg(tally, PLANNED, "completed")
    assert (found.exit_code, [one.case for one in found.bad]) == (ExitCode.TESTS_FAILED, ["x"])
    tally.add(Result("a", "passed", case="x", process=3))
    found = judge_leg(tally, PLANNED, "completed")
    assert (found.exit_code, found.flaky) == (ExitCode.OK, (UnitKey("", "", "a"),))
