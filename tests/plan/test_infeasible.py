"""What alone takes longer than a leg may is no reason for the others to do so, too."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.plan_factories import planned

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.model import Plan, PlanNote

DEADLINE_S = 2700.0 - 90.0
MANY = {f"file{n // 10}::t{n}": 100.0 for n in range(300)}


def late(plan: Plan) -> list[list[str]]:
    """Units of the shards that will not end in time."""
    return [
        [unit.unit for unit in shard.units]
        for shard in plan.shards
        if shard.predicted.wall_s > DEADLINE_S
    ]


@pytest.mark.parametrize("target_wall_s", [600.0, 2800.0, 3600.0])
@pytest.mark.parametrize("concurrent", [{}, {"file::sibling": 50.0}])
def test_only_the_shard_of_the_infeasible_unit_exceeds_the_limit(
    target_wall_s: float, concurrent: dict[str, float]
) -> None:
    units = {"file::endless": 3000.0, **concurrent, **MANY}
    plan = planned(units, target_wall_s=target_wall_s, risk=0.01).plan
    assert late(plan) == [["file::endless"]]
    assert plan.shards[0].units[0].unit == "file::endless", "the first shards start first"
    assert len(plan.shards) < 20
    if target_wall_s > 3000.0:
        assert plan.shard_count_limited_by == (PlanNote("target_met", {"target_s": target_wall_s}),)
    else:
        facts: dict[str, Any] = {"tests": 1, "deadline_s": DEADLINE_S}
        assert plan.shard_count_limited_by == (PlanNote("deadline_met", facts),)
    facts = {"deadline_s": DEADLINE_S, "shards_s": {"01": 3000.0}}
    assert plan.warnings[-1] == PlanNote(
        "deadline_exceeded", {**facts, "tests_s": {"file::endless": 3000.0}}
    )


def test_long_file_is_split_despite_an_infeasible_unit() -> None:
    units = {"endless": 3000.0, **{f"file::t{n}": 70.0 for n in range(40)}}
    for options in ({"target_wall_s": 600.0}, {"shards": 3}):
        plan = planned(units, **options).plan
        assert late(plan) == [["endless"]]
        assert len(plan.shards) == 3


def test_marked_group_is_infeasible_as_a_whole() -> None:
    pairs = [(InventoryUnit(f"db::t{n}", group="db"), 300.0) for n in range(10)]
    pairs += [(InventoryUnit(unit), wall_s) for unit, wall_s in MANY.items()]
    plan = planned(pairs, target_wall_s=3600.0).plan
    assert late(plan) == [[f"db::t{n}" for n in range(10)]]
    assert plan.shard_count_limited_by == (PlanNote("target_met", {"target_s": 3600.0}),)


def test_target_decides_if_most_units_are_infeasible() -> None:
    """And not a shard for each of 69 units of 5 s, because a limit of 45 min was written as 4 s."""
    units = {f"t{n:02}": 5.0 for n in range(69)}
    plan = planned(units, limit_s=4.0, target_wall_s=100.0).plan
    assert len(plan.shards) == 4
    assert plan.shard_count_limited_by == (PlanNote("target_met", {"target_s": 100.0}),)
    assert plan.warnings[0].kind == "deadline_exceeded"
    assert plan.warnings[0].facts["deadline_s"] == pytest.approx(3.2)
    some = {f"t{n:02}": 5.0 if n < 30 else 1.0 for n in range(69)}
    plan = planned(some, limit_s=4.0, target_wall_s=100.0, risk=0.05).plan
    assert [len(shard.units) for shard in plan.shards[:30]] == [1] * 30
    assert all(shard.predicted.wall_s <= 3.2 for shard in plan.shards[30:])


@pytest.mark.parametrize(("infeasible", "shards"), [(5, 6), (6, 1)])
def test_deadline_that_most_units_exceed_is_not_enforced(infeasible: int, shards: int) -> None:
    units = {f"t{n}": 5.0 if n < infeasible else 0.1 for n in range(10)}
    assert len(planned(units, limit_s=4.0, target_wall_s=100.0, risk=0.05).plan.shards) == shards


def test_infeasible_unit_is_not_isolated_if_other_shards_are_longer() -> None:
    plan = planned({"endless": 3000.0, **MANY}, shards=2).plan
    assert [round(shard.predicted.wall_s) for shard in plan.shards] == [16500, 16500]


def test_only_a_unit_longer_than_the_remaining_mean_is_isolated() -> None:
    """After the first, 6000 s are left for two shards."""
    rest = {f"t{n:02}": 100.0 for n in range(33)}
    plan = planned({"a": 3000.0, "b": 2700.0, **rest}, shards=3, group="none").plan
    assert [shard.predicted.wall_s for shard in plan.shards] == [3000.0] * 3
    assert [unit.unit for unit in plan.shards[0].units] == ["a"]


@given(
    st.lists(st.floats(2700.0, 9000.0), min_size=1, max_size=5),
    st.lists(st.floats(1.0, 2000.0), min_size=5, max_size=40),
    st.floats(60.0, 8000.0),
    st.sampled_from(["none", "file"]),
)
def test_feasible_units_meet_the_limit_with_few_extra_shards(
    endless: list[float], remaining: list[float], target_wall_s: float, group: str
) -> None:
    units = {f"e{n}": wall_s for n, wall_s in enumerate(endless)}
    rest = {f"f{n % 3}::t{n}": wall_s for n, wall_s in enumerate(remaining)}
    options: dict[str, Any] = {"target_wall_s": target_wall_s, "group": group, "risk": 0.05}
    plan = planned({**units, **rest}, **options).plan
    assert sorted(late(plan)) == sorted([unit] for unit in units)
    alone = len(planned(rest, **options).plan.shards)
    # With the same target for all, files are cut at another place: that can take one shard more.
    assert len(plan.shards) <= len(endless) + alone + 1
