"""Wall times and peak deltas of tests against the baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from compare.compare_factories import MIB, case, column_run, files_of, run_of
from compare.past_runs import TESTS, Past, factor, names

from ciguard.codec.record.reader import read_records
from ciguard.compare import view
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Note, triggered
from ciguard.compare.json import json_text, read_comparison
from ciguard.compare.run_columns import Run
from ciguard.compare.view import document
from ciguard.compare.wording import change_text, headline, measure_text, value_texts
from ciguard.history.file import CODE
from ciguard.history.ingest import history_of
from ciguard.render.plaintext import as_text
from ciguard.text import duration


def test_slowdown_in_one_run_is_a_suspect_and_not_listed() -> None:
    past = Past(12)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert found.durations.suspects >= 1
    assert not found.durations.listed
    assert found.durations.verdict == "suspects"
    assert found.state == "same"
    assert "duration: nothing confirmed, " in headline(found)


def test_slowdown_in_two_runs_is_confirmed() -> None:
    past = Past(12)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert names(found.durations.listed) == ["confirmed t00050"]
    assert found.durations.verdict == "regressed"
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=past.run(98))
    assert not found.durations.listed


def test_nine_baseline_runs_confirm_no_duration() -> None:
    past = Past(9)
    first = past.run(98, wall=factor(50, 1.5))
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases, previous=first)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_two_baseline_runs_give_numbers_without_a_verdict() -> None:
    past = Past(2)
    found = compare_run(past.run(99, wall=factor(50, 1.5)), None, past.bases)
    assert found.durations.verdict == "not enough data"
    assert "no verdict from 2 baseline values a test (3 are needed)" in measure_text(
        found.durations
    )
    assert {change.tier for change in found.durations.losses} == {"unjudged"}
    assert found.state == "inconclusive"


def test_a_table_has_times_as_measured_and_changes_at_equal_speed() -> None:
    past = Past(12)
    halved = 0.5 * factor(50, 4.0)  # a runner that is twice as fast, and a test 4 times as slow
    found = compare_run(past.run(99, wall=halved), None, past.bases)
    (change,) = found.durations.listed
    before = past.wall[50]
    assert change.before == pytest.approx(before, rel=0.1)
    assert change.measured == pytest.approx(2 * before, rel=0.1)
    assert change.after == pytest.approx(4 * before, rel=0.1)
    text = as_text(document(found))
    assert "change at equal speed" in text
    assert duration(change.measured) in text
    assert duration(change.after) not in text


def with_a_short_test() -> Past:
    past = Past(12)
    past.wall[50] = 0.02
    past.bases = [past.run(n + 1) for n in range(12)]
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


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 3.0), (0.1, 1.5), (2.0, 7.0)])
@pytest.mark.parametrize("runs", [1, 2, 3, 11])
def test_large_slowdown_in_one_run_is_listed(runs: int, before_s: float, after_s: float) -> None:
    past = Past(runs)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(runs)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    tier = "suspect" if runs >= 3 else "unjudged"
    assert names(found.durations.listed) == [f"{tier} t00050"]
    assert "1 test took at least 3 times as long" in headline(found)


@pytest.mark.parametrize(("before_s", "after_s"), [(0.02, 0.9), (1.0, 2.5)])
def test_small_slowdown_in_one_run_is_not_listed(before_s: float, after_s: float) -> None:
    past = Past(11)
    past.wall[50] = before_s
    past.bases = [past.run(n + 1) for n in range(11)]
    found = compare_run(past.run(99, wall=factor(50, after_s / before_s)), None, past.bases)
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_large_slowdown_in_a_noisy_run_is_listed() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud * factor(50, 8.0)), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert names(found.durations.listed) == ["unjudged t00050"]
    assert "1 test took at least 3 times as long" in headline(found)


@pytest.mark.parametrize(
    ("before_s", "after_s"),
    [((3.0, 1.0), 6.0), ((0.0, 0.0), 3.0)],
    ids=["of a variable test", "from zero: JUnit XML rounds to milliseconds"],
)
def test_large_slowdown_is_listed(before_s: tuple[float, float], after_s: float) -> None:
    past = Past(11)
    for run in past.bases:
        run.wall_s[50] = before_s[(run.run_id or 0) % 2]
    head = past.run(99)
    head.wall_s[50] = after_s
    assert names(compare_run(head, None, past.bases).durations.listed) == ["suspect t00050"]


@pytest.mark.parametrize("tests", [TESTS, 10, 4])
def test_leg_three_times_as_long_is_no_slow_runner(tests: int) -> None:
    bases = [column_run(np.full(tests, 0.6), run_id=n) for n in range(1, 12)]
    found = compare_run(column_run(np.full(tests, 2.4), run_id=99), None, bases)
    assert len(found.durations.listed) == tests
    assert found.durations.listed[0].after == pytest.approx(2.4)
    assert found.state == "suspect"


def test_large_slowdown_ratio_is_listed_among_larger_absolute_ones() -> None:
    wall = np.concatenate([np.full(60, 100.0), np.full(200, 1.0), [0.5]])
    bases = [column_run(wall, run_id=n) for n in range(1, 12)]
    worse = np.concatenate([np.full(60, 150.0), np.full(200, 1.0), [2.5]])
    found = compare_run(column_run(worse, run_id=99), None, bases)
    assert names(found.durations.listed) == ["suspect t00260"]


def test_doubled_total_duration_is_a_suspect() -> None:
    bases = [column_run([0.02, 0.1, *[0.5] * 6], run_id=n) for n in range(1, 12)]
    found = compare_run(column_run([0.02, 0.1, 4.0, *[0.5] * 5], run_id=99), None, bases)
    assert found.state == "suspect"
    assert "8 tests that passed in both runs took 6.62 s, 3.12 s before" in headline(found)
    slow = column_run([0.02, 0.1, *[1.1] * 6], run_id=99)  # nothing of it is large by itself
    assert compare_run(slow, None, bases).state == "suspect"


def test_doubled_shard_time_is_a_suspect() -> None:
    past = Past(11)
    head = past.run(99)
    head = replace(head, legs=tuple(replace(leg, wall_s=250.0) for leg in head.legs))
    found = compare_run(head, None, past.bases)
    assert found.state == "suspect"
    assert "all shards together took 4 min 10 s, 1 min 40 s before" in headline(found)


def test_doubled_total_with_two_baseline_runs_is_inconclusive() -> None:
    bases = [column_run(np.full(30, 0.5), run_id=n) for n in (1, 2)]
    found = compare_run(column_run(np.full(30, 1.2), run_id=99), None, bases)
    assert found.state == "inconclusive"


def test_a_slower_runner_is_no_regression() -> None:
    past = Past(12)
    slow = np.full(TESTS, 1.4)
    found = compare_run(past.run(99, wall=slow), None, past.bases, previous=past.run(98, wall=slow))
    assert not found.durations.listed
    assert found.legs[0].speed == pytest.approx(1.4, rel=0.02)


def test_noisy_run_is_not_judged() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS))
    found = compare_run(past.run(99, wall=loud), None, past.bases)
    assert found.durations.verdict == "too noisy to judge"
    assert found.durations.noise_ratio is not None
    assert found.durations.noise_ratio > 1.5
    assert not found.durations.losses
    assert found.memory.verdict == "no significant difference"


def test_noisy_run_confirms_nothing() -> None:
    past = Past(12)
    loud = np.exp(np.random.default_rng(1).normal(0, 0.3, TESTS)) * factor(50, 2.0)
    found = compare_run(
        past.run(99, wall=factor(50, 2.0)), None, past.bases, previous=past.run(98, wall=loud)
    )
    assert "suspect t00050" in names(found.durations.losses)
    assert not found.durations.listed


def test_suspects_are_all_counted_and_the_forty_largest_listed() -> None:
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


def test_failed_test_is_not_compared() -> None:
    base = [run_of({"01": [case("a", 1.0, 100)]}, run_id=n) for n in range(1, 4)]
    head = run_of({"01": [case("a", 5.0, 500, outcome="failed")]}, run_id=9)
    found = compare_run(head, None, base)
    assert found.durations.verdict == found.memory.verdict == "not measured"
    assert Note("not_passed", 1) in found.notes


def test_values_of_a_dead_leg_are_excluded_from_the_baseline() -> None:
    bases = [
        run_of({"01": [case("a", 1.0, 100)]}, run_id=n, ending="deadline" if n < 3 else "completed")
        for n in range(1, 5)
    ]
    found = compare_run(run_of({"01": [case("a", 1.0, 160)]}, run_id=9), None, bases)
    (change,) = found.memory.losses
    assert (change.n, change.tier) == (2, "unjudged")


def test_memory_with_one_base_run_is_shown_without_a_verdict() -> None:
    past = Past(1)
    found = compare_run(past.run(9, peak=factor(50, 1.6)), None, past.bases)
    (change,) = found.memory.losses
    assert names(found.memory.losses) == ["unjudged t00050"]
    assert (change.tier, change_text(change)) == ("unjudged", "+60 % (n=1)")
    assert found.memory.verdict == "not enough data"
    assert (change.z, change.low, change.high) == (None, None, None)
    less = compare_run(past.run(9, peak=factor(50, 0.4)), None, past.bases)
    assert not less.memory.listed, "a gain without a verdict needs no answer"


@pytest.mark.parametrize("runs", [3, 9])
def test_memory_of_few_base_runs_gives_a_suspect(runs: int) -> None:
    past = Past(runs)
    hurt = factor(50, 1.6)
    found = compare_run(past.run(98, peak=hurt), None, past.bases, previous=past.run(97, peak=hurt))
    assert names(found.memory.losses) == ["suspect t00050"]
    assert found.state == "suspect"


def test_memory_increase_is_suspect_in_one_run_confirmed_in_two() -> None:
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


def test_memory_measured_differently_confirms_nothing() -> None:
    past = Past(10)
    head, first = (past.run(n, peak=factor(50, 1.25)) for n in (98, 97))
    other = np.full(TESTS, CODE["measured_by"]["sample"], np.uint8)
    found = compare_run(head, None, past.bases, previous=replace(first, measured_by=other))
    assert names(found.memory.losses) == ["suspect t00050"]


@pytest.mark.parametrize(
    ("test", "growth"),
    [(50, 1.02), (0, 4.0)],  # under 3 %; 1 MiB -> 4 MiB is under 4 MiB
)
def test_memory_increase_below_the_floors_is_ignored(test: int, growth: float) -> None:
    past = Past(12)
    found = compare_run(past.run(99, peak=factor(test, growth)), None, past.bases)
    assert not found.memory.losses
    assert found.memory.verdict == "no significant difference"


def test_the_other_mode_of_a_bimodal_test_is_no_loss() -> None:
    past = Past(11)
    past.bases.append(past.run(50, peak=factor(50, 1.3)))
    found = compare_run(past.run(99, peak=factor(50, 1.3)), None, past.bases)
    assert not found.memory.losses


def test_memory_decrease_is_an_improvement() -> None:
    past = Past(12)
    less = factor(50, 0.5)
    found = compare_run(past.run(99, peak=less), None, past.bases, previous=past.run(98, peak=less))
    assert names(found.memory.gains) == ["confirmed t00050"]
    assert (found.memory.verdict, found.state) == ("improved", "better")


@pytest.mark.parametrize(
    ("others", "text"), [(60, "60 tests not"), (45, "memory (15 tests judged, n=12), 45 of 60 not")]
)
def test_memory_measured_differently_is_not_compared(others: int, text: str) -> None:
    past = Past(12)
    candidate = past.run(99, peak=factor(40, 1.6))
    measured_by = candidate.measured_by + (np.arange(60) < others)
    found = compare_run(replace(candidate, measured_by=measured_by), None, past.bases)
    assert (found.memory.judged_tests, found.memory.measured_otherwise) == (60 - others, others)
    assert f"{text} judged: their baseline was measured in another way" in headline(found)


def bounded(before: float | None, after: float | None) -> dict[str, Any]:
    """A memory measured from outside, in MiB above 50 MiB before the test."""
    sizes = [None if mib is None else round((50 + mib) * MIB) for mib in (before, after)]
    names_ = ("rss_before_bytes", "peak_lower_bytes", "peak_upper_bytes")
    return dict(zip(names_, (50 * MIB, *sizes), strict=True))


def interval_run(
    run_id: int, lower: float | None = 10.0, upper: float | None = 12.2, **more: Any
) -> Run:
    """Tests of a framework whose memory is measured from outside; "a" has the bounds."""
    results = [case("a", mib=None, **bounded(lower, upper), **more)]
    results += [case(f"b{n}", mib=None, **bounded(4.0 + n, 5.0 + n)) for n in range(30)]
    return run_of({"01": results}, run_id=run_id)


def test_disjoint_intervals_are_a_loss_by_their_nearer_bounds() -> None:
    uppers = [12.2, 0.012, 7.8, 0.1, 12.0, 0.5, 0.02, 3.0, 0.012, 9.0]  # however far they vary
    bases = [interval_run(n, None, upper) for n, upper in enumerate(uppers)]
    once = compare_run(interval_run(20, 120.6, 130), None, bases)
    assert names(once.memory.losses) == ["suspect a"]
    (change,) = once.memory.losses
    assert (change.is_bound, change.low, change.n) == (True, None, 10)
    assert change_text(change) == "at least +108 MiB (n=10)"
    assert value_texts(change) == ("<= 12.2 MiB", ">= 121 MiB")
    assert "1 suspect (31 tests judged, n=10)" in headline(once)
    # The upper bound is not known where a child process ended during the test.
    first = interval_run(19, 121, None)
    twice = compare_run(interval_run(20, 120.6, None), None, bases, previous=first)
    assert names(twice.memory.losses) == ["confirmed a"]
    assert read_comparison(json_text(twice).encode(), "") == twice


@pytest.mark.parametrize(("lower", "listed"), [(28.0, []), (29.0, ["unjudged a"])])
def test_bounds_of_a_single_run_are_listed_if_far_apart(lower: float, listed: list[str]) -> None:
    found = compare_run(interval_run(20, lower, 40), None, [interval_run(1)])  # up to 12.2 MiB
    assert names(found.memory.losses) == listed


def test_cases_that_share_their_start_are_one_row() -> None:
    def run(run_id: int, lower: float, upper: float) -> Run:
        more = {"mib": None, **bounded(lower, upper)}
        cases = [case("f", case=f"t{60 - n}", at_s=n, **more) for n in range(60)]
        return run_of({"01": [*cases, case("g", **more)]}, run_id=run_id)

    found = compare_run(run(20, 120.6, 130), None, [run(n, 10, 12.2) for n in range(10)])
    file, alone = found.memory.losses
    assert (file.key.case, alone.key.case, alone.cases) == ("t60", "g", 1)
    assert change_text(file) == "at least +108 MiB (n=10, any of 60 tests measured together)"
    assert "2 suspects (61 tests judged, n=10)" in headline(found)
    assert read_comparison(json_text(found).encode(), "") == found


def test_disjoint_intervals_are_a_gain() -> None:
    bases = [interval_run(n, 119 + n, 130) for n in range(10)]
    found = compare_run(interval_run(20), None, bases, previous=interval_run(19))
    assert names(found.memory.gains) == ["confirmed a"]
    (change,) = found.memory.gains
    assert change_text(change) == "at least -107 MiB (n=10)"
    assert value_texts(change) == (">= 119 MiB", "<= 12.2 MiB")


@pytest.mark.parametrize(
    ("upper", "candidate"),
    [
        ([12.2, 12.2, 118, 12.2], (120.6, 130.0)),  # overlaps one by less than 4 MiB
        ([12.2] * 3 + [None], (11.0, 300.0)),
        ([None] * 4, (120.6, 130.0)),  # each may have been as large
        ([12.2] * 3 + [None] * 4, (120.6, 130.0)),  # most may have been
        ([12.2] * 4, (None, 130.0)),  # several at once: no lower bound
        ([12.2] * 4, (25.0, 130.0)),  # less than 16 MiB more
    ],
)
def test_intervals_that_may_overlap_are_no_change(
    upper: list[float | None], candidate: tuple[float | None, float]
) -> None:
    bases = [interval_run(n, upper=value) for n, value in enumerate(upper)]
    assert not compare_run(interval_run(20, *candidate), None, bases).memory.losses


@pytest.mark.parametrize("before", [60, None])
def test_larger_sample_with_child_processes_is_a_loss(before: float | None) -> None:
    def exact(run_id: int, lower: float | None) -> Run:
        return interval_run(run_id, lower, None, peak_delta_bytes=20 * MIB, measured_by="mark")

    bases = [exact(n, before) for n in range(12)]
    found = compare_run(exact(20, 300), None, bases, previous=exact(19, 300))
    assert names(found.memory.losses) == ["confirmed a"]
    assert value_texts(found.memory.losses[0]) == (f"{before or 20:.1f} MiB", "300 MiB")
    # A sample may miss a small child: it is no loss when it is seen, and less is no gain.
    assert bool(compare_run(exact(20, 70), None, bases).memory.losses) == (before is not None)
    found = compare_run(exact(20, None), None, bases, previous=exact(19, None))
    assert not found.memory.gains


def test_history_has_the_intervals_of_its_runs() -> None:
    results = [case("a", mib=None, **bounded(10, 12.2))]
    files: dict[str, bytes] = {}
    for n in range(1, 11):
        files |= files_of({"01": results}, run_id=n, head_sha="5" * 40)
    kept = history_of(read_records(files.items()))
    found = compare_run(interval_run(20, 120.6, None), kept)
    assert [change_text(change) for change in found.memory.losses] == ["at least +108 MiB (n=10)"]


def in_standing(run: Run, word: str, test: int = 50) -> Run:
    """The run, one of whose tests has another standing than the others, which ran later."""
    standing = np.full(TESTS, CODE["standing"]["later"], np.uint8)
    standing[test] = CODE["standing"][word]
    return replace(run, standing=standing)


@pytest.mark.parametrize("word", ["first", "restarted"])
def test_test_that_begins_a_process_is_compared_with_its_like(word: str) -> None:
    past = Past(10)
    bases = [in_standing(run, "later") for run in past.bases]
    hurt = {"peak": factor(50, 1.6), "wall": factor(50, 9.0)}
    heads = [in_standing(past.run(n, **hurt), word) for n in (98, 99)]
    found = compare_run(heads[1], None, bases, previous=heads[0])
    assert not found.memory.losses
    assert not found.durations.losses
    assert (found.memory.paid_once, found.durations.paid_once) == (1, 1)
    page = "\n".join(view._notes(found))
    assert "Peak memory of 1 test not judged: one-time costs of a process" in page
    assert "Duration of 1 test not judged" in page
    alike = [in_standing(run, word) for run in past.bases]
    found = compare_run(heads[1], None, alike, previous=heads[0])
    assert names(found.memory.losses) == ["confirmed t00050"]
    # An older history does not know the standing.
    found = compare_run(heads[1], None, past.bases, previous=heads[0])
    assert names(found.memory.losses) == ["confirmed t00050"]


def test_value_of_a_test_that_began_its_process_completes_a_short_baseline() -> None:
    past = Past(3)
    bases = [
        in_standing(past.bases[0], "first"),
        *(in_standing(r, "later") for r in past.bases[1:]),
    ]
    hurt = {"peak": factor(50, 1.6), "wall": factor(50, 9.0)}
    found = compare_run(in_standing(past.run(99, **hurt), "later"), None, bases)
    assert names(found.memory.losses) == ["suspect t00050"]
    assert names(found.durations.losses) == ["suspect t00050"]
    assert (found.memory.losses[0].n, found.memory.paid_once) == (3, 0)
    # What the process paid once makes the baseline larger: a loss has to exceed it, and a gain may
    # be its absence.
    begun = [
        in_standing(past.run(n, peak=factor(50, 3.0), wall=factor(50, 9.0)), "first")
        for n in range(1, 4)
    ]
    found = compare_run(in_standing(past.run(99, **hurt), "later"), None, [begun[0], *bases[1:]])
    assert not found.memory.losses
    found = compare_run(in_standing(past.run(99), "later"), None, begun)
    assert not names(found.memory.gains)
    assert "suspect t00050" not in names(found.durations.gains)


@pytest.mark.parametrize(
    ("growth", "is_fixed", "expected"),
    [(1.12, False, []), (1.12, True, ["confirmed t00050"]), (1.6, False, ["confirmed t00050"])],
)
def test_loss_as_large_as_what_other_tests_had_once_is_not_judged_in_another_order(
    growth: float, is_fixed: bool, expected: list[str]
) -> None:
    past = Past(0)
    # In each run another test pays 50 MiB, as the first one that needs a cache.
    runs = [past.run(n, peak=factor(40 - n, 1.2)) for n in range(10)]
    runs += [past.run(n, peak=factor(50, growth)) for n in (98, 99)]
    firsts = [20 if is_fixed else n for n in range(12)]
    *bases, first, head = (
        in_standing(run, "first", n) for run, n in zip(runs, firsts, strict=True)
    )
    found = compare_run(head, None, bases, previous=first)
    assert names(found.memory.losses) == expected
    assert found.memory.paid_once == (not is_fixed) + (not expected)


def test_loss_beyond_what_a_process_keeps_is_judged() -> None:
    past = Past(0)
    kept = np.zeros(TESTS)
    bases = []
    for n in range(10):
        retained = kept.copy()
        retained[40 - n] = 0.19 * past.peak[40 - n]
        run = past.run(n, peak=factor(40 - n, 1.2))
        bases.append(replace(in_standing(run, "first", n), retained_bytes=retained))
    head = in_standing(past.run(99, peak=factor(50, 1.12)), "first", 20)
    head = replace(head, retained_bytes=kept)
    assert names(compare_run(head, None, bases).memory.losses) == []
    kept[3] = MIB  # a run without any retained memory has no baseline of it
    assert names(compare_run(head, None, bases).memory.losses) == ["suspect t00050"]


@pytest.mark.parametrize(("is_dead", "kept"), [(False, 90), (True, 90), (True, 10)])
def test_loss_after_a_death_is_judged_beyond_what_its_shard_kept(is_dead: bool, kept: int) -> None:
    past, is_judged = Past(10), not is_dead or kept < 60
    past.peak[50] = 100 * MIB
    bases = [in_standing(past.run(n), "later") for n in range(10)]
    head = past.run(99, peak=factor(50, 1.6), wall=factor(50, 9.0))
    dies, begins = np.flatnonzero(head.leg == head.leg[50])[:2]
    retained = np.where(np.arange(TESTS) == dies, kept * MIB, 0.0)
    *bases, head = (replace(run, retained_bytes=retained) for run in (*bases, head))
    process = np.where(head.leg == head.leg[50], 2, 1)
    head = replace(in_standing(head, "restarted", int(begins)), process=process)
    if is_dead:
        head.outcome[dies] = CODE["outcome"]["died"]
    found = compare_run(head, None, bases)
    assert names(found.memory.losses) == ["suspect t00050"] * is_judged
    assert names(found.durations.listed) == ["suspect t00050"] * (not is_dead)
    assert found.memory.paid_once == 2 - is_judged
    assert found.durations.paid_once == 1 + is_dead


def test_gpu_memory_of_tests_is_a_measure_of_its_own() -> None:
    def on_gpu(run_id: int, mib: float = 100.0) -> Run:
        results = [case(f"b{n}", gpu_peak_bytes=(200 + n) * MIB) for n in range(30)]
        results.append(case("a", gpu_peak_bytes=round((mib + run_id / 100) * MIB)))
        return run_of({"01": results}, run_id=run_id)

    bases = [on_gpu(n) for n in range(1, 13)]
    once = compare_run(on_gpu(20, 160.0), None, bases)
    assert (once.state, names(once.gpu_memory.losses)) == ("suspect", ["suspect a"])
    assert "peak GPU memory: nothing confirmed, 1 suspect" in headline(once)
    assert not once.memory.losses
    twice = compare_run(on_gpu(20, 160.0), None, bases, previous=on_gpu(19, 160.0))
    assert (twice.state, triggered(twice, {"gpu-memory"})) == ("worse", ("gpu-memory",))
    assert "Peak GPU memory of tests" in FORMATS["markdown"](twice)
    assert read_comparison(json_text(twice).encode(), "") == twice
    same = compare_run(on_gpu(20), None, bases, previous=on_gpu(19))
    assert (same.state, same.gpu_memory.judged_tests) == ("same", 31)
