"""The rule, clause by clause, on whole comparisons."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from compare.compare_factories import MIB, case, column_run, died, files_of, run_of
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Note
from ciguard.compare.headline import headline
from ciguard.compare.leg_changes import Total
from ciguard.compare.missing import IncompleteReason
from ciguard.compare.run_columns import CODE
from ciguard.compare.wording import measure_text
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.run_metadata import RunMetadata
from ciguard.text import percent

if TYPE_CHECKING:
    from ciguard.compare.comparison import Comparison
    from ciguard.compare.run_columns import Run
    from ciguard.compare.significance import CaseChange
    from ciguard.history.file import History

TESTS = 60
Floats = np.ndarray[Any, Any]


class Past:
    """Baseline runs of 60 tests with 2 % noise, and candidates of the same kind."""

    def __init__(self, runs: int, noise: float = 0.02) -> None:
        self.generator = np.random.default_rng(7)
        self.noise = noise
        self.wall = np.linspace(0.1, 3.0, TESTS)
        self.peak = np.linspace(1, 400, TESTS) * MIB
        self.bases = [self.run(n + 1) for n in range(runs)]

    def run(
        self, run_id: int, wall: Floats | None = None, peak: Floats | None = None, **more: Any
    ) -> Run:
        """A run of the same tests; `wall` and `peak` are factors."""
        walls = self.wall * np.exp(self.generator.normal(0, self.noise, TESTS))
        peaks = self.peak * np.exp(self.generator.normal(0, 0.004, TESTS))
        return column_run(
            walls * (1 if wall is None else wall),
            np.rint(peaks * (1 if peak is None else peak)),
            run_id=run_id,
            **more,
        )


def factor(test: int, value: float) -> Floats:
    found = np.ones(TESTS)
    found[test] = value
    return found


def names(changes: tuple[CaseChange, ...]) -> list[str]:
    return [f"{change.tier} {change.key.unit}" for change in changes]


# --- Memory --------------------------------------------------------------------------------------


def test_memory_of_one_base_run_is_told_without_a_verdict() -> None:
    past = Past(1)
    found = compare_run(past.run(9, peak=factor(50, 1.6)), None, past.bases)
    (change,) = found.memory.losses
    assert names(found.memory.losses) == ["unjudged t00050"]
    assert (change.tier, change.n, percent(change.ratio)) == ("unjudged", 1, "+60 %")
    assert found.memory.verdict == "not enough data"
    assert (change.z, change.low, change.high) == (None, None, None)


@pytest.mark.parametrize("runs", [3, 9])
def test_memory_of_few_base_runs_gives_a_suspect(runs: int) -> None:
    past = Past(runs)
    hurt = factor(50, 1.6)
    found = compare_run(past.run(98, peak=hurt), None, past.bases, previous=past.run(97, peak=hurt))
    assert names(found.memory.losses) == ["suspect t00050"]
    assert found.state == "suspect"


def test_memory_in_one_run_is_a_suspect_and_in_two_confirmed() -> None:
    past = Past(10)
    once = compare_run(past.run(98, peak=factor(50, 1.25)), None, past.bases)
    assert names(once.memory.losses) == ["suspect t00050"]
    first = past.run(97, peak=factor(50, 1.25))
    twice = compare_run(past.run(98, peak=factor(50, 1.25)), None, past.bases, previous=first)
    assert names(twice.memory.losses) == ["confirmed t00050"]
    (change,) = twice.memory.losses
    assert change.low is not None
    assert change.high is not None
    assert change.low < 0.25 < change.high
    assert change.n == 10
    assert (twice.memory.verdict, twice.state) == ("regressed", "worse")
    other = compare_run(
        past.run(98, peak=factor(50, 1.25)), None, past.bases, previous=past.run(97)
    )
    assert names(other.memory.losses) == ["suspect t00050"]


def test_memory_measured_in_another_way_confirms_nothing() -> None:
    past = Past(10)
    head, first = (past.run(n, peak=factor(50, 1.25)) for n in (98, 97))
    other = np.full(TESTS, CODE["measured_by"]["sample"], np.uint8)
    found = compare_run(head, None, past.bases, previous=replace(first, measured_by=other))
    assert names(found.memory.losses) == ["suspect t00050"]


@pytest.mark.parametrize(
    ("test", "growth"),
    [(50, 1.02), (0, 4.0)],  # under 3 %; 1 MiB -> 4 MiB is under 4 MiB
)
def test_memory_under_the_floors_is_nothing(test: int, growth: float) -> None:
    past = Past(12)
    found = compare_run(past.run(99, peak=factor(test, growth)), None, past.bases)
    assert not found.memory.losses
    assert found.memory.verdict == "no significant difference"


def test_the_other_mode_of_a_bimodal_test_is_no_loss() -> None:
    past = Past(11)
    past.bases.append(past.run(50, peak=factor(50, 1.3)))
    found = compare_run(past.run(99, peak=factor(50, 1.3)), None, past.bases)
    assert not found.memory.losses


def test_less_memory_is_a_gain() -> None:
    past = Past(12)
    less = factor(50, 0.5)
    found = compare_run(past.run(99, peak=less), None, past.bases, previous=past.run(98, peak=less))
    assert names(found.memory.gains) == ["confirmed t00050"]
    assert (found.memory.verdict, found.state) == ("improved", "better")


def test_memory_measured_in_another_way_is_not_compared() -> None:
    past = Past(12)
    candidate = past.run(99, peak=factor(50, 1.6))
    found = compare_run(replace(candidate, measured_by=candidate.measured_by + 1), None, past.bases)
    assert found.memory.verdict == "not measured"
    assert "60 tests not judged: their baseline was measured in another way" in headline(found).text


def test_the_headline_says_how_many_tests_memory_was_not_judged_of() -> None:
    past = Past(12)
    candidate = past.run(99)
    other = candidate.measured_by.copy()
    other[:45] = CODE["measured_by"]["sample"]
    found = compare_run(replace(candidate, measured_by=other), None, past.bases)
    assert (found.memory.judged_tests, found.memory.measured_otherwise) == (15, 45)
    share = "45 of 60 not judged: their baseline was measured in another way"
    assert f"memory (15 tests judged, n=12), {share}" in headline(found).text


# --- Durations -----------------------------------------------------------------------------------


def test_a_duration_in_one_run_is_a_suspect_and_is_not_named() -> None:
    past = Past(12)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert found.durations.suspects >= 1
    assert not found.durations.listed
    assert found.durations.verdict == "suspects"
    assert found.state == "same"
    assert "duration: nothing confirmed, " in headline(found).text


def test_a_duration_in_two_runs_is_confirmed() -> None:
    past = Past(12)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert names(found.durations.listed) == ["confirmed t00050"]
    assert found.durations.verdict == "regressed"
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=past.run(98))
    assert not found.durations.listed


def test_nine_runs_confirm_nothing() -> None:
    past = Past(9)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_two_runs_give_numbers_and_no_verdict() -> None:
    past = Past(2)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert found.durations.verdict == "not enough data"
    assert "no verdict from 2 baseline values a test (3 are needed)" in measure_text(
        found.durations
    )
    assert {change.tier for change in found.durations.losses} == {"unjudged"}
    assert found.state == "inconclusive"


def with_a_short_test(runs: int = 12) -> Past:
    past = Past(runs)
    past.wall[50] = 0.02
    past.bases = [past.run(n + 1) for n in range(runs)]
    return past


def test_a_test_under_50_ms_in_both_runs_is_not_judged() -> None:
    past = with_a_short_test()
    found = compare_run(past.run(99, wall=factor(50, 2.3)), None, past.bases)
    assert found.durations.judged_tests == TESTS - 1
    assert "t00050" not in [change.key.unit for change in found.durations.losses]


def test_a_test_under_50_ms_that_becomes_long_is_confirmed_by_a_second_run() -> None:
    past = with_a_short_test()
    first = past.run(98, wall=factor(50, 10.0))
    found = compare_run(past.run(99, wall=factor(50, 10.0)), None, past.bases, previous=first)
    assert names(found.durations.listed) == ["confirmed t00050"]


# --- Three times as long and 1 s longer ----------------------------------------------------------


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 3.0), (0.1, 1.5), (2.0, 7.0)])
@pytest.mark.parametrize("runs", [1, 2, 3, 11])
def test_a_large_loss_in_one_run_is_named(runs: int, before_s: float, after_s: float) -> None:
    past = Past(runs)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(runs)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    tier = "suspect" if runs >= 3 else "unjudged"
    assert names(found.durations.listed) == [f"{tier} t00050"]
    assert "1 test took at least 3 times as long" in headline(found).text


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 0.9), (1.0, 2.5)])
def test_a_loss_that_is_not_large_is_not_named(before_s: float, after_s: float) -> None:
    past = Past(11)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(11)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_a_large_loss_is_named_in_a_run_too_noisy() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud * factor(50, 8.0)), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert names(found.durations.listed) == ["unjudged t00050"]
    assert "1 test took at least 3 times as long" in headline(found).text


def test_a_large_loss_of_a_test_that_varies_is_named() -> None:
    past = Past(11)
    for run in past.bases:
        run.wall_s[50] = 1.0 if (run.run_id or 0) % 2 else 3.0
    head = past.run(99)
    head.wall_s[50] = 6.0
    assert names(compare_run(head, None, past.bases).durations.listed) == ["suspect t00050"]


@pytest.mark.parametrize("tests", [TESTS, 10, 4])
def test_a_whole_leg_three_times_as_long_is_no_slow_runner(tests: int) -> None:
    bases = [column_run(np.full(tests, 0.6), run_id=n) for n in range(1, 12)]
    found = compare_run(column_run(np.full(tests, 2.4), run_id=99), None, bases)
    assert len(found.durations.listed) == tests
    assert found.durations.listed[0].after == pytest.approx(2.4)
    assert found.state == "suspect"


def test_large_losses_are_named_beside_forty_larger_ones() -> None:
    wall = np.concatenate([np.full(60, 100.0), np.full(200, 1.0), [0.5]])
    bases = [column_run(wall, run_id=n) for n in range(1, 12)]
    worse = np.concatenate([np.full(60, 150.0), np.full(200, 1.0), [2.5]])
    found = compare_run(column_run(worse, run_id=99), None, bases)
    assert names(found.durations.listed) == ["suspect t00260"]


def test_a_test_of_no_measurable_time_that_becomes_long_is_named() -> None:
    past = Past(11)
    for run in past.bases:
        run.wall_s[50] = 0.0  # JUnit XML rounds to milliseconds
    head = past.run(99)
    head.wall_s[50] = 3.0
    assert names(compare_run(head, None, past.bases).durations.listed) == ["suspect t00050"]


def test_no_headline_says_no_difference_above_a_sum_that_doubled() -> None:
    bases = [column_run([0.02, 0.1, *[0.5] * 6], run_id=n) for n in range(1, 12)]
    found = compare_run(column_run([0.02, 0.1, 4.0, *[0.5] * 5], run_id=99), None, bases)
    assert found.state == "suspect"
    assert "8 tests that passed in both took 6.62 s, 3.12 s in the base" in headline(found).text
    slow = column_run([0.02, 0.1, *[1.1] * 6], run_id=99)  # nothing of it is large by itself
    assert compare_run(slow, None, bases).state == "suspect"


def test_no_headline_says_no_difference_above_legs_that_took_twice_as_long() -> None:
    past = Past(11)
    head = past.run(99)
    head = replace(head, legs=tuple(replace(leg, wall_s=250.0) for leg in head.legs))
    found = compare_run(head, None, past.bases)
    assert found.state == "suspect"
    assert "the shards took 4 min 10 s in sum, 1 min 40 s in the baseline" in headline(found).text


def test_a_sum_that_doubled_over_two_baseline_runs_has_no_verdict() -> None:
    bases = [column_run(np.full(30, 0.5), run_id=n) for n in (1, 2)]
    found = compare_run(column_run(np.full(30, 1.2), run_id=99), None, bases)
    assert found.state == "inconclusive"


def test_a_slower_runner_is_no_regression() -> None:
    past = Past(12)
    slow = np.full(TESTS, 1.4)
    found = compare_run(past.run(99, wall=slow), None, past.bases, previous=past.run(98, wall=slow))
    assert not found.durations.listed
    assert found.legs[0].speed == pytest.approx(1.4, rel=0.02)


def test_a_run_too_noisy_is_not_judged() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert found.durations.noise_ratio is not None
    assert found.durations.noise_ratio > 1.5
    assert not found.durations.losses
    assert found.memory.verdict == "no significant difference"


def test_a_run_too_noisy_confirms_nothing() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS)) * factor(50, 2.0)
    found = compare_run(
        past.run(99, wall=factor(50, 2.0)), None, past.bases, previous=past.run(98, wall=loud)
    )
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_of_many_suspects_the_forty_largest_are_kept_and_all_are_counted() -> None:
    past = Past(12, noise=0.002)
    worse = np.where(np.arange(TESTS) >= 10, 1.0, 1.0)
    worse[5:55:1] = np.where(np.arange(50) % 2, 1.3, 1.0)
    past.wall = np.linspace(2.0, 3.0, TESTS)
    past.bases = [past.run(n + 1) for n in range(12)]
    walls = np.tile(past.wall, 4)
    many = [np.tile(run.wall_s, 4) for run in past.bases]
    bases = [column_run(wall, run_id=n + 1) for n, wall in enumerate(many)]
    found = compare_run(column_run(walls * np.tile(worse, 4), run_id=99), None, bases)
    assert found.durations.suspects == 100
    assert len(found.durations.losses) == 40
    amounts = [change.after - change.before for change in found.durations.losses]
    assert amounts == sorted(amounts, reverse=True)


def test_missing_is_never_zero() -> None:
    past = Past(12)
    hole = np.where(np.arange(TESTS) == 50, np.nan, 1.0)
    found = compare_run(past.run(99, wall=hole, peak=hole), None, past.bases)
    for measure_verdict in (found.durations, found.memory):
        assert "t00050" not in [change.key.unit for change in measure_verdict.gains]
    assert {one.name: one.n for one in found.totals}["tests_s"] == TESTS - 1


def test_what_did_not_pass_is_not_measured() -> None:
    base = [run_of({"01": [case("a", 1.0, 100)]}, run_id=n) for n in range(1, 4)]
    head = run_of({"01": [case("a", 5.0, 500, outcome="failed")]}, run_id=9)
    found = compare_run(head, None, base)
    assert found.durations.verdict == found.memory.verdict == "not measured"
    assert Note("not_passed", 1) in found.notes


def test_values_of_a_leg_that_died_are_no_baseline() -> None:
    bases = [
        run_of({"01": [case("a", 1.0, 100)]}, run_id=n, ending="deadline" if n < 3 else "completed")
        for n in range(1, 5)
    ]
    found = compare_run(run_of({"01": [case("a", 1.0, 160)]}, run_id=9), None, bases)
    (change,) = found.memory.losses
    assert (change.n, change.tier) == (2, "unjudged")


# --- Whole runs ----------------------------------------------------------------------------------


def test_a_run_against_itself_is_never_a_finding() -> None:
    past = Past(12)
    run = past.run(99, wall=factor(50, 3.0), peak=factor(50, 3.0))
    found = compare_run(run, None, [*past.bases, run], previous=run)
    for measure_verdict in (found.durations, found.memory):
        assert not measure_verdict.listed
        assert not measure_verdict.of_tier("confirmed")
    copy = replace(run, name="copy")
    found = compare_run(run, None, [copy])
    assert found.unjudged_reason == "same run"
    assert not found.memory.losses
    assert not found.durations.losses


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e4) | st.none(),
            st.floats(0, 1e6) | st.none(),
            st.sampled_from(["passed", "failed", "skipped", "died"]),
        ),
        max_size=40,
    )
)
def test_any_run_against_itself_is_never_a_finding(
    values: list[tuple[float | None, float | None, str]],
) -> None:
    results = [
        case(f"t{n}", wall, mib, outcome=outcome, retained_bytes=None if mib is None else int(mib))
        for n, (wall, mib, outcome) in enumerate(values)
    ]
    run = run_of({"01": results})
    rerun = run_of({"01": results})
    for found in (
        compare_run(run, None, [rerun]),
        compare_run(replace(run, run_id=99), None, [replace(rerun, run_id=n) for n in range(12)]),
        compare_run(run, None, [rerun] * 12, previous=replace(rerun, run_id=98)),
    ):
        _nothing_is_found(found)


def _nothing_is_found(found: Comparison) -> None:
    assert not found.jobs
    assert not [leak for leak in found.leaks if leak.tier != "unjudged"]
    assert found.suite_speed.verdict in (
        "no significant difference",
        "not enough data",
        "not measured",
    )
    assert not (*found.durations.losses, *found.durations.gains)
    assert not (*found.memory.losses, *found.memory.gains)
    assert {one.kind for one in found.transitions} <= {"failing_on_both"}
    assert found.state in ("same", "inconclusive")


LOST_LEG = {"02": [case("c"), case("d")]}


def test_an_incomplete_run_is_never_better() -> None:
    base = run_of({"01": [case("a", outcome="failed"), case("b")], **LOST_LEG})
    for legs, facts in (
        ({"01": [case("a"), case("b")], **LOST_LEG}, {"ending": "deadline"}),
        ({"01": [case("a"), case("b")], **LOST_LEG}, {"ending": None}),
        ({"02": [case("a"), case("b"), case("c"), case("d")]}, {}),
    ):
        found = compare_run(run_of(legs, run_id=2, **facts), None, [base])
        assert found.state == "incomplete", facts
        assert headline(found).text.startswith("INCOMPLETE: ")
        assert [one.key.unit for one in found.of_kind("fixed")] == ["a"]


def test_what_vanished_without_a_word_is_no_gain() -> None:
    base = run_of({"01": [case("a", outcome="failed"), case("b", outcome="failed")]})
    found = compare_run(run_of({"01": [case("a")]}, run_id=2), None, [base])
    assert found.state == "inconclusive"
    assert "1 no longer run; 1 fixed" in headline(found).text


def test_a_missing_shard_is_seen_by_its_number() -> None:
    base = run_of({key: [case(key)] for key in ("01", "02", "03", "04")})
    head = run_of({key: [case(key)] for key in ("01", "03", "04")}, run_id=2)
    found = compare_run(head, None, [base])
    assert found.incomplete_reasons == (IncompleteReason("no_record", ("02",)),)
    (leg,) = [leg for leg in found.legs if leg.shard == "02"]
    assert (leg.before, leg.after) == ("completed", None)


def test_survivors_are_compared_only_with_themselves() -> None:
    base = run_of({"01": [case("a", 1.0)], "02": [case("b", 100.0)]})
    head = run_of({"01": [case("a", 1.0)]}, run_id=2, ending="deadline")
    found = compare_run(head, None, [base])
    assert Total("tests_s", 1.0, 1.0, 1) in found.totals
    assert [one.name for one in found.totals if one.after is not None] == ["tests_s"]


STATES: list[tuple[list[Any], list[Any], str]] = [
    ([case("a")], [case("a", outcome="failed")], "worse"),
    ([case("a")], [died("a", "timeout")], "worse"),
    ([case("a", outcome="failed")], [case("a")], "better"),
    ([case("a", outcome="failed"), case("b")], [case("a"), died("b", "crash")], "mixed"),
    ([case("a")], [case("a"), case("b")], "inconclusive"),
    ([case("a"), case("b")], [case("a"), case("b", outcome="skipped")], "inconclusive"),
]


@pytest.mark.parametrize(("before", "after", "state"), STATES)
def test_the_state_of_transitions(before: list[Any], after: list[Any], state: str) -> None:
    found = compare_run(run_of({"01": after}, run_id=2), None, [run_of({"01": before})])
    assert found.state == state


def test_null_results_are_said() -> None:
    past = Past(12)
    found = compare_run(past.bases[5], None, past.bases[:5] + past.bases[6:])
    assert found.memory.verdict == "no significant difference"
    evaluated = "(60 tests judged, n=11)"
    assert headline(found).text.startswith(
        f"NO SIGNIFICANT DIFFERENCE: peak memory {evaluated}; duration"
    )


def test_a_skipped_test_is_no_null_result() -> None:
    past = Past(12)
    head = past.bases[5]
    skipped = np.array(head.outcome)
    skipped[7] = CODE["outcome"]["skipped"]
    found = compare_run(
        replace(head, outcome=skipped), None, past.bases[:5] + past.bases[6:], previous=None
    )
    assert found.state == "inconclusive"
    assert headline(found).text.startswith(
        "INCONCLUSIVE: 1 newly skipped; peak memory: no significant"
    )


def test_without_a_base_there_are_no_transitions() -> None:
    found = compare_run(run_of({"01": [case("a")]}))
    assert found.base is None
    assert found.state == "inconclusive"
    assert not found.transitions


# --- History -------------------------------------------------------------------------------------


def history_runs(count: int, mib: float = 100.0, **facts: Any) -> History:
    """Runs 1..count on main, one a day from 2026-11-01."""
    found: History | None = None
    for n in range(1, count + 1):
        values = {"run_id": n, "started_at": f"2026-11-{n:02}T10:00:00Z", "event": "push", **facts}
        files = files_of({"01": [case("a", 1.0 + n / 1000, mib)]}, **values)
        one = history_of(read_records(files.items()), RunMetadata())
        found = one if found is None else merge(found, one)
    assert found is not None
    return found


def head(mib: float = 160.0, day: int = 25, **facts: Any) -> Run:
    values = {"run_id": 99, "started_at": f"2026-11-{day:02}T10:00:00Z", "branch": "topic"}
    return run_of({"01": [case("a", 1.0, mib)]}, "head", **{**values, **facts})


def test_a_run_against_the_history() -> None:
    found = compare_run(head(), history_runs(12))
    assert names(found.memory.losses) == ["suspect a"]
    assert found.memory.losses[0].n == 12
    assert found.base is not None
    assert found.base.run_id == 12
    assert [run.run_id for run in found.baseline.runs] == list(range(1, 13))


def test_at_most_twenty_runs_are_a_baseline() -> None:
    found = compare_run(head(), history_runs(24))
    assert len(found.baseline.runs) == 20
    assert found.memory.losses[0].n == 20


def left_out(found: Comparison) -> dict[int, str]:
    return {one.run_id: one.reason for one in found.baseline.excluded_runs}


def test_runs_that_are_no_baseline_and_why() -> None:
    history = history_runs(3)
    assert left_out(compare_run(head(run_id=2), history)) == {2: "candidate"}
    early = compare_run(head(day=2), history)
    assert left_out(early) == {2: "not_before", 3: "not_before"}
    pulls = history_runs(3, event="pull_request")
    assert set(left_out(compare_run(head(), pulls)).values()) == {"pull_request"}
    rest = history_runs(3, workflow="nightly.yml")
    found = compare_run(head(workflow="tests.yml"), rest)
    assert set(left_out(found).values()) == {"other_workflow"}
    base = run_of({"01": [case("a", 1.0, 100)]}, run_id=50, branch="release")
    found = compare_run(head(), history, [base])
    assert set(left_out(found).values()) == {"other_branch"}
    assert [run.run_id for run in found.baseline.runs] == [50]


def test_a_base_that_the_history_has_is_counted_once() -> None:
    history = history_runs(5)
    base = run_of({"01": [case("a", 1.0, 100)]}, run_id=5, started_at="2026-11-05T10:00:00Z")
    found = compare_run(head(), history, [base])
    assert found.memory.losses[0].n == 5
    extra = run_of({"01": [case("a", 1.0, 100)]}, run_id=6, started_at="2026-11-06T10:00:00Z")
    found = compare_run(head(), history, [extra])
    assert found.memory.losses[0].n == 6
    assert found.base is not None
    assert found.base.run_id == 6


def test_a_run_without_a_date_takes_all_of_the_history() -> None:
    undated = head(started_at=None)
    assert undated.at is None
    assert len(compare_run(undated, history_runs(4)).baseline.runs) == 4
    assert head().at == datetime(2026, 11, 25, 10, tzinfo=UTC)
