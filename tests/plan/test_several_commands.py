"""A number of shards for several commands, which share none."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.plan_factories import planned, suite

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.model import Plan

# By suite: what its process takes to start, and its tests.
Suites = list[tuple[float, list[float]]]


def made(reported: Suites, shards: int) -> Plan:
    names = [f"suite{place}" for place in range(len(reported))]
    suites = {
        name: replace(suite(setup_s), command=(name,))
        for name, (setup_s, _) in zip(names, reported, strict=True)
    }
    pairs = [
        (InventoryUnit(f"t{place}", name), wall_s)
        for name, (_, walls_s) in zip(names, reported, strict=True)
        for place, wall_s in enumerate(walls_s)
    ]
    pool_of = dict.fromkeys(suites, "linux")
    return planned(pairs, suites=suites, pool_of=pool_of, group="none", shards=shards).plan


def shards_of(plan: Plan) -> list[int]:
    suites = [shard.units[0].suite for shard in plan.shards]
    return [suites.count(name) for name in sorted(set(suites))]


def test_setup_of_each_shard_counts() -> None:
    """300 s without any, and 240 s with 60 s in each shard: 100 s and 180 s with 3 and 2."""
    plan = made([(0.0, [10.0] * 30), (60.0, [10.0] * 24)], 5)
    assert shards_of(plan) == [2, 3]
    assert plan.lower_bound_s == 150.0
    assert plan.gap == 0.0


def test_no_second_shard_for_a_suite_limited_by_one_unit() -> None:
    """The second shard of the first suite would save nothing."""
    plan = made([(0.0, [300.0, *[2.0] * 5]), (0.0, [10.0] * 58)], 4)
    assert shards_of(plan) == [2, 2]
    plan = made([(0.0, [310.0]), (0.0, [10.0] * 60)], 4)
    assert shards_of(plan) == [1, 3]


WALLS = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), WALLS), min_size=1, max_size=3), st.integers(0, 6))
def test_shard_division_minimises_the_lower_bound(reported: Suites, more: int) -> None:
    count = min(len(reported) + more, sum(len(walls_s) for _, walls_s in reported))
    bounds_s = [
        max(
            max(sum(walls_s) / shards, *walls_s) + setup_s
            for shards, (setup_s, walls_s) in zip(shares, reported, strict=True)
        )
        for shares in product(range(1, count + 1), repeat=len(reported))
        if sum(shares) == count
        and all(shards <= len(one[1]) for shards, one in zip(shares, reported, strict=True))
    ]
    assert made(reported, count).lower_bound_s == pytest.approx(min(bounds_s), abs=1e-5)


@pytest.mark.parametrize("shards", range(1, 9))
def test_lower_bound_covers_separate_and_joint_suites(shards: int) -> None:
    """A shard of both beside shards of one may end before both ways: neither is a bound alone."""
    suites = {name: suite(20.0) for name in "ab"}
    pairs = [(InventoryUnit(f"t{place}", name), 10.0) for name in suites for place in range(30)]
    pool_of = dict.fromkeys(suites, "linux")
    plan = planned(pairs, suites=suites, pool_of=pool_of, group="none", shards=shards).plan
    starts_s = 20.0 * max(2, shards)
    assert plan.lower_bound_s == pytest.approx((600.0 + starts_s) / shards)
    makespan_s = max(shard.predicted.wall_s for shard in plan.shards)
    assert plan.gap == pytest.approx(makespan_s / plan.lower_bound_s - 1, abs=1e-6)
