from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.packing import Costs, Group, grouped, longest_first, lower_bound_s, scattered

WALLS = st.lists(st.floats(0, 1e4), min_size=1, max_size=60)
COUNTS = st.integers(1, 20)


@given(WALLS, COUNTS, st.integers(1, 12), st.sampled_from([0, 1]))
def test_every_unit_is_in_exactly_one_shard(
    walls_s: list[float], count: int, width: int, levels: int
) -> None:
    border = (lambda place: place // width) if levels else None
    groups = grouped(Costs(walls_s), border, count)
    shards = longest_first(groups, count)
    assert sorted(place for shard in shards for place in shard) == list(range(len(walls_s)))
    assert len(shards) == count
    assert sum(map(bool, shards)) == min(count, len(walls_s))


@given(WALLS, COUNTS)
def test_alone_units_stay_within_twice_the_lower_bound(walls_s: list[float], count: int) -> None:
    shards = longest_first(grouped(Costs(walls_s), None), count)
    makespan_s = max(math.fsum(walls_s[place] for place in shard) for shard in shards)
    bound_s = lower_bound_s(math.fsum(walls_s), max(walls_s), count)
    assert bound_s <= makespan_s * (1 + 1e-12)
    assert makespan_s <= 2 * bound_s * (1 + 1e-12)


def test_the_longest_goes_first() -> None:
    shards = longest_first(grouped(Costs([3, 3, 2, 2, 2]), None), 2)
    assert shards == ((0, 2, 4), (1, 3))
    assert longest_first(grouped(Costs([2, 2, 2, 3, 3]), None), 2) == ((0, 2, 3), (1, 4))


def test_of_equal_groups_the_one_with_the_first_unit_goes_first() -> None:
    assert longest_first([Group((0, 5), 1.0), Group((1, 2), 1.0)], 2) == ((0, 5), (1, 2))


def test_the_least_loaded_shard_is_the_next_whatever_it_counts() -> None:
    shards = longest_first(grouped(Costs([8, 7, 6, 5, 4]), None), 2)
    assert shards == ((0, 3, 4), (1, 2))


def test_without_any_time_units_are_split_by_count() -> None:
    shards = longest_first(grouped(Costs([0.0] * 7), None), 3)
    assert [len(shard) for shard in shards] == [3, 2, 2]


@pytest.mark.parametrize(
    ("walls_s", "halves"),
    [
        ([5.0, 1.0, 1.0, 1.0], [(0,), (1, 2, 3)]),  # 5 is more than half
        ([1.0, 1.0, 1.0, 5.0], [(0, 1, 2), (3,)]),
        ([1.0, 2.0, 3.0, 1.0, 1.0], [(0, 1, 2), (3, 4)]),  # 3 is less than half of 8, 6 is more
        ([1.0, 1.0, 9.0, 1.0, 1.0], [(0, 1, 2), (3, 4)]),
        ([0.5, 0.4, 0.3, 0.2], [(0, 1), (2, 3)]),
        ([0.0, 0.0, 0.0], [(0, 1), (2,)]),
        ([0.0] * 5, [(0, 1, 2), (3, 4)]),
        ([0.0] * 6, [(0, 1, 2), (3, 4, 5)]),
        ([0.375, 0.125, 0.125, 0.125], [(0,), (1, 2, 3)]),  # under a second counts as well
    ],
)
@pytest.mark.parametrize("setup_s", [0.0, 50.0])
def test_a_group_is_halved_by_time(
    walls_s: list[float], halves: list[tuple[int, ...]], setup_s: float
) -> None:
    """What it sets up is paid by both halves, and says nothing of where to cut."""
    groups = grouped(Costs(walls_s, [setup_s] * len(walls_s)), lambda _: "f", 2)
    assert [group.members for group in groups] == halves


def test_the_longest_group_is_halved_first_and_a_marked_one_last() -> None:
    costs = Costs([1.0, 1.0, 1.0, 10.0, 10.0])
    groups = grouped(costs, lambda unit: unit < 3, 3)
    assert [group.members for group in groups] == [(0, 1, 2), (3,), (4,)]
    marked = grouped(costs, lambda unit: unit < 3, 3, marked=[(3, 4)])
    assert [group.members for group in marked] == [(0, 1), (2,), (3, 4)]
    assert [group.is_solid for group in marked] == [False, False, True]


def test_the_bound_is_a_mean_in_fractions_of_a_second() -> None:
    assert lower_bound_s(1.0, 0.1, 4, setup_s=0.5) == 0.75


def test_a_long_unit_alone_does_not_keep_others_from_being_halved() -> None:
    groups = grouped(Costs([50.0, 1.0, 1.0, 1.0, 1.0]), lambda unit: unit == 0, 3)
    assert [group.members for group in groups] == [(0,), (1, 2), (3, 4)]


def test_what_the_suite_marks_stays_together_whatever_it_costs() -> None:
    groups = grouped(Costs([9.0] * 8), lambda unit: unit < 4, marked=[(1, 5, 6)])
    assert [group.members for group in groups] == [(0, 2, 3), (1, 5, 6), (4, 7)]
    assert [group.is_solid for group in groups] == [False, True, False]
    alone = grouped(Costs([9.0] * 3), None, 3, marked=[(0, 1, 2)])
    assert [group.members for group in alone] == [(0,), (1,), (2,)], "but no shard stays empty"
    assert grouped(Costs([1.0] * 3), None, 1, [2], marked=[(0, 1)])[0].members == (2,)


@pytest.mark.parametrize("wall_s", [0.0, 1.0])
def test_too_few_groups_are_halved(wall_s: float) -> None:
    groups = grouped(Costs([wall_s] * 8), lambda _: "file", at_least=4)
    assert [group.members for group in groups] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert {group.part_of for group in groups} == {0}


def test_a_unit_without_a_border_goes_by_itself() -> None:
    groups = grouped(Costs([1.0] * 3), lambda place: None if place < 2 else 0)
    assert [group.members for group in groups] == [(0,), (1,), (2,)]


def test_only_groups_that_did_end_in_several_shards_are_named() -> None:
    parts = [Group((0,), 1.0, 0), Group((1,), 1.0, 0), Group((2,), 1.0, 2), Group((3,), 1.0, 2)]
    assert scattered(parts, [(0, 1, 2), (3,)]) == (2,)


def test_the_bound_is_the_mean_load_or_the_longest_unit() -> None:
    assert lower_bound_s(100.0, 20.0, 4) == 25.0
    assert lower_bound_s(100.0, 60.0, 4) == 60.0
    assert lower_bound_s(100.0, 20.0, 4, setup_s=2.0) == 27.0
