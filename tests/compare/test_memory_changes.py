"""Peak deltas of tests against the baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compare.past_runs import TESTS, Past, factor, names

from ciguard.compare.compare_runs import compare_run
from ciguard.compare.run_columns import CODE
from ciguard.compare.wording import change_text, headline


def test_memory_with_one_base_run_is_shown_without_a_verdict() -> None:
    past = Past(1)
    found = compare_run(past.run(9, peak=factor(50, 1.6)), None, past.bases)
    (change,) = found.memory.losses
    assert names(found.memory.losses) == ["unjudged t00050"]
    assert (change.tier, change_text(change)) == ("unjudged", "+60 % (n=1)")
    assert found.memory.verdict == "not enough data"
    assert (change.z, change.low, change.high) == (None, None, None)


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


def test_memory_measured_differently_is_not_compared() -> None:
    past = Past(12)
    candidate = past.run(99, peak=factor(50, 1.6))
    found = compare_run(replace(candidate, measured_by=candidate.measured_by + 1), None, past.bases)
    assert found.memory.verdict == "not measured"
    assert "60 tests not judged: their baseline was measured in another way" in headline(found).text


def test_headline_counts_tests_whose_memory_was_not_judged() -> None:
    past = Past(12)
    candidate = past.run(99)
    other = candidate.measured_by.copy()
    other[:45] = CODE["measured_by"]["sample"]
    found = compare_run(replace(candidate, measured_by=other), None, past.bases)
    assert (found.memory.judged_tests, found.memory.measured_otherwise) == (15, 45)
    share = "45 of 60 not judged: their baseline was measured in another way"
    assert f"memory (15 tests judged, n=12), {share}" in headline(found).text
