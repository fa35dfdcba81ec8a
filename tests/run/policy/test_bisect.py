"""Which units the processes behind a death get that named nobody, over literals."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from run.states import finish_all, start, state_of

from ciguard.model import Ending, LegPolicy, PlannedUnit, ProcessEndLine, Result, StartLine
from ciguard.run.policy.actions import Finish, Reason, Start
from ciguard.run.policy.admission import MAX_FRUITLESS_PROCESSES
from ciguard.run.policy.bisect import bisect, crashing_file
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import State

FILES = ("a", "a", "b", "c", "d", "e")  # of the units 0 to 5


@pytest.mark.parametrize(
    ("suspects", "files", "back", "expected"),
    [
        ((0, 1, 2, 3, 4, 5), True, False, (0, 1, 2)),
        ((0, 1, 2, 3, 4, 5), True, True, (4, 5)),
        ((0, 1), True, False, (0, 1)),
        ((0, 1), True, True, (0, 1)),
        ((0, 1), False, False, (0,)),
        ((0, 1), False, True, (1,)),
        ((0, 1, 2), False, False, (0,)),
        ((4,), True, True, (4,)),
        ((4,), False, False, (4,)),
    ],
)
def test_bisect_gives_half_of_the_suspects(
    suspects: Sequence[int], files: bool, back: bool, expected: tuple[int, ...]
) -> None:
    assert bisect(suspects, lambda unit: FILES[unit] if files else "", second_half=back) == expected


@pytest.mark.parametrize(
    ("units", "ending", "suspects", "started_units", "expected"),
    [
        ((0, 1), "crash", {0, 1, 2}, False, "a"),
        ((0,), "out_of_memory", {0}, False, "a"),
        ((0, 1), "crash", set(), False, ""),  # the first death: it may be chance
        ((0, 1), "crash", {0}, False, ""),
        ((0, 1, 2), "crash", {0, 1, 2}, False, ""),  # two files
        ((0, 1), "crash", {0, 1}, True, ""),
        ((0, 1), "setup_failed", {0, 1}, False, ""),
        ((0, 1), "completed", {0, 1}, False, ""),
    ],
)
def test_crashing_file_is_identified(
    units: tuple[int, ...], ending: Ending, suspects: set[int], started_units: bool, expected: str
) -> None:
    running = ProcessState(
        Start(1, units, "", "", 0, Reason("next")), open_units={0: 0.0} if started_units else {}
    )
    assert crashing_file(running, ending, suspects, FILES.__getitem__) == expected


def play(state: State, bad: Sequence[str]) -> tuple[list[str], Finish]:
    """Run a leg in which these files end every process that reads them; files by process."""
    shares = []
    while not isinstance(action := next_action(state, 1.0), Finish):
        assert isinstance(action, Start), action
        state.apply(action)
        files = [state.file_of(unit) for unit in action.units]
        assert action.process < 100
        shares.append("".join(dict.fromkeys(files)))
        if set(files) & set(bad):
            assert state.culprits(action.process) == ()
            state.observe(ProcessEndLine(action.process, "crash", 139))
        else:
            finish_all(state, action.process)
    return shares, action


@pytest.mark.parametrize(
    ("files", "bad", "expected", "stored_out"),
    [
        ("ab", "a", "ab a b", 3),
        ("ab", "b", "ab a b", 3),
        ("a", "a", "a a", 3),
        ("abcdefgh", "c", "abcdefgh abcd ab c defgh", 3),
        ("abcdefgh", "cd", "abcdefgh abcd ab c defgh gh d ef", 6),
        ("abcdefgh", "abc", "abcdefgh abcd ab a bcdefgh fgh bc b cde e c d", 9),
    ],
)
def test_other_files_run_despite_files_that_crash_on_import(
    files: str, bad: str, expected: str, stored_out: int
) -> None:
    state = state_of(*(f"{file}::{n}" for file in files for n in range(3)), files=True)
    shares, finish = play(state, bad)
    assert " ".join(shares) == expected
    done = {state.file_of(unit) for unit in state.tries}
    assert done == set(files) - set(bad)
    assert {state.file_of(unit) for unit in state.import_crashed} == set(bad)
    assert finish.ending == "completed"
    counts = {"import_crashed_units": stored_out, "planned_units": len(state.units)}
    assert finish.reason == Reason("incomplete", counts)


def test_leg_stops_early_if_every_file_crashes_on_import() -> None:
    state = state_of(*(f"{n}::{unit}" for n in range(64) for unit in "ab"), files=True)
    shares, finish = play(state, [str(n) for n in range(64)])
    assert len(shares) <= MAX_FRUITLESS_PROCESSES * (1 + 6)
    assert finish.ending == "setup_failed"
    counts = {"processes": 3, "units": 128, "planned_units": 128}
    assert finish.reason == Reason("fruitless", counts)


def test_crashing_file_is_found_with_several_processes() -> None:
    state = state_of(*(f"{file}::{n}" for file in "ab" for n in range(2)), processes=2, files=True)
    while not isinstance(action := next_action(state, 1.0), Finish):
        if isinstance(action, Start):
            state.apply(action)
            assert action.process < 20
            continue
        process = min(state.running)
        if any(state.file_of(unit) == "a" for unit in state.running[process].start.units):
            state.observe(ProcessEndLine(process, "crash", 139))
        else:
            finish_all(state, process)
    assert set(state.tries) == {2, 3}
    assert state.import_crashed == {0, 1}


def test_crash_between_units_of_a_file_is_bisected_by_unit() -> None:
    """Nobody was at fault by name (its reaper was killed), and the file can be read."""
    state = state_of("a::0", "a::1", "a::2", "a::3", files=True)
    first = start(state)
    state.observe(StartLine("a::0", process=first.process, at_s=0.0))
    state.observe(ProcessEndLine(first.process, "crash", -9))
    assert start(state).units == (0, 1)


@pytest.mark.parametrize("ending", ["setup_failed", "crash"])
@pytest.mark.parametrize("files", [True, False])
def test_rerun_that_cannot_start_does_not_revoke_results(ending: Ending, files: bool) -> None:
    state = state_of(
        *(f"a::{n}" for n in range(4)), policy=LegPolicy("off", max_tries=2), files=files
    )
    start(state)
    for unit in range(4):
        outcome = "failed" if unit == 2 else "passed"
        state.observe(Result(f"a::{unit}", outcome, process=1))  # type: ignore[arg-type]
    state.observe(ProcessEndLine(1, "completed", 1))
    for number in range(2, 2 + MAX_FRUITLESS_PROCESSES):
        rerun = start(state)
        assert rerun.process == number
        assert rerun.units == (0, 1, 2)
        assert rerun.repeats == 1
        state.observe(ProcessEndLine(number, ending, 127))
    assert next_action(state, 1.0) == Finish(
        "completed", Reason("incomplete", {"not_retried_units": 3, "planned_units": 4})
    )


def test_unstarted_unit_is_no_culprit() -> None:
    state = state_of(PlannedUnit("a::0"), files=True)
    start(state)
    assert state.culprits(1) == ()


def ran(files: int, bad: Sequence[int]) -> tuple[int, set[int]]:
    """How many processes a leg has whose bad files end theirs, and the files whose unit ran."""
    state = state_of(*(f"f{file:02}::t" for file in range(files)), files=True)
    found: set[int] = set()
    while isinstance(next_action(state, 0.0), Start):
        started_units = start(state)
        if set(started_units.units) & set(bad):
            state.observe(ProcessEndLine(started_units.process, "crash", -11))
        else:
            finish_all(state, started_units.process)
            found.update(started_units.units)
    return state.started, found


@pytest.mark.parametrize("bad", [range(0, 20, 2), range(10), range(10, 20), [3, 4, 5, 6, 12, 13]])
def test_other_files_run_despite_many_crashing_files(bad: Sequence[int]) -> None:
    processes, found = ran(20, bad)
    assert found == set(range(20)).difference(bad)
    assert processes <= 3 * 20


def test_leg_stops_after_three_fruitless_files() -> None:
    processes, found = ran(64, range(64))
    assert not found
    assert processes <= 20
