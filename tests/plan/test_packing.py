from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.packing import Group, grouped, longest_first, lower_bound_s, scattered

WALLS = st.lists(st.floats(0, 1e4), min_size=1, max_size=60)
COUNTS = st.integers(1, 20)


def files_of(width: int) -> tuple[object, ...]:
    """A border every `width` units, and one in it every third of that."""
    return (lambda place: f"f{place // width}", lambda place: f"c{place // max(1, width // 3)}")


@given(WALLS, COUNTS, st.integers(1, 12), st.sampled_from([0, 1, 2]))
def test_every_unit_is_in_exactly_one_shard(
    walls_s: list[float], count: int, width: int, levels: int
) -> None:
    borders = files_of(width)[:levels]
    groups = grouped(walls_s, borders, sum(walls_s) / count or 1.0, count)  # type: ignore[arg-type]
    shards = longest_first(groups, count)
    assert sorted(place for shard in shards for place in shard) == list(range(len(walls_s)))
    assert len(shards) == count
    assert sum(map(bool, shards)) == min(count, len(walls_s))


@given(WALLS, COUNTS)
def test_alone_units_stay_within_twice_the_lower_bound(walls_s: list[float], count: int) -> None:
    shards = longest_first(grouped(walls_s, (), 1.0), count)
    makespan_s = max(math.fsum(walls_s[place] for place in shard) for shard in shards)
    bound_s = lower_bound_s(math.fsum(walls_s), max(walls_s), count)
    assert bound_s <= makespan_s * (1 + 1e-12)
    assert makespan_s <= 2 * bound_s * (1 + 1e-12)


def test_the_longest_goes_first() -> None:
    shards = longest_first(grouped([3, 3, 2, 2, 2], (), 6), 2)
    assert shards == ((0, 2, 4), (1, 3))
    assert longest_first(grouped([2, 2, 2, 3, 3], (), 6), 2) == ((0, 2, 3), (1, 4))


def test_of_equal_groups_the_one_with_the_first_unit_goes_first() -> None:
    assert longest_first([Group((0, 5), 1.0), Group((1, 2), 1.0)], 2) == ((0, 5), (1, 2))


def test_the_least_loaded_shard_is_the_next_whatever_it_counts() -> None:
    shards = longest_first(grouped([8, 7, 6, 5, 4], (), 1.0), 2)
    assert shards == ((0, 3, 4), (1, 2))


def test_without_any_time_units_are_split_by_count() -> None:
    shards = longest_first(grouped([0.0] * 7, (), 1.0), 3)
    assert [len(shard) for shard in shards] == [3, 2, 2]


def test_a_small_file_stays_together_and_a_large_one_is_split_along_its_classes() -> None:
    walls_s = [1.0] * 12
    borders = (lambda place: "small" if place < 2 else "large", lambda place: place // 4)
    groups = grouped(walls_s, borders, target_s=9.0)
    assert [group.members for group in groups] == [
        (0, 1),
        (2, 3),
        (4, 5, 6, 7),
        (8, 9, 10, 11),
    ]
    assert [group.part_of for group in groups] == [None, 2, 2, 2]


def test_what_is_still_too_large_is_split_into_runs_of_neighbours() -> None:
    groups = grouped([1.0] * 16, (lambda _: "file", lambda _: "class"), target_s=16.0)
    assert [group.members for group in groups] == [(at, at + 1) for at in range(0, 16, 2)]


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
    groups = grouped(walls_s, (lambda _: "f",), 1e9, 2, setups_s=[setup_s] * len(walls_s))
    assert [group.members for group in groups] == halves


def test_the_longest_group_is_halved_first_and_a_marked_one_last() -> None:
    walls_s = [1.0, 1.0, 1.0, 10.0, 10.0]
    border = (lambda unit: "many" if unit < 3 else "long",)
    groups = grouped(walls_s, border, 1e9, 3)
    assert [group.members for group in groups] == [(0, 1, 2), (3,), (4,)]
    marked = grouped(walls_s, border, 1e9, 3, marked=[(3, 4)])
    assert [group.members for group in marked] == [(0, 1), (2,), (3, 4)]
    assert [group.is_solid for group in marked] == [False, False, True]


def test_a_group_of_exactly_half_of_the_target_stays_whole() -> None:
    whole = grouped([2.0, 2.0], (lambda _: "f",), target_s=8.0)
    assert [group.members for group in whole] == [(0, 1)]
    assert len(grouped([2.0, 2.0], (lambda _: "f",), target_s=7.9)) == 2


def test_the_widest_border_is_the_first() -> None:
    borders = (lambda _: "file", lambda unit: unit // 2)
    (whole,) = grouped([1.0] * 4, borders, target_s=100.0)
    assert whole.members == (0, 1, 2, 3)


def test_the_bound_is_a_mean_in_fractions_of_a_second() -> None:
    assert lower_bound_s(1.0, 0.1, 4, setup_s=0.5) == 0.75


def test_dear_fixtures_make_larger_parts() -> None:
    """Each part sets up for 1 s what it shares: at least four times that much is worth it."""
    border = (lambda _: "file",)
    groups = grouped([1.0] * 16, border, target_s=16.0, setups_s=[1.0] * 16)
    assert [len(group.members) for group in groups] == [4, 4, 4, 4]
    assert {group.wall_s for group in groups} == {5.0}
    dearer = grouped([1.0] * 32, border, target_s=32.0, setups_s=[2.0] * 32)
    assert [len(group.members) for group in dearer] == [8, 8, 8, 8]
    by_class = (lambda _: "file", lambda unit: unit // 2)
    joined = grouped([1.0] * 16, by_class, target_s=16.0, setups_s=[1.0] * 16)
    assert [group.members for group in joined] == [tuple(range(at, at + 4)) for at in (0, 4, 8, 12)]
    assert {group.part_of for group in joined} == {0}


def test_a_group_that_is_nearly_all_set_up_is_not_divided() -> None:
    borders = (lambda _: "file", lambda _: "class")
    (whole,) = grouped([0.125, 0.125], borders, target_s=1.0, setups_s=[0.5, 0.5])
    assert (whole.members, whole.wall_s) == ((0, 1), 0.75)


def test_a_long_unit_alone_does_not_keep_others_from_being_halved() -> None:
    border = (lambda unit: "long" if unit == 0 else "many",)
    groups = grouped([50.0, 1.0, 1.0, 1.0, 1.0], border, 1e9, 3)
    assert [group.members for group in groups] == [(0,), (1, 2), (3, 4)]


def test_what_the_suite_marks_stays_together_whatever_it_costs() -> None:
    border = (lambda unit: "first" if unit < 4 else "second",)
    groups = grouped([9.0] * 8, border, target_s=10.0, marked=[(1, 5, 6)])
    assert (1, 5, 6) in [group.members for group in groups]
    assert all(len(group.members) == 1 for group in groups if not group.is_solid)
    alone = grouped([9.0] * 3, (), 1.0, 3, marked=[(0, 1, 2)])
    assert [group.members for group in alone] == [(0,), (1,), (2,)], "but no shard stays empty"
    assert grouped([1.0] * 3, (), 1.0, 1, [2], marked=[(0, 1)])[0].members == (2,)


def test_a_long_unit_is_a_run_by_itself() -> None:
    groups = grouped([1.0, 9.0, 1.0], (lambda _: "file",), target_s=10.0)
    assert [group.members for group in groups] == [(0,), (1,), (2,)]


@pytest.mark.parametrize("wall_s", [0.0, 1.0])
def test_too_few_groups_are_halved(wall_s: float) -> None:
    groups = grouped([wall_s] * 8, (lambda _: "file",), target_s=1e9, at_least=4)
    assert [group.members for group in groups] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert {group.part_of for group in groups} == {0}


def test_a_long_unit_by_itself_was_not_split() -> None:
    (alone,) = grouped([9.0], (lambda _: "file",), target_s=10.0)
    assert alone.part_of is None


def test_each_border_has_its_turn() -> None:
    """A file of one class, of which one fixture's tests would be a part of the right size."""
    borders = (lambda _: "file", lambda _: "class", lambda unit: unit // 4)
    groups = grouped([1.0] * 8, borders, target_s=10.0)
    assert [group.members for group in groups] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_a_unit_without_a_border_goes_by_itself() -> None:
    groups = grouped([1.0] * 3, (lambda place: None if place < 2 else 0,), target_s=100.0)
    assert [group.members for group in groups] == [(0,), (1,), (2,)]


def test_only_groups_that_did_end_in_several_shards_are_named() -> None:
    parts = [Group((0,), 1.0, 0), Group((1,), 1.0, 0), Group((2,), 1.0, 2), Group((3,), 1.0, 2)]
    assert scattered(parts, [(0, 1, 2), (3,)]) == (2,)


def test_the_bound_is_the_mean_load_or_the_longest_unit() -> None:
    assert lower_bound_s(100.0, 20.0, 4) == 25.0
    assert lower_bound_s(100.0, 60.0, 4) == 60.0
    assert lower_bound_s(100.0, 20.0, 4, setup_s=2.0) == 27.0
