from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plan.plan_factories import planned, suite
from plan.test_observations import history

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.guard.combinations import base_findings
from ciguard.guard.verdict import Policy
from ciguard.history.file import History
from ciguard.history.query import BaseQuery
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey, InventorySummary, MovedUnit, Runner, UnitCount, UnitKey
from ciguard.plan.base_plan import (
    BaseCount,
    BasePlan,
    BaseShard,
    base_count_of_history,
    base_count_of_plan,
    from_history,
    from_plan,
    moved,
    with_base_counts,
)
from ciguard.plan.planner import Provenance

if TYPE_CHECKING:
    from ciguard.model import Plan

WALLS_S = {f"t{number:02}": 10.0 + number % 7 for number in range(40)}


def places(plan: object) -> dict[str, str]:
    return {unit.unit: shard.key for shard in plan.shards for unit in shard.units}  # type: ignore[attr-defined]


def test_the_same_units_stay_in_their_shards() -> None:
    before = planned(WALLS_S, group="none", shards=4).plan
    slower = {
        unit: wall_s * (1.01 + 0.01 * (n % 3)) for n, (unit, wall_s) in enumerate(WALLS_S.items())
    }
    fresh = planned(slower, group="none", shards=4).plan
    rerun = planned(slower, group="none", shards=4, base=from_plan(before)).plan
    assert places(fresh) != places(before), "else there is nothing to see"
    assert places(rerun) == places(before)
    assert rerun.moved_units == ()
    assert rerun.base == before.id


def test_moved_units_are_listed() -> None:
    before = planned(WALLS_S, group="none", shards=4).plan
    longest = before.shards[0].units
    slower = {
        unit: WALLS_S[unit] * (2 if unit in {u.unit for u in longest} else 1) for unit in WALLS_S
    }
    rerun = planned(slower, group="none", shards=4, base=from_plan(before)).plan
    there, here = places(before), places(rerun)
    assert rerun.moved_units
    assert {one.unit: (one.before, one.now) for one in rerun.moved_units} == {
        unit: (there[unit], here[unit]) for unit in WALLS_S if there[unit] != here[unit]
    }
    assert len(rerun.moved_units) < len(WALLS_S) / 2
    assert rerun.gap < 0.06


def test_shards_of_several_commands_are_stable() -> None:
    suites = {"one": suite(), "two": replace(suite(), command=("other",))}
    pairs = [
        (InventoryUnit(unit, name), wall_s) for name in suites for unit, wall_s in WALLS_S.items()
    ]
    pool_of = dict.fromkeys(suites, "linux")
    before = planned(pairs, suites=suites, pool_of=pool_of, group="none", shards=8).plan
    slower = [(unit, wall_s * (1.01 + 0.01 * (n % 3))) for n, (unit, wall_s) in enumerate(pairs)]
    fresh = planned(slower, suites=suites, pool_of=pool_of, group="none", shards=8).plan
    rerun = planned(
        slower, suites=suites, pool_of=pool_of, group="none", shards=8, base=from_plan(before)
    ).plan
    assert {shard.key: [u.key for u in shard.units] for shard in fresh.shards} != {
        shard.key: [u.key for u in shard.units] for shard in before.shards
    }
    assert rerun.moved_units == ()


def test_interleaved_shards_of_two_commands_are_stable() -> None:
    """Shard 05 came later, behind those of the other command."""
    suites = {"one": suite(), "two": replace(suite(), command=("other",))}

    def made(count: int, base: Plan | None) -> Plan:
        pairs = [(InventoryUnit(f"t{n}", "one"), 10.0) for n in range(20)]
        pairs += [(InventoryUnit(f"t{n}", "two"), 10.0) for n in range(count)]
        return planned(
            pairs,
            suites=suites,
            group="none",
            target_wall_s=110.0,
            base=from_plan(base) if base else None,
        ).plan

    grown = made(30, made(20, None))
    assert [shard.units[0].suite for shard in grown.shards] == ["two", "two", "one", "one", "two"]
    assert made(30, grown).moved_units == ()
    assert made(31, grown).moved_units == ()


def test_one_surplus_shard_of_the_base_is_retained() -> None:
    before = planned(WALLS_S, group="none", shards=13).plan
    fresh = planned(WALLS_S, group="none", target_wall_s=50.0).plan
    rerun = planned(WALLS_S, group="none", target_wall_s=50.0, base=from_plan(before)).plan
    assert len(fresh.shards) == 12
    assert len(rerun.shards) == 13
    assert rerun.moved_units == ()


def test_units_in_only_one_plan_are_not_moved() -> None:
    base = BasePlan(
        "x", (BaseShard("01", "linux", (UnitKey("", "", "gone"), UnitKey("", "", "a"))),)
    )
    shards = planned({"a": 1.0, "new": 1.0}, group="none", shards=2).plan.shards
    assert moved(base, shards) == ()
    other_shard = BasePlan("x", (BaseShard("07", "linux", (UnitKey("", "", "a"),)),))
    assert moved(other_shard, shards) == (MovedUnit("a", "07", "01"),)


def test_newest_complete_run_serves_as_base() -> None:
    rows = [("a", 0, 1.0), ("b|1", 0, 1.0), ("b|2", 0, 1.0), ("a", 1, 1.0)]
    reported = history(rows)
    assert from_history(reported) is None, "each run has a leg that did not end"
    entire = HistoryLeg("03", ending="completed", complete=True, runner=Runner(pool="linux"))
    runs = (reported.runs[0], reported.runs[1])
    reported = replace(reported, runs=(replace(runs[0], legs=(entire,)), runs[1]))
    assert from_history(reported) == BasePlan(
        "run 1", (BaseShard("03", "linux", (UnitKey("", "", "a"), UnitKey("", "", "b"))),)
    )


def test_a_hundredth_shard_does_not_rename_the_others() -> None:
    units = {f"t{number:03}": 10.0 for number in range(200)}
    before = planned(units, group="none", shards=99).plan
    after = planned(units, group="none", shards=100, base=from_plan(before)).plan
    assert [shard.key for shard in after.shards[:2]] == ["001", "002"]
    assert len(after.moved_units) <= 4


def test_one_suite_that_grows_does_not_renumber_another() -> None:
    suites = {"one": suite(), "two": replace(suite(), command=("other",))}
    pool_of = dict.fromkeys(suites, "linux")

    def made(count: int, base: BasePlan | None = None) -> Plan:
        ones = [(InventoryUnit(f"u{n:03}", "one"), 60.0) for n in range(count)]
        twos = [(InventoryUnit(f"u{n:03}", "two"), 60.0) for n in range(40)]
        return planned([*ones, *twos], suites=suites, pool_of=pool_of, group="none", base=base).plan

    before = made(20)
    after = made(50, from_plan(before))
    assert len(after.shards) > len(before.shards)
    assert not [one for one in after.moved_units if one.suite == "two"]


def test_large_change_of_shard_count_is_planned_in_bounded_time() -> None:
    units = {f"t{number:05}": 1.0 + number % 5 for number in range(8000)}
    before = planned(units, group="none", shards=1).plan
    after = planned(units, group="none", shards=64, base=from_plan(before)).plan
    assert after.gap < 0.05


def test_base_count_comes_from_the_base_plan_or_the_history() -> None:
    plan = planned(WALLS_S, group="none", shards=4).plan
    assert base_count_of_plan(plan) == BaseCount((UnitCount(40),), f"plan {plan.id}")
    legs = tuple(HistoryLeg(f"0{n}", complete=True, planned=(UnitCount(n),)) for n in (1, 2))
    runs = (HistoryRun(7, branch="main", event="push", legs=legs),)
    keys = (CaseKey("", "", "b.py::T::t", "b.py::T::t"), CaseKey("", "", "t00", "t00"))
    known = History(history([("b.py::T::t", 0, 1.0), ("t00", 0, 1.0)]).values, runs, keys)
    suites = {"": replace(suite(), cwd="sub/.")}
    count = base_count_of_history(known, BaseQuery("main", run_id=8), suites)
    files = frozenset({"sub/b.py", "t00"})
    assert count == BaseCount((UnitCount(3),), "run 7 of main", files=files)
    mine = BaseQuery("main", run_id=7)
    assert base_count_of_history(known, mine, suites) is None, "it is the asker itself"
    found = planned(WALLS_S, shards=4, origin=Provenance(base=count)).plan.inventory
    assert (found.base_units, found.base_source) == ((UnitCount(3),), "run 7 of main")
    assert planned(WALLS_S, shards=4).plan.inventory.base_units == ()
    there = InventorySummary(1, {"sub/b.py": 0, "sub/c.py": 0, "d.py": 1, "e/t00.java": 0}, "0")
    assert with_base_counts(there, count).files_without_units == ("e/t00.java", "sub/b.py")


def test_suite_that_has_no_unit_any_more_is_a_loss_and_one_not_configured_is_told() -> None:
    suites = {"one": suite(), "emptied": suite()}
    counts = tuple(UnitCount(5, name) for name in (*suites, "removed"))
    units = [(InventoryUnit(f"t{number}", "one"), 1.0) for number in range(5)]
    pool_of = dict.fromkeys(suites, "linux")
    origin = Provenance(base=BaseCount(counts, "run 7"))
    found = planned(units, suites=suites, pool_of=pool_of, shards=1, origin=origin).plan
    keys = {unit.key for unit in found.shards[0].units}
    fewer, gone = base_findings(found, Policy(), keys)
    assert (fewer.kind, fewer.facts["combination"]) == ("fewer_units", "emptied")
    assert (gone.kind, gone.facts["combinations"]) == ("combination_gone", ("removed",))
