from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.packing import Costs, Group, Packing, Preassigned, form_groups, pack_balanced
from ciguard.plan.sticky import MAX_GAP, _match_numbers, pack_sticky

if TYPE_CHECKING:
    from collections.abc import Mapping


def singles(*walls_s: float) -> list[Group]:
    return [Group((unit,), wall_s) for unit, wall_s in enumerate(walls_s)]


def stays(groups: list[Group], homes: Mapping[int, int], count: int) -> tuple[tuple[int, ...], ...]:
    """Where units go that are groups by themselves."""
    costs = Costs([group.wall_s for group in groups])
    return pack_sticky(groups, homes, afresh(groups, count, costs), costs).shards


def afresh(groups: list[Group], count: int, costs: Costs) -> Packing:
    return pack_balanced(groups, [Preassigned()] * count, costs)


def makespan(groups: list[Group], shards: tuple[tuple[int, ...], ...]) -> float:
    walls_s = {group.members[0]: group.wall_s for group in groups}
    return max(sum(walls_s.get(unit, 0.0) for unit in shard) for shard in shards)


def fresh_s(groups: list[Group], count: int) -> float:
    return afresh(groups, count, Costs([group.wall_s for group in groups])).makespan_s


def test_balanced_units_stay_in_their_shards() -> None:
    groups = singles(5, 3, 4, 4)
    assert stays(groups, {0: 1, 1: 1, 2: 0, 3: 0}, 2) == ((2, 3), (0, 1))


def test_a_new_unit_goes_to_the_shortest_shard() -> None:
    assert stays(singles(5, 3, 4, 1), {0: 1, 1: 0, 2: 0}, 2) == ((1, 2), (0, 3))


def test_load_of_a_shard_includes_its_staying_units() -> None:
    shards = stays(singles(50, 30, 40, 37, 1), {0: 0, 1: 0, 2: 1, 3: 1}, 2)
    assert shards == ((0, 1), (2, 3, 4))


def test_group_stays_in_the_shard_with_most_of_its_time() -> None:
    groups = [Group((0, 1, 2), 6.0), Group((3,), 5.9)]
    costs = Costs([2.0, 2.0, 2.0, 5.9])
    homes = {0: 0, 1: 1, 2: 1, 3: 0}
    found = pack_sticky(groups, homes, afresh(groups, 2, costs), costs)
    assert found.shards == ((3,), (0, 1, 2))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.integers(1, 8))
def test_new_units_are_packed_as_without_a_base(walls_s: list[float], count: int) -> None:
    groups = singles(*walls_s)
    costs = Costs(walls_s)
    fresh = afresh(groups, min(count, len(walls_s)), costs)
    assert pack_sticky(groups, {}, fresh, costs).makespan_s == fresh.makespan_s


def test_shard_numbers_follow_the_largest_shared_time() -> None:
    costs = Costs([9.0, 1.0, 5.0])
    groups = [costs.group((unit,)) for unit in range(3)]
    fresh = Packing([groups[:2], groups[2:]], [Preassigned()] * 2)
    assert _match_numbers(fresh, {0: 1, 1: 0, 2: 1}).shards == ((2,), (0, 1))


def test_one_move_closes_a_gap() -> None:
    groups = singles(6, 4, 2, 4)
    assert stays(groups, {0: 0, 1: 0, 2: 0, 3: 1}, 2) == ((0, 2), (1, 3))


def test_fresh_plan_is_numbered_like_the_base_if_moves_fail() -> None:
    """Three of 3 and two of 4 and 5: no single move evens 9 + 9."""
    groups = singles(9, 5, 4, 3, 3, 3)
    homes = {0: 1, 1: 1, 2: 0, 3: 0, 4: 0, 5: 0}
    shards = stays(groups, homes, 2)
    assert makespan(groups, shards) <= fresh_s(groups, 2) * (1 + MAX_GAP)
    assert 0 in shards[1], "most of its time is where it was"


def test_units_of_missing_shards_move_and_new_shards_are_filled() -> None:
    groups = singles(1, 1, 1, 1)
    assert stays(groups, dict.fromkeys(range(4), 7), 2) == ((0, 2), (1, 3))
    assert all(stays(groups, dict.fromkeys(range(4), 0), 4)), "none is empty"


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_sticky_plan_is_complete_and_near_a_fresh_plan(
    units: list[tuple[float, int]], count: int
) -> None:
    groups = singles(*(wall_s for wall_s, _ in units))
    count = min(count, len(units))
    shards = stays(groups, {unit: home for unit, (_, home) in enumerate(units)}, count)
    assert sorted(unit for shard in shards for unit in shard) == list(range(len(units)))
    assert len(shards) == count
    assert all(shards)
    assert makespan(groups, shards) <= fresh_s(groups, count) * (1 + MAX_GAP) + 1e-6


WIDTH = 10


def test_renumbered_shards_retain_their_preassigned_units() -> None:
    """The shard that is full already stays empty otherwise, whatever number it gets."""
    costs = Costs([6.0, 6.0, 6.0, 6.0, 9.0])
    groups = form_groups(costs, None, range(4))
    before = [Preassigned(9.0, (4,)), Preassigned(), Preassigned()]
    for fresh in (
        pack_balanced(groups, before, costs),
        pack_balanced(groups, before[::-1], costs),
    ):
        found = _match_numbers(fresh, {0: 0, 1: 0, 2: 0, 3: 0})
        assert sorted(found.loads_s) == sorted(fresh.loads_s) == [9.0, 12.0, 12.0]
        assert sorted(found.shards) == sorted(fresh.shards)
        assert (
            next(load for load, one in zip(found.loads_s, found.shards, strict=True) if 4 in one)
            == 9.0
        )


@pytest.mark.parametrize(
    ("before", "count", "slower"),
    [(4, 4, 1.2), (8, 9, 1.0), (8, 16, 1.0), (16, 16, 1.3), (2, 64, 1.0)],
)
def test_few_of_many_small_files_move(before: int, count: int, slower: float) -> None:
    """The first shard got slower, or there are more of them."""
    walls_s = [1.0 + unit * 7 % 10 / 10 for unit in range(8000)]
    first, _ = files(walls_s, {}, before)
    homes = {unit: place for place, shard in enumerate(first.shards) for unit in shard}
    walls_s = [slower * took if homes[unit] == 0 else took for unit, took in enumerate(walls_s)]
    fresh, found = files(walls_s, homes, count)
    most_s = fresh.makespan_s * (1 + MAX_GAP)
    assert found.makespan_s <= most_s
    at_home_s = [math.fsum(walls_s[unit] for unit in shard) for shard in first.shards]
    moved_s = math.fsum(
        walls_s[unit]
        for place, shard in enumerate(found.shards)
        for unit in shard
        if homes[unit] != place
    )
    must_s = math.fsum(max(0.0, home_s - most_s) for home_s in at_home_s)
    assert must_s <= moved_s <= 1.05 * must_s + before * 10 * max(walls_s)
    assert found.split_groups == ()


def files(walls_s: list[float], homes: Mapping[int, int], count: int) -> tuple[Packing, Packing]:
    """Ten units a file, packed afresh and with homes."""
    costs, border = Costs(walls_s), (lambda unit: unit // WIDTH)
    groups = list(form_groups(costs, border))
    fresh = afresh(groups, count, costs)
    return fresh, pack_sticky(groups, homes, fresh, costs)


def test_file_split_in_the_base_stays_split() -> None:
    homes = {unit: 0 if unit < 15 else 1 for unit in range(30)}
    _, found = files([1.0] * 30, homes, 2)
    assert found.shards == (tuple(range(15)), tuple(range(15, 30)))
    assert found.split_groups == (10,)


def test_new_units_of_a_split_file_join_its_largest_part() -> None:
    homes = {unit: 0 if unit < 13 else 1 for unit in range(29)}
    _, found = files([1.0] * 30, homes, 2)
    assert found.shards[1] == tuple(range(14, 30)) or 29 in found.shards[1]


def test_only_a_part_of_a_grown_file_moves() -> None:
    walls_s = [1.5] * 10 + [1.0] * 30
    homes = {unit: unit // WIDTH for unit in range(40)}
    fresh, found = files(walls_s, homes, 4)
    moved = [
        unit for place, shard in enumerate(found.shards) for unit in shard if homes[unit] != place
    ]
    assert moved == [7, 8, 9]
    assert found.makespan_s <= fresh.makespan_s * (1 + MAX_GAP)


def test_added_shards_are_filled_from_the_longest() -> None:
    homes = {unit: unit // 20 for unit in range(40)}
    fresh, found = files([1.0] * 40, homes, 3)
    assert found.makespan_s <= fresh.makespan_s * (1 + MAX_GAP)
    assert not found.has_empty_shard


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(1, 8),
)
def test_file_parts_are_placed_once_and_near_a_fresh_plan(
    units: list[tuple[float, int]], count: int
) -> None:
    count = min(count, len(units))
    homes = {unit: home for unit, (_, home) in enumerate(units) if home < 8}
    fresh, found = files([wall_s for wall_s, _ in units], homes, count)
    everything = list(range(len(units)))
    assert sorted(unit for shard in found.shards for unit in shard) == everything
    assert found.makespan_s <= fresh.makespan_s * (1 + MAX_GAP) + 1e-6
    assert all(found.shards)
