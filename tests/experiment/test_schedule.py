"""In which order runs are made, and how much evidence each look may use."""

from __future__ import annotations

from dataclasses import replace

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


def test_blocks_are_random_and_each_second_one_is_reversed() -> None:
    design = Design(2, 1, ({"n": "4"}, {"n": "10"}), arms=("a", "b", "c"))
    found = list(steps(design))
    reported = "".join(f"{step.arm}{step.condition}" + "w" * step.is_warm + " " for step in found)
    assert reported == "c0w b0w a0w c1w a1w b1w c0 b0 a0 c1 a1 b1 a0 b0 c0 b1 a1 c1 "
    assert [step.position for step in found] == [0, 1, 2] * 6
    orders = {order(design, block) for block in range(0, 40, 2)}
    assert len(orders) == 6, "all that three arms have"
    assert order(replace(design, seed=1), 0) != order(design, 0)


def order(design: Design, block: int) -> str:
    found = steps(replace(design, runs=block + 1, warm=0, conditions=({},)))
    return "".join(step.arm for step in found if step.block == block)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(0, 3), st.integers(1, 3), st.integers(2, 8))
def test_each_run_occurs_once_and_drift_meets_all_arms_alike(
    runs: int, warm: int, conditions: int, arms: int
) -> None:
    named = tuple({"n": str(n)} for n in range(conditions))
    design = Design(runs, warm, named, tuple("abcdefgh"[:arms]))
    found = list(steps(design))
    assert len(found) == len(set(found)) == arms * conditions * (runs + warm)
    for condition in range(conditions):
        own = [one for one in found if one.condition == condition and not one.is_warm]
        whole = own[: runs // 2 * 2 * arms]  # of each two blocks
        places = {
            arm: sum(place for place, one in enumerate(whole) if one.arm == arm)
            for arm in design.arms
        }
        assert len(set(places.values())) == 1


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
