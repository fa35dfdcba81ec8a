"""Runs in columns: which result of a case counts, which leg, and where each case is."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from compare.compare_factories import MIB, case, column_run, died, files_of, run_of
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.reader import read_records
from ciguard.compare.run_columns import Run, index_in, runs_from_records
from ciguard.history.file import CODE_NAMES

NUMBERS = st.frozensets(st.integers(0, 12), max_size=12)


@given(NUMBERS, NUMBERS)
def test_index_in_finds_each_shared_case(some: frozenset[int], rest: frozenset[int]) -> None:
    every = column_run([1.0] * 13).keys
    one, other = (
        replace(column_run([1.0] * len(found)), keys=tuple(every[n] for n in sorted(found)))
        for found in (some, rest)
    )
    at = index_in(one, other).tolist()
    assert len(at) == len(one.keys)
    for key, place in zip(one.keys, at, strict=True):
        assert (place == -1) == (key not in other.keys)
        assert place == -1 or other.keys[place] == key


def outcomes(run: Run) -> dict[str, str]:
    return {
        key.case: CODE_NAMES["outcome"][code]
        for key, code in zip(run.keys, run.outcome.tolist(), strict=True)
    }


def test_columns_are_sorted_by_case_over_all_legs() -> None:
    run = run_of({"02": [case("a", 0.1, 3)], "01": [case("b", 0.2, None), case("c", None, 5)]})
    assert [key.case for key in run.keys] == ["a", "b", "c"]
    assert [run.legs[leg].name for leg in run.leg.tolist()] == ["02", "01", "01"]
    assert run.wall_s.tolist()[:2] == [0.1, 0.2]
    assert math.isnan(run.wall_s[2])
    assert run.peak_delta_bytes[0] == 3 * MIB
    assert math.isnan(run.peak_delta_bytes[1])
    assert run.complete


def test_attempts_of_a_leg_are_separate_measurements() -> None:
    first = files_of({"01": [case("a", 1.0)], "02": [case("b", 1.0)]})
    rerun = files_of({"01": [case("a", 2.0)]}, run_attempt=2)
    earlier, run = runs_from_records(read_records({**first, **rerun}.items()), "x")
    assert run.wall_s.tolist() == [2.0, 1.0]
    assert (run.run_id, run.run_attempt) == (1, 2)
    assert earlier.wall_s.tolist() == [1.0]
    assert [key.case for key in earlier.keys] == ["a"]


def test_run_follows_the_measurement_before_whichever_of_its_legs_ran_again() -> None:
    first = files_of({"01": [case("a")]}, started_at="2026-11-01T10:00:00Z")
    failed = files_of({"02": [case("b", 1.0)]}, started_at="2026-11-01T10:00:09Z")
    rerun = {"started_at": "2026-11-01T11:00:00Z", "run_attempt": 2}
    files = {**first, **failed, **files_of({"02": [case("b", 2.0)]}, **rerun)}
    earlier, run = runs_from_records(read_records(files.items()), "x")
    assert [key.case for key in earlier.keys] == ["b"]
    assert [key.case for key in run.keys] == ["a", "b"]


def test_resumed_attempt_and_its_predecessor_are_one_measurement() -> None:
    started = [case("a", 1.0, at_s=1.0), died("b", "deadline", at_s=2.0)]
    first = files_of({"01": started}, ending=None)
    rerun = files_of({"01": [*started, case("b", 3.0, at_s=9.0, process=2)]}, run_attempt=2)
    (run,) = runs_from_records(read_records({**first, **rerun}.items()), "x")
    assert outcomes(run) == {"a": "passed", "b": "passed"}
    assert not run.flaky, "it was stopped, and did not fail"


def test_runs_are_sorted_by_time_then_number() -> None:
    files = {
        **files_of({"01": [case("a")]}, run_id=9, started_at="2026-11-01T10:00:00Z"),
        **files_of({"01": [case("a")]}, run_id=3, started_at="2026-11-02T10:00:00Z"),
        **files_of({"01": [case("a")]}, run_id=4, started_at="2026-11-02T10:00:00Z"),
        **files_of({"01": [case("a")]}, run_id=5, started_at="nonsense"),
    }
    assert [run.run_id for run in runs_from_records(read_records(files.items()), "x")] == [
        5,
        9,
        3,
        4,
    ]


def test_leg_without_an_end_or_with_damage_is_incomplete() -> None:
    assert not run_of({"01": [case("a")]}, ending=None).complete
    assert not run_of({"01": [case("a")]}, ending="deadline").complete
    files = files_of({"01": [case("a")]})
    damaged = {path: content + b"{" for path, content in files.items()}
    assert not runs_from_records(read_records(damaged.items()), "x")[-1].complete


def test_leg_has_wall_time_peak_and_machine() -> None:
    (leg,) = run_of({"01": [case("a")]}, wall_s=12.5, peak_mib=700).legs
    found = (leg.wall_s, leg.peak_bytes, leg.memory_bytes, leg.probe_s)
    assert found == (12.5, 700 * MIB, 16384 * MIB, 0.3)


def test_only_failed_results_have_messages() -> None:
    run = run_of(
        {"01": [case("a", outcome="failed", message="boom"), case("b", message="captured")]}
    )
    assert {key.case: text for key, text in run.messages.items()} == {"a": "boom"}


def test_no_records_give_no_runs() -> None:
    assert runs_from_records((), "x") == ()
    run = run_of({"01": []})
    assert run.keys == ()
    assert run.wall_s.dtype == np.float64
