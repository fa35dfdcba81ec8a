"""The search of `ciguard culprit`: its posterior by brute force, its tries, how often it errs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from pathlib import Path
from statistics import median
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ciguard.culprit.search import (
    DOUBT,
    LEAST_RATE,
    MIN_BITS,
    TAILS,
    UNCHANGED,
    Belief,
    believe,
    failure_model,
    has_converged,
    next_commit,
    size_model,
    smallest_set,
)

# Not for long: names of benchmarks are those of folders of tests, too.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from culprit_histories import Found, Kind, draw, search

sys.path.pop(0)

Tries = Sequence[tuple[int, float]]
Weight = Callable[[float], float]
PASS, FAIL = 0.0, 1.0
FLAKY = failure_model((2, 18))
STEADY = failure_model((0, 20))
KINDS: tuple[Kind, ...] = ("failures", "memory", "durations")


def beta(failures: float, passes: float) -> Weight:
    return lambda rate: rate ** (failures - 1) * (1 - rate) ** (passes - 1)


def posterior(
    prior: Sequence[float],
    tries: Tries,
    levels: Sequence[float],
    likelihood: Callable[[float, float], float],
    *,
    weights: tuple[Weight, Weight, Sequence[Weight]],
    least: float,
) -> list[float]:
    """Return the probability of "unchanged" and of each commit, added up level by level.

    Args:
        weights: of a level before a change, after it, and without one: a mixture of even parts.
    """
    before, after, same = weights
    pairs = [pair for pair in product(levels, levels) if pair[1] - pair[0] >= least]
    share = [before(low) * after(high) for low, high in pairs]
    chances = [0.0]
    for part in same:
        each = [part(x) * prod(likelihood(value, x) for _, value in tries) for x in levels]
        chances[0] += UNCHANGED * sum(each) / sum(map(part, levels)) / len(same)
    for first_bad, own in enumerate(prior, start=1):
        each = [
            w * prod(likelihood(value, pair[position >= first_bad]) for position, value in tries)
            for w, pair in zip(share, pairs, strict=True)
        ]
        chances.append((1 - UNCHANGED) * own / sum(prior) * sum(each) / sum(share))
    return [chance / sum(chances) for chance in chances]


def chances(belief: Belief) -> list[float]:
    return [belief.unchanged, *belief.first_bad.tolist()]


@pytest.mark.parametrize(
    "tries",
    [
        [],
        [(3, FAIL)],
        [(3, PASS)] * 6,
        [(3, FAIL), (3, FAIL), (0, PASS), (2, PASS), (2, FAIL)],
        [(3, FAIL), (1, PASS), (2, FAIL), (1, PASS), (2, FAIL), (2, FAIL), (1, FAIL)],
    ],
)
def test_posterior_of_failures_is_an_integral_over_two_rates(tries: Tries) -> None:
    """Jeffreys' prior, with the history before and half a failure after."""
    prior, levels = [1.0, 2.0, 1.0], [(number + 0.5) / 60 for number in range(60)]
    history, unknown = beta(2.5, 18.5), beta(0.5, 0.5)
    expected = posterior(
        prior,
        tries,
        levels,
        lambda value, rate: rate if value else 1 - rate,
        weights=(history, beta(1.0, 0.5), (history, unknown)),
        least=LEAST_RATE,
    )
    assert chances(believe(FLAKY, np.array(prior), tries)) == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize("values", [(0.0, 0.05, 0.7, 0.75), (0.0, 0.02, 0.01, 0.6)])
def test_posterior_of_sizes_is_an_integral_over_two_levels(values: Sequence[float]) -> None:
    def student(value: float, level: float) -> float:
        square = ((value - level) / 0.1) ** 2
        return float((1 + square / TAILS) ** (-(TAILS + 1) / 2))

    tries = list(zip((0, 1, 3, 3), values, strict=True))
    model = size_model(values, 0.1)
    levels = np.linspace(model.levels[0], model.levels[-1], 90).tolist()
    flat = beta(1, 1)
    weights = (flat, flat, [flat])
    expected = posterior([1.0] * 3, tries, levels, student, weights=weights, least=model.least)
    assert chances(believe(model, np.ones(3), tries)) == pytest.approx(expected, abs=0.03)


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.sampled_from([PASS, FAIL])), max_size=30),
)
def test_belief_is_a_distribution_and_forgets_the_order(weights: list[float], some: Tries) -> None:
    prior = np.array(weights)
    tries = [(min(position, len(prior)), value) for position, value in some]
    belief = believe(FLAKY, prior, tries)
    assert sum(chances(belief)) == pytest.approx(1)
    assert len(belief.bits) == len(prior) + 1
    assert 0 <= belief.bits.min() <= belief.bits.max() <= 1
    assert chances(believe(FLAKY, prior, tries[::-1])) == pytest.approx(chances(belief))
    untried = believe(FLAKY, prior, [])
    assert untried.first_bad == pytest.approx(prior / prior.sum() * (1 - UNCHANGED))


@given(st.lists(st.floats(0, 1), min_size=2, max_size=20), st.sets(st.integers(0, 1)))
def test_unusable_commit_is_never_chosen(bits: list[float], unusable: set[int]) -> None:
    usable = set(range(len(bits))) - unusable
    best = max([bits[position] for position in usable], default=0.0)
    found = next_commit(np.array(bits), np.ones(len(bits)), unusable)
    assert (found is None) == (best < MIN_BITS)
    assert found is None or (found in usable and bits[found] >= MIN_BITS)
    if found is not None and not unusable:
        assert bits[found] == best


def test_search_leaves_a_row_of_unusable_commits() -> None:
    """Of 60 commits in a row that cannot be tried, few are prepared for nothing."""
    tried: list[int] = []
    while (position := next_commit(np.ones(100), np.ones(100), tried)) in range(20, 80):
        tried.append(position or 0)
    assert len(tried) < 6


def test_prepared_commit_is_preferred_where_information_is_alike() -> None:
    belief = believe(FLAKY, np.ones(64), [(0, PASS)] * 5 + [(64, FAIL)] * 5)
    first = next_commit(belief.bits, np.ones(65), ())
    assert first is not None
    for prepared, is_chosen in ((first + 2, True), (64, False)):
        seconds = np.full(65, 1.2)
        seconds[prepared] = 1.0
        assert (next_commit(belief.bits, seconds, ()) == prepared) == is_chosen


@pytest.mark.parametrize("commits", [1, 8])
@pytest.mark.parametrize("value", [PASS, FAIL])
def test_unchanged_wins_where_both_ends_are_alike(commits: int, value: float) -> None:
    for values, confidence in (([value] * 20, 0.95), ([value] * 3 + [1 - value] * 17, 0.5)):
        tries = [(end, each) for each in values for end in (0, commits)]
        assert smallest_set(believe(FLAKY, np.ones(commits), tries), confidence) == [0]


@given(st.lists(st.floats(1e-6, 1), min_size=2, max_size=30), st.floats(0.5, 0.999))
def test_smallest_set_holds_the_confidence(weights: list[float], confidence: float) -> None:
    chance = np.array(weights) / sum(weights)
    found = smallest_set(Belief(chance[1:], chance[0], np.zeros(len(chance))), confidence)
    assert chance[found].tolist() == sorted(chance, reverse=True)[: len(found)]
    asked = confidence if found == [0] else 1 - (1 - confidence) * DOUBT
    assert chance[found].sum() >= asked - 1e-6
    assert chance[found[:-1]].sum() < asked + 1e-6


def test_search_is_settled_where_no_try_can_tell_candidates_apart() -> None:
    assert has_converged([3], ())
    assert has_converged([0], ())
    assert has_converged([5, 3, 4], {3, 4})
    assert not has_converged([3, 4], {4})
    assert not has_converged([3, 5], {3})
    assert not has_converged([0, 1], {1})


@pytest.mark.parametrize(("change", "found"), [(0.5, [4]), (0.0, [0])])
def test_outlier_of_a_size_moves_no_culprit(change: float, found: list[int]) -> None:
    noise = [0.0, 0.02, -0.01, 0.01, 0.03, -0.02]
    tries = [(0, 3.0), *zip([0, 2, 3] * 2, noise, strict=True)]  # the first took 20 times as long
    tries += [(at, change + value) for at, value in zip([4, 6, 8] * 2, noise, strict=True)]
    model = size_model([value for _, value in tries], 0.05)
    assert smallest_set(believe(model, np.ones(8), tries), 0.95) == found


@pytest.mark.parametrize("commits", [1, 2000])
@pytest.mark.parametrize("count", [0, 1, 400])
def test_extreme_searches_have_finite_answers(commits: int, count: int) -> None:
    never, always = failure_model((0, 10_000)), failure_model((10_000, 0))
    huge = size_model([30.0] * count, 1e-6)
    for value, model in ((FAIL, never), (PASS, always), (30.0, huge)):
        tries = [(position % (commits + 1), value) for position in range(count)]
        belief = believe(model, np.linspace(1e-9, 1, commits), tries)
        assert sum(chances(belief)) == pytest.approx(1)
        assert np.isfinite(belief.bits).all()
        assert next_commit(belief.bits, np.ones(commits + 1), range(commits + 1)) is None


def is_at_least(share: float, trials: Sequence[bool]) -> bool:
    """Return whether chance allows so few, at 1 in 1,000."""
    test = binomtest(sum(trials), len(trials), share, alternative="less")
    return bool(test.pvalue > 0.001)


def assert_figures(found: Sequence[Found]) -> None:
    right = [one.named == one.range.culprit for one in found if one.named]
    named = [one.named > 0 for one in found if one.range.can_be_named]
    assert is_at_least(0.95, right)
    assert is_at_least(0.9, named)
    assert median(one.excess for one in found) <= 0


def test_plain_culprits_are_named_in_few_tries() -> None:
    found = [search(draw(kind, seed)) for kind in KINDS for seed in range(14)]
    assert_figures(found)
    assert search(draw("failures", 0)) == found[0]


@pytest.mark.soak
@pytest.mark.parametrize("kind", get_args(Kind))
def test_500_ranges_have_the_required_figures(kind: Kind) -> None:
    found = [search(draw(kind, 1000 + seed)) for seed in range(500)]
    assert is_at_least(0.95, [one.range.culprit in one.candidates for one in found])
    if kind in KINDS:
        assert_figures(found)
