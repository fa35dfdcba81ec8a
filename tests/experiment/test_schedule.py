"""In which order runs are made, and how much evidence each look may use."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.experiment.schedule import (
    ALPHA,
    INTERIM_ALPHA,
    Design,
    final_alpha,
    interim_analyses,
    steps,
)


def test_sides_and_conditions_alternate() -> None:
    found = list(steps(Design(runs=2, warm=1, conditions=({"n": "4"}, {"n": "10"}))))
    reported = "".join(f"{step.side}{step.condition}" + "w" * step.is_warm + " " for step in found)
    assert reported == "a0w b0w a1w b1w a0 b0 a1 b1 b0 a0 b1 a1 "
    assert [step.is_second for step in found] == [False, True] * 6
    assert [(step.side, step.pair) for step in found[:2]] == [("a", 0), ("b", 0)]


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 3), st.integers(1, 3))
def test_each_run_occurs_once_and_orders_are_balanced(
    runs: int, warm: int, conditions: int
) -> None:
    design = Design(runs, warm, tuple({"n": str(n)} for n in range(conditions)))
    found = list(steps(design))
    assert len(found) == len(set(found)) == 2 * conditions * (runs + warm)
    for condition in range(conditions):
        own = [one for one in found if one.condition == condition and not one.is_warm]
        a_first = sum(one.side == "a" and not one.is_second for one in own)
        assert a_first - (runs - a_first) in {0, 1}


@pytest.mark.parametrize(
    ("runs", "expected"),
    [(2, []), (4, []), (5, [4]), (10, [4, 6, 8]), (40, [4, 6, 8, 12, 18, 26, 38])],
)
def test_interim_analyses_come_after_balanced_pairs(runs: int, expected: list[int]) -> None:
    assert list(interim_analyses(runs)) == expected


@settings(deadline=None)
@given(st.integers(1, 1000))
def test_interim_and_final_alpha_sum_to_the_stated_level(runs: int) -> None:
    found = interim_analyses(runs)
    assert sum(found.values()) + final_alpha(runs) == pytest.approx(ALPHA)
    assert sum(found.values()) in (0, pytest.approx(INTERIM_ALPHA))
    assert all(pairs % 2 == 0 for pairs in found)
