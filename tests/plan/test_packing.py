from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.packing import (
    TOLERANCE,
    Costs,
    Group,
    Packing,
    Preassigned,
    form_groups,
    lower_bound_s,
    pack_balanced,
)

WALLS = st.lists(st.floats(0, 1e4), min_size=1, max_size=60)
SETUPS = st.lists(st.floats(0, 1e3), min_size=60, max_size=60)
COUNTS = st.integers(1, 20)


def alone(walls_s: Sequence[float], count: int) -> Packing:
    """Every unit is a group."""
    costs = Costs(walls_s)
    return pack_balanced(form_groups(costs, None), [Preassigned()] * count, costs)


def by_file(
    sizes: Sequence[int], count: int, setup_s: float = 0.0, enough_s: float = 0.0
) -> Packing:
    """Files of so many units, 1 s each, all with the same set-up."""
    file = [name for name, size in enumerate(sizes) for _ in range(size)]
    costs = Costs([1.0] * len(file), [setup_s] * len(file))
    groups = form_groups(costs, file.__getitem__)
    return pack_balanced(groups, [Preassigned()] * count, costs, enough_s)


def sizes(packing: Packing) -> list[int]:
    return [len(shard) for shard in packing.shards]


def planned_loads_s(packing: Packing) -> list[float]:
    return [
        before.load_s + math.fsum(group.wall_s for group in groups)
        for before, groups in zip(packing.preassigned, packing.groups_by_shard, strict=True)
    ]


def real_loads_s(
    shards: Sequence[Sequence[int]], walls_s: Sequence[float], file_s: Sequence[float], width: int
) -> list[float]:
    """What shards take, worked out from the units alone."""
    return [
        math.fsum(walls_s[unit] for unit in shard)
        + math.fsum(file_s[file] for file in {unit // width for unit in shard})
        for shard in shards
    ]


@given(
    walls_s=WALLS,
    file_s=SETUPS,
    count=COUNTS,
    width=st.integers(1, 12),
    indivisible=st.sets(st.integers(0, 59)),
    loaded=st.sets(st.integers(0, 19), max_size=5),
    enough=st.floats(0, 2),
)
def test_every_unit_is_in_one_shard_and_no_fixed_group_is_split(
    *,
    walls_s: list[float],
    file_s: list[float],
    count: int,
    width: int,
    indivisible: set[int],
    loaded: set[int],
    enough: float,
) -> None:
    units = range(len(walls_s))
    costs = Costs(walls_s, [file_s[unit // width] for unit in units])
    files = [[unit for unit in units if unit // width == name] for name in indivisible]
    groups = form_groups(costs, lambda unit: unit // width, colocated=files)
    before = [
        Preassigned(50.0, (100 + shard,)) if shard in loaded else Preassigned()
        for shard in range(count)
    ]
    found = pack_balanced(groups, before, costs, enough * math.fsum(walls_s) / count)
    placed = [unit for shard in found.shards for unit in shard]
    assert sorted(placed) == sorted([*units, *(100 + shard for shard in loaded if shard < count)])
    assert len(found.shards) == count
    assert not {first // width for first in found.split_groups} & indivisible
    for mine in found.groups_by_shard:
        for group in mine:
            assert group.wall_s == pytest.approx(
                costs.setup_s(group.members) + math.fsum(walls_s[unit] for unit in group.members)
            )
    pieces = sum(1 if group.indivisible else len(group.members) for group in groups)
    empty = sum(not shard for shard in found.shards)
    assert empty == max(0, count - pieces - len([one for one in loaded if one < count]))
    # Two parts in one shard are both said to pay: the shard takes no longer than is said.
    if not loaded:
        loads_s = real_loads_s(found.shards, walls_s, file_s, width)
        assert all(
            a <= b * (1 + 1e-9) for a, b in zip(loads_s, planned_loads_s(found), strict=True)
        )


@given(WALLS, COUNTS, st.integers(1, 12), st.randoms(use_true_random=False))
def test_order_of_groups_is_irrelevant(
    walls_s: list[float], count: int, width: int, random: Random
) -> None:
    costs = Costs(walls_s)
    groups = list(form_groups(costs, lambda unit: unit // width))
    before = [Preassigned()] * count
    found = pack_balanced(groups, before, costs)
    random.shuffle(groups)
    assert pack_balanced(groups, before, costs) == found


@given(WALLS, COUNTS, st.integers(1, 12))
def test_the_makespan_is_within_the_bound_and_one_unit(
    walls_s: list[float], count: int, width: int
) -> None:
    costs = Costs(walls_s)
    groups = form_groups(costs, lambda unit: unit // width)
    found = pack_balanced(groups, [Preassigned()] * count, costs)
    bound_s = lower_bound_s(math.fsum(walls_s), max(walls_s), count)
    makespan_s = max(real_loads_s(found.shards, walls_s, [0.0] * 60, width))
    assert bound_s <= makespan_s * (1 + 1e-12)
    assert makespan_s <= (TOLERANCE * bound_s + max(walls_s)) * (1 + 1e-12)


@given(WALLS, COUNTS)
def test_single_units_stay_within_twice_the_lower_bound(walls_s: list[float], count: int) -> None:
    makespan_s = max(planned_loads_s(alone(walls_s, count)))
    bound_s = lower_bound_s(math.fsum(walls_s), max(walls_s), count)
    assert bound_s <= makespan_s * (1 + 1e-12)
    assert makespan_s <= 2 * bound_s * (1 + 1e-12)


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=40),
    st.lists(st.integers(0, 200), min_size=14, max_size=14),
    st.integers(1, 6),
    st.sampled_from([1 / 1024, 64.0]),
)
def test_the_unit_of_time_is_irrelevant(
    times: list[int], file_times: list[int], count: int, second: float
) -> None:
    found = []
    for scale in (1.0, second):
        walls_s = [wall * scale for wall in times]
        costs = Costs(walls_s, [file_times[unit // 4] * scale for unit in range(len(walls_s))])
        groups = form_groups(costs, lambda unit: unit // 4)
        found.append(pack_balanced(groups, [Preassigned()] * count, costs).shards)
    assert found[0] == found[1]


def test_longest_unit_is_assigned_first() -> None:
    assert alone([3, 3, 2, 2, 2], 2).shards == ((0, 2, 4), (1, 3))
    assert alone([2, 2, 2, 3, 3], 2).shards == ((0, 2, 3), (1, 4))


def test_ties_between_groups_are_broken_by_first_unit() -> None:
    groups = [Group((0, 5), 1.0, indivisible=True), Group((1, 2), 1.0, indivisible=True)]
    assert pack_balanced(groups, [Preassigned()] * 2, Costs([0.5] * 6)).shards == ((0, 5), (1, 2))


def test_next_unit_goes_to_the_least_loaded_shard() -> None:
    assert alone([8, 7, 6, 5, 4], 2).shards == ((0, 3, 4), (1, 2))


def test_zero_times_are_split_by_count() -> None:
    assert sizes(alone([0.0] * 7, 3)) == [3, 2, 2]
    costs = Costs([0.0] * 8)
    groups = form_groups(costs, lambda _: "file")
    found = pack_balanced(groups, [Preassigned()] * 4, costs)
    assert sorted(found.shards) == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert found.split_groups == (0,)


def test_one_file_is_split_over_all_shards() -> None:
    assert sizes(by_file([64], 8)) == [8] * 8


def test_group_is_split_where_its_shard_reaches_the_target() -> None:
    found = by_file([10, 10, 10], 2)
    assert [[one.members for one in mine] for mine in found.groups_by_shard] == [
        [tuple(range(10)), tuple(range(20, 25))],
        [tuple(range(10, 20)), tuple(range(25, 30))],
    ]
    assert found.split_groups == (20,)


def test_group_is_not_split_for_half_a_percent() -> None:
    assert by_file([401, 399], 2).split_groups == ()
    assert by_file([403, 397], 2).split_groups == (0,)


def test_group_is_not_split_below_the_longest_unit() -> None:
    costs = Costs([10.0, *[1.0] * 9, *[1.0] * 9])
    groups = form_groups(costs, lambda unit: (unit > 0) + (unit > 9))
    found = pack_balanced(groups, [Preassigned()] * 3, costs)
    assert found.shards == ((0,), tuple(range(1, 10)), tuple(range(10, 19)))


def test_group_is_not_split_below_an_indivisible_one() -> None:
    costs = Costs([1.0] * 28)
    groups = form_groups(costs, lambda unit: (unit > 9) + (unit > 18), colocated=[range(10)])
    found = pack_balanced(groups, [Preassigned()] * 3, costs)
    assert found.split_groups == ()
    assert sizes(found) == [10, 9, 9]


def test_group_is_not_split_below_a_sufficient_load() -> None:
    assert sizes(by_file([10, 10, 10], 2, enough_s=19.0)) == [15, 15]
    assert sizes(by_file([10, 10, 10], 2, enough_s=20.0)) == [20, 10]


@pytest.mark.parametrize(
    ("setup_s", "expected"), [(0.0, [15, 15]), (6.0, [15, 15]), (9.0, [15, 15]), (10.0, [20, 10])]
)
def test_split_must_save_more_than_its_second_setup(setup_s: float, expected: list[int]) -> None:
    """Two shards wait 5 s less each, but for half a percent."""
    assert sizes(by_file([10, 10, 10], 2, setup_s)) == expected


def test_first_unit_of_a_group_is_assigned_even_if_it_does_not_fit() -> None:
    """Both shards have 10 s of 13: 4 s go there all the same, and not with the other 2 s."""
    costs = Costs([10.0, 10.0, 4.0, 2.0])
    groups = [costs.group((0,)), costs.group((1,)), costs.group((2, 3))]
    assert pack_balanced(groups, [Preassigned()] * 2, costs).shards == ((0, 2), (1, 3))


def test_preassigned_load_counts() -> None:
    costs = Costs([1.0] * 20)
    groups = form_groups(costs, lambda unit: unit // 10)
    found = pack_balanced(groups, [Preassigned(6.0, (20, 21)), Preassigned()], costs)
    assert planned_loads_s(found) == [13.0, 13.0]
    assert sizes(found) == [9, 13]
    assert {20, 21} <= set(found.shards[0])


def test_empty_shards_get_half_of_the_longest_group() -> None:
    """No number of shards ends before 50 s: no group is cut for the time."""
    costs = Costs([50.0, 1.0, 1.0, 1.0, 1.0])
    groups = form_groups(costs, lambda unit: unit == 0)
    assert sorted(pack_balanced(groups, [Preassigned()] * 3, costs).shards) == [
        (0,),
        (1, 2),
        (3, 4),
    ]
    found = pack_balanced(groups, [Preassigned()] * 4, costs)
    assert sorted(found.shards) == [(0,), (1,), (2,), (3, 4)]
    assert found.split_groups == (1,)
    assert () not in found.shards
    assert () in pack_balanced(groups, [Preassigned()] * 6, costs).shards


def test_shard_with_a_preassigned_unit_is_not_empty() -> None:
    costs = Costs([0.0, 0.0])
    groups = form_groups(costs, lambda _: 0)
    found = pack_balanced(groups, [Preassigned(0.0, (7,)), Preassigned()], costs)
    assert found.shards == ((7,), (0, 1))


def test_colocated_units_are_one_indivisible_group() -> None:
    groups = form_groups(Costs([9.0] * 8), lambda unit: unit < 4, colocated=[(1, 5, 6)])
    assert [group.members for group in groups] == [(0, 2, 3), (1, 5, 6), (4, 7)]
    assert [group.indivisible for group in groups] == [False, True, False]
    assert form_groups(Costs([1.0] * 3), None, [2], colocated=[(0, 1)])[0].members == (2,)


def test_a_unit_without_a_key_is_a_group() -> None:
    groups = form_groups(Costs([1.0] * 3), lambda place: None if place < 2 else 0)
    assert [group.members for group in groups] == [(0,), (1,), (2,)]


def test_only_groups_whose_parts_are_in_several_shards_are_split() -> None:
    parts = [Group((0,), 1.0, 0), Group((1,), 1.0, 0), Group((2,), 1.0, 2), Group((3,), 1.0, 2)]
    assert Packing([parts[:3], parts[3:]], [Preassigned()] * 2).split_groups == (2,)


def test_lower_bound_is_the_mean_load_or_the_longest_unit() -> None:
    assert lower_bound_s(100.0, 20.0, 4) == 25.0
    assert lower_bound_s(100.0, 60.0, 4) == 60.0
    assert lower_bound_s(100.0, 20.0, 4, setup_s=2.0) == 27.0
    assert lower_bound_s(1.0, 0.1, 4, setup_s=0.5) == 0.75


def folders(sizes_: Sequence[int], count: int) -> Packing:
    """Folders of so many units, 1 s each."""
    folder = [name for name, size in enumerate(sizes_) for _ in range(size)]
    costs = Costs([1.0] * len(folder), in_folder=[True] * len(folder))
    groups = form_groups(costs, folder.__getitem__)
    return pack_balanced(groups, [Preassigned()] * count, costs)


def test_folder_up_to_half_of_the_target_is_not_cut() -> None:
    assert sizes(folders([10] * 5, 2)) == [30, 20]
    assert folders([10] * 5, 2).split_groups == ()
    assert sizes(by_file([10] * 5, 2)) == [25, 25]


def test_folder_over_half_of_the_target_is_cut() -> None:
    packing = folders([40, 10, 10], 3)
    assert sizes(packing) == [20, 20, 20]
    assert packing.split_groups == (0,)
    assert sizes(folders([7], 3)) == [3, 2, 2]
