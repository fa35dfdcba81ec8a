"""The number of units beside the base's: what may be gone, and what is called incomplete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from guard.fixtures import World, make_plan

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.headline import headline
from ciguard.guard.verdict import Policy
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.model import Exclusion, InventorySummary, Suite, UnitCount, Variant


def counted(now: int, **more: Any) -> InventorySummary:
    return InventorySummary(now, more.pop("files", {}), "0", **more)


DROPS = [
    (8, 8, Policy(), "passed"),
    (8, 9, Policy(), "passed"),  # 1 % of 9, to a whole test
    (8, 10, Policy(), "incomplete"),
    (693, 700, Policy(), "passed"),
    (692, 700, Policy(), "incomplete"),
    (8, 10, Policy(max_drop=0.2), "passed"),
    (8, 10, Policy(min_units=8), "passed"),
    (8, 10, Policy(min_units=9), "incomplete"),
    (800, 801, Policy(max_drop=0.0), "incomplete"),
    (93, 100, Policy(max_drop=0.07), "passed"),  # 0.07 * 100 is more than 7
    (92, 100, Policy(max_drop=0.07), "incomplete"),
]


@pytest.mark.parametrize(("now", "before", "policy", "state"), DROPS)
def test_fewer_units_than_the_base(now: int, before: int, policy: Policy, state: str) -> None:
    units = {"01": tuple(f"u{n:03}" for n in range(now))}
    inventory = counted(now, base_units=(UnitCount(before),))
    world = World(plan=make_plan(units, inventory=inventory), policy=policy)
    assert world.prove().state == state


def combinations_world(before: dict[str, int], now: dict[str, int], **policy: Any) -> World:
    """A matrix with these numbers of tests, on the base and now; one that is 0 is still there."""
    there = [variant for variant, count in now.items() if count]
    keys = {variant: f"{place:02}" for place, variant in enumerate(there, 1)}
    made = make_plan({key: tuple(f"t{n}" for n in range(now[one])) for one, key in keys.items()})
    shards = tuple(
        replace(
            shard, units=tuple(replace(unit, suite="unit", variant=one) for unit in shard.units)
        )
        for shard, one in zip(made.shards, keys, strict=True)
    )
    base = tuple(UnitCount(count, "unit", one) for one, count in before.items())
    inventory = counted(sum(now.values()), base_units=base, base_source="run 7 of main")
    suites = {
        "unit": Suite(
            "command", ("./all",), variants={one: Variant(matrix={"python": one}) for one in now}
        )
    }
    made = replace(made, suites=suites, shards=shards, inventory=inventory)
    made = plan_codec.decode(plan_codec.encode(made), "plan.json")
    return World(plan=made, policy=Policy(**policy))


MATRIX = {f"3.{n}": 40 for n in range(8, 68)}


def test_one_combination_that_loses_half_its_tests_is_incomplete() -> None:
    """Beside 59 others these are 0.8 % of all tests."""
    half = {**MATRIX, "3.12": 20}
    verdict = combinations_world(MATRIX, half).prove()
    assert headline(verdict) == (
        "INCOMPLETE: 20 tests planned of unit 3.12, 40 on the base (-50.0 %, run 7 of main)"
    )
    (finding,) = verdict.findings
    assert "base branch to 2380 or less" in finding_fix(finding)
    two = combinations_world(MATRIX, {**half, "3.13": 15}).prove()
    assert headline(two).endswith(
        "15 tests planned of unit 3.13, 40 on the base (-62.5 %, run 7 of main); "
        "fewer also of unit 3.12"
    )
    assert combinations_world(MATRIX, half, min_units=2380).prove().state == "passed"


def test_one_deleted_test_of_each_small_combination_is_daily_work() -> None:
    before = {"a": 3, "b": 2, "c": 40}
    assert combinations_world(before, {"a": 2, "b": 1, "c": 39}).prove().findings == ()
    two = combinations_world(before, {"a": 3, "b": 2, "c": 38}).prove()
    assert two.state == "incomplete"
    strict = combinations_world(before, {"a": 2, "b": 2, "c": 40}, max_drop=0.0).prove()
    assert strict.state == "incomplete"


@pytest.mark.parametrize("count", [1, 40])
def test_a_combination_that_is_empty_is_incomplete_whatever_may_be_gone(count: int) -> None:
    world = combinations_world({"a": 40, "b": count}, {"a": 40, "b": 0}, max_drop=1.0)
    assert headline(world.prove()).startswith("INCOMPLETE: 0 tests planned of unit b, ")


def test_a_combination_that_the_matrix_no_longer_has_is_told_and_is_no_loss() -> None:
    world = combinations_world(MATRIX, {one: 40 for one in MATRIX if one != "3.8"}, max_drop=0.0)
    verdict = world.prove()
    assert headline(verdict) == (
        "PASSED: all 2,360 tests of 59 shards have a result; "
        "1 combination gone since run 7 of main: unit 3.8"
    )
    assert [(one.level, one.kind) for one in verdict.findings] == [("warning", "combination_gone")]
    other = make_plan(inventory=counted(8, base_units=(UnitCount(8), UnitCount(5, "web"))))
    assert headline(World(plan=other).prove()).endswith("; 1 combination gone: web")


def test_unit_count_drop_names_its_source_and_fix() -> None:
    base = (UnitCount(1000),)
    inventory = counted(8, base_units=base, base_source="run 150 of main")
    (finding,) = World(plan=make_plan(inventory=inventory)).prove().findings
    assert (
        finding_message(finding) == "8 tests planned, 1,000 on the base (-99.2 %, run 150 of main)"
    )
    assert "set guard.min_units in the configuration of the base branch" in finding_fix(finding)


def test_base_count_of_the_report_is_used_if_the_plan_has_none() -> None:
    policy = Policy(base_units=((UnitCount(10),), "run 150 of main"))
    assert World(policy=policy).prove().state == "incomplete"
    reported = make_plan(inventory=counted(8, base_units=(UnitCount(8),)))
    assert World(plan=reported, policy=policy).prove().state == "passed"


def test_file_that_lost_all_units_since_the_base_is_incomplete() -> None:
    inventory = counted(8, files={"a.t": 8, "b.t": 0, "c.t": 0}, files_without_units=("c.t",))
    verdict = World(plan=make_plan(inventory=inventory)).prove()
    assert headline(verdict) == (
        "INCOMPLETE: 1 test file without a planned test, but with tests on the base: c.t"
    )
    assert not verdict.findings[1:], "b.t never had any"


def test_file_that_the_framework_leaves_out_since_the_base_is_incomplete() -> None:
    omitted = {"needs jinja": {"c.t": 0}, "addopts: -m 'not slow'": {"a.t": 2}}
    files = {"a.t": 8, "c.t": 0}
    plan = make_plan(inventory=counted(8, files=files, files_without_units=("c.t",)))
    suites = {name: replace(suite, omitted=omitted) for name, suite in plan.suites.items()}
    (finding,) = World(plan=replace(plan, suites=suites)).prove().findings
    assert finding_message(finding) == (
        "1 test file skipped or deselected, but with tests on the base: c.t (needs jinja)"
    )
    assert finding_fix(finding).startswith("install the missing package in the job")


def test_newly_excluded_units_count_as_dropped() -> None:
    excluded = tuple(Exclusion(f"z.t::slow{n}", "exclude: z*") for n in range(2))
    inventory = counted(10, base_units=(UnitCount(10),), excluded=excluded)
    verdict = World(plan=make_plan(inventory=inventory)).prove()
    assert verdict.state == "incomplete"
    assert headline(verdict).startswith("INCOMPLETE: 8 tests planned, 10 on the base (-20.0 %)")
