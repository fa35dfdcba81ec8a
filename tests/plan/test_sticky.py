from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.packing import Group, longest_first
from ciguard.plan.sticky import GAP, kept


def singles(*walls_s: float) -> list[Group]:
    return [Group((unit,), wall_s) for unit, wall_s in enumerate(walls_s)]


def makespan(groups: list[Group], shards: tuple[tuple[int, ...], ...]) -> float:
    walls_s = {group.members[0]: group.wall_s for group in groups}
    return max(sum(walls_s.get(unit, 0.0) for unit in shard) for shard in shards)


def test_what_is_balanced_stays_where_it_is() -> None:
    groups = singles(5, 3, 4, 4)
    assert kept(groups, {0: 1, 1: 1, 2: 0, 3: 0}, 2) == ((2, 3), (0, 1))


def test_a_new_unit_goes_to_the_shortest_shard() -> None:
    assert kept(singles(5, 3, 4, 1), {0: 1, 1: 0, 2: 0}, 2) == ((1, 2), (0, 3))


def test_one_move_closes_a_gap() -> None:
    groups = singles(6, 4, 2, 4)
    assert kept(groups, {0: 0, 1: 0, 2: 0, 3: 1}, 2) == ((0, 2), (1, 3))


def test_where_moves_do_not_help_a_fresh_plan_is_numbered_like_the_base() -> None:
    """Three of 3 and two of 4 and 5: no single move evens 9 + 9."""
    groups = singles(9, 5, 4, 3, 3, 3)
    homes = {0: 1, 1: 1, 2: 0, 3: 0, 4: 0, 5: 0}
    shards = kept(groups, homes, 2)
    assert makespan(groups, shards) <= makespan(groups, longest_first(groups, 2)) * (1 + GAP)
    assert 0 in shards[1], "most of its time is where it was"


def test_a_shard_that_is_gone_or_new_is_no_home() -> None:
    groups = singles(1, 1, 1, 1)
    assert kept(groups, dict.fromkeys(range(4), 7), 2) == ((0, 2), (1, 3))
    assert all(kept(groups, dict.fromkeys(range(4), 0), 4)), "none is empty"


@given(
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 9)), min_size=1, max_size=40),
    st.integers(1, 8),
)
def test_every_unit_once_no_empty_shard_and_near_a_fresh_plan(
    units: list[tuple[float, int]], count: int
) -> None:
    groups = singles(*(wall_s for wall_s, _ in units))
    count = min(count, len(units))
    shards = kept(groups, {unit: home for unit, (_, home) in enumerate(units)}, count)
    assert sorted(unit for shard in shards for unit in shard) == list(range(len(units)))
    assert len(shards) == count
    assert all(shards)
    fresh_s = makespan(groups, longest_first(groups, count))
    assert makespan(groups, shards) <= fresh_s * (1 + GAP) + 1e-6
