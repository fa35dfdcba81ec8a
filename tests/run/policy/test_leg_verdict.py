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


def test_what_passed_only_when_a_plugin_ran_it_again_is_no_plain_pass() -> None:
    found = judge(Result("a", "passed", reruns=1), Result("b", "failed", reruns=1))
    assert found.flaky == (UnitKey("", "", "a"),)
    assert found.counts == {"passed": 1, "failed": 1}


class _Counted(str):
    """A word that knows how often it was compared."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        _Counted.looks += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def test_a_case_is_not_looked_at_again_for_each_of_its_unit() -> None:
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


def test_counts_and_names() -> None:
    found = judge(FAILED[0], ending="setup_failed")
    assert found.counts == {"failed": 1}
    assert found.bad == (FAILED[0],)
    assert found.missing == (UnitKey("", "", "b"),)
    assert found.ending == "setup_failed"


def test_a_unit_stands_as_in_the_last_process_that_ran_it() -> None:
    found = judge(
        Result("a", "passed", case="1", process=1),
        Result("a", "died", case="a", process=1),
        Result("a", "passed", case="1", process=2),
        Result("a", "passed", case="2", process=2),
        Result("b", "passed", process=1),
    )
    assert found.exit_code == ExitCode.OK
    assert found.counts == {"passed": 3}


def test_a_case_that_failed_and_did_not_run_again_stays_failed() -> None:
    first = Result("a", "failed", case="1", process=1)
    rerun = [Result("a", "passed", case="2", process=2), Result("b", "passed", process=2)]
    found = judge(first, Result("a", "passed", case="2", process=1), *rerun)
    assert (found.exit_code, found.bad, found.flaky) == (ExitCode.TESTS_FAILED, (first,), ())
    assert found.counts == {"passed": 2, "failed": 1}
    found = judge(first, *rerun, Result("a", "passed", case="1", process=3))
    assert (found.exit_code, found.flaky) == (ExitCode.OK, (UnitKey("", "", "a"),))
    complete = judge(Result("a", "errored", process=1), *rerun)
    assert complete.exit_code == ExitCode.OK, "the rows answer what was said of all of it"


def test_a_retry_without_a_result_is_no_verdict() -> None:
    """Whoever reads the record says so too."""
    tally = Tally()
    for line in (*PASSED, Result("a", "failed", process=2)):
        tally.add(line)
    tally.start(StartLine("a", process=3))
    found = judge_leg(tally, PLANNED, "completed")
    assert (found.exit_code, found.missing) == (ExitCode.INCOMPLETE, (UnitKey("", "", "a"),))
    found = judge_leg(tally, PLANNED, "completed", filed={UnitKey("", "", "a")})
    assert found.exit_code == ExitCode.TESTS_FAILED, "its result is in a file"


def test_a_failure_before_the_leg_was_killed_is_known_when_it_goes_on() -> None:
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


def test_what_memory_ran_out_under_is_starved_and_no_flake() -> None:
    """One meaning here, in the guard and in the comparison: see `Result.passed_after_oom`."""
    found = judge(
        Result("a", "died", ending="memory_guard", process=1),
        Result("a", "passed", process=2),
        Result("b", "died", ending="out_of_memory", process=1),
        Result("b", "failed", process=2),
        Result("b", "passed", process=3),
    )
    assert (found.passed_after_oom, found.flaky) == (
        (UnitKey("", "", "a"),),
        (UnitKey("", "", "b"),),
    )


def test_what_a_checkpoint_stopped_is_neither() -> None:
    found = judge(
        Result("a", "died", ending="deadline", process=1), Result("a", "passed", process=2)
    )
    assert (found.passed_after_oom, found.flaky) == ((), ())


def test_an_older_process_has_no_last_word() -> None:
    """Of a leg in parts the leg's own file is read behind those of all its processes."""
    found = judge(
        Result("a", "passed", process=2),
        Result("b", "passed", process=2),
        Result("a", "died", ending="crash", process=1),
    )
    assert (found.exit_code, found.counts) == (ExitCode.OK, {"passed": 2})
    assert found.flaky == (UnitKey("", "", "a"),)
