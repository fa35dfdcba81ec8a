from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.evening import EVEN, Packed, dealt, evenly, nearest, snapped
from ciguard.plan.packing import Begun, Costs, Group, grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

WALLS = st.lists(st.floats(0, 1e4), min_size=1, max_size=60)
SETUPS = st.lists(st.floats(0, 1e3), min_size=20, max_size=20)


def loads(
    packed: Sequence[Sequence[int]], walls_s: Sequence[float], file_s: Sequence[float], width: int
) -> list[float]:
    """What shards take, worked out from the units alone."""
    return [
        math.fsum(walls_s[unit] for unit in shard)
        + math.fsum(file_s[file] for file in {unit // width for unit in shard})
        for shard in packed
    ]


@given(WALLS, SETUPS, st.integers(1, 12), st.integers(3, 12), st.floats(0, 2))
def test_no_unit_is_lost_and_no_shard_takes_longer_than_the_longest_did(
    walls_s: list[float], file_s: list[float], count: int, width: int, enough: float
) -> None:
    costs = Costs(walls_s, [file_s[unit // width] for unit in range(len(walls_s))])
    count = min(count, len(walls_s))
    groups = grouped(costs, lambda unit: unit // width, count)
    begun = [Begun()] * count
    enough_s = enough * math.fsum(walls_s) / count
    before = dealt(groups, begun, costs)
    found = evenly(groups, begun, costs, lambda unit: unit // 3, enough_s)
    everything = list(range(len(walls_s)))
    assert sorted(unit for shard in found.shards for unit in shard) == everything
    assert sorted(unit for group in found.groups for unit in group.members) == everything
    assert len(found.shards) == count
    assert all(found.shards)
    # Of two parts in one shard both are said to pay: so it takes no longer than is said.
    after_s = loads(found.shards, walls_s, file_s, width)
    assert max(after_s) <= found.longest_s * (1 + 1e-9) + 1e-6
    assert found.longest_s <= before.longest_s * (1 + 1e-9) + 1e-6
    if before.longest_s <= max(enough_s, EVEN * before.mean_s):
        assert found.shards == before.shards
    for group in found.groups:
        assert group.wall_s == pytest.approx(costs.of(group.members), abs=1e-6)
        assert (group.part_of is None) or group.part_of <= group.members[0]


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=40),
    st.lists(st.integers(0, 200), min_size=14, max_size=14),
    st.integers(1, 6),
    st.sets(st.integers(0, 13)),
    st.sampled_from([1 / 1024, 64.0]),
)
def test_nothing_hangs_on_what_a_second_is_and_all_times_add_up(
    times: list[int], file_times: list[int], count: int, marked: set[int], second: float
) -> None:
    """Files are of four units each; some of them the suite keeps together."""
    found = []
    for scale in (1.0, second):
        walls_s = [wall * scale for wall in times]
        costs = Costs(walls_s, [file_times[unit // 4] * scale for unit in range(len(walls_s))])
        solid = [[unit for unit in range(len(walls_s)) if unit // 4 == file] for file in marked]
        groups = grouped(costs, lambda unit: unit // 4, marked=[one for one in solid if one])
        packed = evenly(groups, [Begun()] * count, costs, lambda unit: unit // 2)
        loads_s = [math.fsum(group.wall_s for group in mine) for mine in packed.held]
        assert packed.longest_s == pytest.approx(max(loads_s), abs=1e-6)
        assert packed.mean_s * count == pytest.approx(math.fsum(loads_s), abs=1e-6)
        assert {one.members for one in groups if one.is_solid} == {
            one.members for one in packed.groups if one.is_solid
        }
        found.append(packed.shards)
    assert found[0] == found[1]


def equal(sizes: Sequence[int], setups_s: Sequence[float] = ()) -> tuple[list[Group], Costs]:
    """Files of so many units, 1 s each; what each of them sets up."""
    file = [name for name, size in enumerate(sizes) for _ in range(size)]
    costs = Costs([1.0] * len(file), [setups_s[name] for name in file] if setups_s else None)
    return list(grouped(costs, file.__getitem__)), costs


def sizes(packed: Packed) -> list[int]:
    return [len(shard) for shard in packed.shards]


def test_two_equal_files_of_three_are_not_left_in_one_of_two_shards() -> None:
    groups, costs = equal([10, 10, 10])
    assert sizes(dealt(groups, [Begun()] * 2, costs)) == [20, 10]
    found = evenly(groups, [Begun()] * 2, costs)
    assert sizes(found) == [15, 15]
    assert [(one.members[0], len(one.members), one.part_of) for one in found.groups] == [
        (0, 5, 0),
        (5, 5, 0),
        (10, 10, None),
        (20, 10, None),
    ]


@pytest.mark.parametrize("unit_s", [1 / 1024, 1.0, 1024.0])
@pytest.mark.parametrize(
    ("setup_s", "expected"), [(0, [15, 15]), (4, [15, 15]), (10, [15, 15]), (10.5, [20, 10])]
)
def test_a_set_up_paid_twice_must_be_worth_it(
    setup_s: float, expected: list[int], unit_s: float
) -> None:
    """Two shards wait 5 s less each, whatever a second is."""
    costs = Costs([unit_s] * 30, [setup_s * unit_s] * 30)
    groups = grouped(costs, lambda unit: unit // 10)
    assert sizes(evenly(groups, [Begun()] * 2, costs)) == expected


def test_what_is_empty_and_what_may_be_divided() -> None:
    groups, costs = equal([2, 1])
    pair, single = groups
    assert Packed([[pair], []], [Begun()] * 2, costs).has_empty
    assert not Packed([[pair], [single]], [Begun()] * 2, costs).has_empty
    assert not Packed([[pair], []], [Begun(), Begun(1.0, (9,))], costs).has_empty
    assert Packed([[single, pair], []], [Begun()] * 2, costs).obstacle() == pair
    assert Packed([[single], []], [Begun()] * 2, costs).obstacle() is None
    assert Packed([], [], costs).longest_s == 0.0


def test_a_file_is_cut_where_that_is_cheapest() -> None:
    groups, costs = equal([10, 10, 10, 10], [6.0, 0.0, 0.0, 0.0])
    assert dealt(groups, [Begun()] * 2, costs).shards[0] == (*range(10), *range(30, 40))
    found = evenly(groups, [Begun()] * 2, costs)
    assert sizes(found) == [17, 23]
    assert {group.part_of for group in found.groups} == {None, 30}


def test_five_files_over_three_shards_need_two_cuts() -> None:
    groups, costs = equal([12] * 5)
    found = evenly(groups, [Begun()] * 3, costs)
    assert sizes(found) == [20, 20, 20]
    assert sum(group.part_of is not None for group in found.groups) == 4


def test_one_file_fills_all_shards() -> None:
    groups, costs = equal([64])
    found = evenly(groups, [Begun()] * 8, costs)
    assert sizes(found) == [8] * 8


def test_a_shard_is_filled_to_the_mean_before_the_next_one() -> None:
    groups, costs = equal([60])
    packed = Packed([list(groups), [], []], [Begun()] * 3, costs)
    packed.level(0.0)
    assert sizes(packed) == [20, 20, 20]
    assert len(packed.groups) == 3


@pytest.mark.parametrize(
    ("loads", "parts"),
    [
        ((42, 24, 12), [[26], [24, 2], [12, 14]]),  # 14 s of room, and 16 s too many
        ((30, 26, 10), [[22], [22], [10, 8, 4]]),  # 8 s too many, and 12 s of room
    ],
)
def test_a_part_is_what_is_too_much_and_has_room(
    loads: tuple[int, ...], parts: list[list[int]]
) -> None:
    groups, costs = equal(loads)
    packed = Packed([[one] for one in groups], [Begun()] * 3, costs)
    packed.level(0.0)
    assert [[len(one.members) for one in mine] for mine in packed.held] == parts


def test_a_part_near_the_end_is_taken_before_an_exact_one() -> None:
    """Off by half a thousandth of the mean, 1000 s."""
    costs = Costs([100.0, 900.5, 99.5, 900.0])
    packed = Packed([[costs.group((0, 1, 2))], [costs.group((3,))]], [Begun()] * 2, costs)
    packed.level(0.0)
    assert packed.shards == ((0, 1), (2, 3))


def test_a_part_from_the_middle_leaves_the_rest() -> None:
    costs = Costs([10.0, 3.0, 10.0, 10.0, 27.0])
    packed = Packed([[costs.group((0, 1, 2, 3))], [costs.group((4,))]], [Begun()] * 2, costs)
    packed.level(0.0)
    assert packed.shards == ((0, 2, 3), (1, 4))


@pytest.mark.parametrize("second", [1 / 1024, 1.0, 1024.0])
def test_the_mean_is_that_with_the_set_up_that_the_part_pays(second: float) -> None:
    """66 s of one file: 24 s are the mean of the first move, 26 s that of the second."""
    costs = Costs([second] * 60, [6 * second] * 60)
    packed = Packed([[costs.group(range(60))], [], []], [Begun()] * 3, costs)
    packed.level(0.0)
    assert sizes(packed) == [22, 18, 20]


@pytest.mark.parametrize("second", [1 / 1024, 1.0, 1024.0])
def test_where_the_mean_is_no_room_for_a_set_up_both_get_as_long(second: float) -> None:
    """50 s with a set-up of 10, 34 s and 30 s: up to the mean 1 s could go, for 10 s more."""
    costs = Costs([second] * 104, [10 * second] * 40 + [0.0] * 64)
    groups = [costs.group(units) for units in (range(40), range(40, 74), range(74, 104))]
    packed = Packed([[one] for one in groups], [Begun()] * 3, costs)
    packed.level(0.0)
    assert sizes(packed) == [35, 34, 35]
    assert packed.longest_s == 45.0 * second


@pytest.mark.parametrize(("setup_s", "expected"), [(10.0, [15, 15]), (10.5, [20, 10])])
def test_a_part_is_moved_where_all_save_what_it_sets_up(
    setup_s: float, expected: list[int]
) -> None:
    """Without halving: two shards wait 5 s less each."""
    groups, costs = equal([10, 10, 10], [setup_s] * 3)
    packed = dealt(groups, [Begun()] * 2, costs)
    packed.level(0.0)
    assert sizes(packed) == expected


def test_of_all_parts_the_one_goes_that_leaves_the_least() -> None:
    costs = Costs([8.0, 1.0, 8.0, 4.0, 13.0, 8.0, 2.0])
    one, two, other = costs.group((0, 1)), costs.group((2, 3)), costs.group((4,))
    packed = Packed([[one, two], [other]], [Begun()] * 2, costs)
    packed.level(0.0)
    assert packed.shards == ((0, 1, 2), (3, 4))
    three = costs.group((5, 6))
    packed = Packed([[two, three], [other]], [Begun(), Begun(1.0, (9,))], costs)
    packed.level(0.0)
    assert packed.shards == ((2, 5, 6), (3, 4)), "4 s, not the 2 s that are looked at last"


@pytest.mark.parametrize("is_solid", [False, True])
def test_a_whole_group_takes_its_set_up_along(is_solid: bool) -> None:
    costs = Costs([3.0, 3.0, 10.0, 4.0], [4.0, 4.0, 0.0, 0.0])
    moving = Group((0, 1), 10.0, is_solid=is_solid)
    still = Group((2, 3), 14.0, is_solid=True)
    packed = Packed([[moving, still], []], [Begun(), Begun(4.0)], costs)
    packed.level(0.0)
    assert packed.held == [[still], [moving]]
    assert packed.longest_s == packed.mean_s == 14.0


@pytest.mark.parametrize(("last_s", "moves"), [(0.75, False), (1.25, True)])
def test_a_move_that_saves_less_than_a_hundredth_is_not_made(last_s: float, moves: bool) -> None:
    costs = Costs([99.0, last_s, 90.0])
    packed = Packed([[costs.group((0, 1))], [costs.group((2,))]], [Begun()] * 2, costs)
    packed.level(0.0)
    assert packed.shards == (((0,), (1, 2)) if moves else ((0, 1), (2,)))


def test_where_it_is_enough_nothing_is_divided() -> None:
    groups, costs = equal([10, 10, 10])
    assert sizes(evenly(groups, [Begun()] * 2, costs, None, 20.0)) == [20, 10]
    assert sizes(evenly(groups, [Begun()] * 2, costs, None, 19.0)) == [15, 15]


def test_a_cut_goes_to_a_class_that_is_near() -> None:
    groups, costs = equal([600, 400])
    begun = [Begun()] * 2
    assert sizes(evenly(groups, begun, costs)) == [500, 500]
    near = evenly(groups, begun, costs, lambda unit: unit >= 505)
    assert sizes(near) == [505, 495], "1 % more is worth a whole class"
    far = evenly(groups, begun, costs, lambda unit: unit >= 540)
    assert sizes(far) == [500, 500]
    assert len(far.groups) == 3, "one move, not first to the class and then on"


def test_what_the_suite_keeps_together_stays_together() -> None:
    costs = Costs([1.0] * 30)
    groups = grouped(costs, lambda unit: unit // 10, marked=[tuple(range(10, 20))])
    found = evenly(groups, [Begun()] * 2, costs)
    assert sizes(found) == [15, 15]
    assert tuple(range(10, 20)) in {group.members for group in found.groups}
    solid = [Group(tuple(range(n, n + 10)), 10.0, is_solid=True) for n in (0, 10, 20)]
    whole = evenly(solid, [Begun()] * 2, costs)
    assert whole.groups == tuple(solid)
    assert sizes(whole) == [20, 10]


def test_nearly_even_shards_are_left_alone() -> None:
    costs = Costs([51.0, 51.0, 50.0, 50.0])
    groups = grouped(costs, lambda unit: unit // 2)
    found = evenly(groups, [Begun()] * 2, costs)
    assert found.longest_s == 102.0 <= EVEN * 101.0
    assert found.shards == ((0, 1), (2, 3))


def test_nearly_even_shards_are_left_alone_even_where_halves_would_be_even() -> None:
    groups, costs = equal([203, 197])
    assert evenly(groups, [Begun()] * 2, costs).groups == tuple(groups)
    costs = Costs([51.75, 50.0, 50.0, 48.25])
    groups = [costs.group(members) for members in ((0, 1), (2,), (3,))]
    assert evenly(groups, [Begun()] * 2, costs).shards == ((0, 1), (2, 3))


def test_what_a_shard_holds_already_counts() -> None:
    groups, costs = equal([10, 10])
    found = evenly(groups, [Begun(6.0, (20, 21)), Begun()], costs)
    assert sizes(found) == [7, 13]


def test_a_long_unit_that_no_move_gets_past_is_dealt_apart_from_its_file() -> None:
    """Whole: 12 + 4 in one shard, 9 and 9 in the others; no part of it improves that."""
    costs = Costs([12.0, 4.0, 9.0, 6.0, 3.0])
    groups = [costs.group((0, 1)), costs.group((2,)), costs.group((3, 4))]
    assert dealt(groups, [Begun()] * 3, costs).longest_s == 16.0
    found = evenly(groups, [Begun()] * 3, costs)
    assert found.longest_s == pytest.approx(13.0)
    assert found.shards[0] == (0,)


def test_the_floor_unit_ends_the_search() -> None:
    costs = Costs([100.0, 1.0, 1.0, 1.0])
    groups = grouped(costs, lambda unit: unit > 0)
    found = evenly(groups, [Begun()] * 2, costs)
    assert found.shards == ((0,), (1, 2, 3))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=25), st.floats(0.1, 200))
def test_the_nearest_neighbours_are_those_of_all(times: list[int], wanted_s: float) -> None:
    walls_s = [float(one) for one in times]
    first, behind = nearest(walls_s, wanted_s, 0.0)
    assert 0 <= first < behind <= len(walls_s)
    off_s = abs(sum(walls_s[first:behind]) - wanted_s)
    ends = range(1, len(walls_s) + 1)
    assert off_s == min(abs(sum(walls_s[a:b]) - wanted_s) for b in ends for a in range(b))


def test_neighbours_that_are_near_enough_are_taken_from_the_end() -> None:
    walls_s = [5.0, 3.0, 3.0, 1.9]
    assert nearest(walls_s, 5.0, 0.0) == (0, 1)
    assert nearest(walls_s, 5.0, 0.1) == (2, 4)
    assert nearest([9.0, 9.0], 1.0, 0.0) == (1, 2), "one at least"
    assert nearest([4.0, 4.0, 4.0], 7.0, 0.0) == (1, 3)
    assert nearest([4.0, 4.0, 4.0], 5.0, 0.0) == (2, 3)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1)), min_size=1, max_size=12),
    st.integers(0, 12),
    st.integers(0, 30),
)
def test_of_all_borders_the_nearest_in_time_is_taken(
    units: list[tuple[int, int]], cut: int, most_s: int
) -> None:
    walls_s, names = [float(wall) for wall, _ in units], [name for _, name in units]
    cut = min(cut, len(units))
    ends = {0, len(units)}
    borders = ends | {at for at in range(1, len(units)) if names[at - 1] != names[at]}
    off_s = {at: sum(walls_s[min(at, cut) : max(at, cut)]) for at in borders}
    near = [at for at in borders if off_s[at] <= most_s]
    found = snapped(walls_s, names, cut, most_s)
    if not near:
        assert found == cut
    else:
        assert found in near
        assert off_s[found] == min(off_s[at] for at in near)


@pytest.mark.parametrize(
    ("cut", "most_s", "expected"),
    [
        (3, 9.0, 3),  # names change here
        (2, 9.0, 3),  # 1 s on, and 2 s to the beginning
        (2, 0.9, 2),
        (1, 9.0, 0),
        (4, 9.0, 3),  # 4 s back, and 5 s on
        (5, 4.0, 6),
        (5, 0.0, 5),
        (0, 9.0, 0),
        (6, 9.0, 6),
    ],
)
def test_a_cut_goes_to_the_nearest_border_in_time(cut: int, most_s: float, expected: int) -> None:
    walls_s, names = [1.0, 1.0, 1.0, 4.0, 3.0, 2.0], "aaabbb"
    assert snapped(walls_s, names, cut, most_s) == expected


def test_of_two_borders_as_near_a_cut_goes_to_the_one_before_it() -> None:
    assert snapped([1.0, 1.0], "aa", 1, 9.0) == 0


def obstructed(setup_s: float) -> tuple[list[Group], Costs]:
    """A file of 16 s and 5 s, and 55 tests of 1 s that are in none."""
    costs = Costs([16.0, 5.0] + [1.0] * 55, [setup_s] * 2 + [0.0] * 55)
    return [costs.group((0, 1)), *(costs.group((unit,)) for unit in range(2, 57))], costs


def test_a_group_that_no_move_gets_past_is_halved() -> None:
    groups, costs = obstructed(0.0)
    before = dealt(groups, [Begun()] * 4, costs)
    before.level(0.0)
    assert before.longest_s == 21.0
    assert evenly(groups, [Begun()] * 4, costs).longest_s == 19.0
    assert evenly(groups, [Begun()] * 4, costs, enough_s=21.0).longest_s == 21.0


def test_the_group_that_is_halved_is_taken_out_wherever_it_is() -> None:
    groups, costs = obstructed(0.0)
    found = evenly([*groups[1:], groups[0]], [Begun()] * 4, costs)
    assert found.longest_s == 19.0
    assert sorted(unit for shard in found.shards for unit in shard) == list(range(57))
    found = evenly([groups[1], groups[0], *groups[2:]], [Begun()] * 4, costs)
    assert sorted(unit for shard in found.shards for unit in shard) == list(range(57))


@pytest.mark.parametrize(("small_s", "is_halved"), [(0.5, False), (1.5, True)])
def test_halves_that_save_less_than_a_hundredth_are_not_made(
    small_s: float, is_halved: bool
) -> None:
    """No move helps: of two units of 50 s none is worth moving. Dealt apart, they are even."""
    costs = Costs([50.0 + small_s, 50.0, 50.0, 45.0 - small_s, 0.0, 0.0])
    groups = [costs.group((0, 1)), costs.group((2,)), costs.group((3,))]
    found = evenly(groups, [Begun()] * 2, costs)
    assert (found.shards != ((0, 1), (2, 3))) == is_halved


@pytest.mark.parametrize(("setup_s", "longest_s"), [(4.0, 21.0), (20.0, 36.0), (20.5, 41.5)])
def test_halves_too_must_be_worth_their_set_up(setup_s: float, longest_s: float) -> None:
    """Four shards wait 5 s less each."""
    groups, costs = obstructed(setup_s)
    assert evenly(groups, [Begun()] * 4, costs).longest_s == longest_s
