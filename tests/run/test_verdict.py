"""What results come to: the last try of every unit, what is missing, the exit code."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.errors import ExitCode
from ciguard.model import Ending, PlannedUnit, Result, UnitKey
from ciguard.model.attempts import resolve_attempts
from ciguard.run.verdict import Tally, Verdict, verdict

PLANNED = (PlannedUnit("a"), PlannedUnit("b"))


def judged(
    *results: Result,
    ending: Ending = "completed",
    dropped: int = 0,
    unexplained: int = 0,
    signal: ExitCode | None = None,
) -> Verdict:
    tally = Tally()
    for result in results:
        tally.add(result)
    return verdict(
        tally, PLANNED, ending, dropped=dropped, unexplained=unexplained, signalled=signal
    )


PASSED = (Result("a", "passed", process=1), Result("b", "skipped", process=1))
FAILED = (Result("a", "failed", process=1), Result("b", "passed", process=1))


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (judged(*PASSED), ExitCode.OK),
        (judged(*FAILED), ExitCode.TESTS_FAILED),
        (judged(PASSED[0], Result("b", "died", process=1)), ExitCode.TESTS_FAILED),
        (judged(*PASSED, unexplained=1), ExitCode.TESTS_FAILED),
        (judged(PASSED[0]), ExitCode.INCOMPLETE),
        (judged(PASSED[0], unexplained=1), ExitCode.INCOMPLETE),
        (judged(FAILED[0]), ExitCode.INCOMPLETE),
        (judged(*PASSED, dropped=1), ExitCode.INCOMPLETE),
        (judged(*PASSED, ending="deadline"), ExitCode.INCOMPLETE),
        (judged(*PASSED, ending="cancelled", signal=ExitCode.TERMINATED), ExitCode.TERMINATED),
    ],
)
def test_exit_codes(found: Verdict, code: ExitCode) -> None:
    assert found.exit_code == code


def test_what_passed_only_when_a_plugin_ran_it_again_is_no_plain_pass() -> None:
    found = judged(Result("a", "passed", reruns=1), Result("b", "failed", reruns=1))
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
    assert _Counted.looks < 10 * cases
    assert tally.bad == {UnitKey("", "", "a")}


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.booleans(), st.integers(1, 3)), max_size=12))
def test_a_unit_is_bad_while_one_of_its_cases_is(told: list[tuple[str, bool, int]]) -> None:
    tally = Tally()
    for case, good, process in told:
        tally.add(Result("a", "passed" if good else "failed", case=case, process=process))
        (cases,) = tally.by_unit.values()
        assert bool(tally.bad) == any(one.outcome == "failed" for one in cases.values())


def test_counts_and_names() -> None:
    found = judged(FAILED[0], ending="setup_failed")
    assert found.counts == {"failed": 1}
    assert found.bad == (FAILED[0],)
    assert found.missing == (UnitKey("", "", "b"),)
    assert found.ending == "setup_failed"


def test_a_unit_stands_as_in_the_last_process_that_ran_it() -> None:
    found = judged(
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
    again = [Result("a", "passed", case="2", process=2), Result("b", "passed", process=2)]
    found = judged(first, Result("a", "passed", case="2", process=1), *again)
    assert (found.exit_code, found.bad, found.flaky) == (ExitCode.TESTS_FAILED, (first,), ())
    assert found.counts == {"passed": 2, "failed": 1}
    found = judged(first, *again, Result("a", "passed", case="1", process=3))
    assert (found.exit_code, found.flaky) == (ExitCode.OK, (UnitKey("", "", "a"),))
    whole = judged(Result("a", "errored", process=1), *again)
    assert whole.exit_code == ExitCode.OK, "the rows answer what was said of all of it"


WHOLE = ("a", "died")  # as a leg says it: of the unit
TOLD = st.tuples(
    st.sampled_from([("1", "passed"), ("1", "failed"), ("2", "passed"), ("2", "failed"), WHOLE]),
    st.integers(1, 3),
    st.integers(1, 2),
)


@given(st.lists(TOLD, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_leg_and_guard_agree_in_any_order(told: list[tuple[Any, ...]], dice: Any) -> None:
    results = [
        Result("a", outcome, case=case, process=process, try_number=number)
        for (case, outcome), process, number in told
    ]
    unit = resolve_attempts(results)
    dice.shuffle(results)
    tally = Tally()
    for result in results:
        tally.add(result)
    assert sorted((one.key, one.outcome) for one in tally.results()) == sorted(
        (one.key, one.outcome) for one in unit.cases
    )
    assert bool(tally.bad) == (unit.status == "bad")


def test_what_memory_ran_out_under_is_starved_and_no_flake() -> None:
    """One meaning here, in the guard and in the comparison: see `Result.starved`."""
    found = judged(
        Result("a", "died", ending="memory_guard", process=1),
        Result("a", "passed", process=2),
        Result("b", "died", ending="out_of_memory", process=1),
        Result("b", "failed", process=2),
        Result("b", "passed", process=3),
    )
    assert (found.starved, found.flaky) == (
        (UnitKey("", "", "a"),),
        (UnitKey("", "", "b"),),
    )


def test_what_a_checkpoint_stopped_is_neither() -> None:
    found = judged(
        Result("a", "died", ending="deadline", process=1), Result("a", "passed", process=2)
    )
    assert (found.starved, found.flaky) == ((), ())


def test_an_older_process_has_no_last_word() -> None:
    """Of a leg in parts the leg's own file is read behind those of all its processes."""
    found = judged(
        Result("a", "passed", process=2),
        Result("b", "passed", process=2),
        Result("a", "died", ending="crash", process=1),
    )
    assert (found.exit_code, found.counts) == (ExitCode.OK, {"passed": 2})
    assert found.flaky == (UnitKey("", "", "a"),)
