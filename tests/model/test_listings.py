"""What exists, by the listings of a run's legs: over lines as legs write them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

import pytest
from run.leg_runner import OF_MATRIX, PYTEST, listing_plan

from ciguard.guard.headline import headline
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Policy
from ciguard.model import (
    EndLine,
    EventLine,
    InventorySummary,
    LegPolicy,
    Plan,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    ShardLine,
    Suite,
    UnitCount,
)
from ciguard.model.listings import with_listings
from ciguard.render.links import NO_LINKS
from ciguard.render.plaintext import as_text
from ciguard.report.answer import status_line
from ciguard.run import selection
from ciguard.run.frameworks.base import ListedUnit
from ciguard.run.selection import listing_lines

KEYS = ("01", "02", "03")
OLD = ("a.py::one", "a.py::two", "b.py::three")
OLD_SHARDS = tuple((unit,) for unit in OLD)
NEW = tuple(f"c.py::new{number}" for number in range(12))


def record_of(plan: Plan, key: str, units: Iterable[str], attempt: int = 1) -> Record:
    """The record of a leg that listed these units and ran its own."""
    shard = next(one for one in plan.shards if one.key == key)
    events = tuple(listing_lines(plan, shard, map(ListedUnit, units)))
    alone = Record("", ShardLine(plan.id, key, run_id=1, run_attempt=attempt), events=events)
    found = next(one for one in with_listings(plan, [alone]).plan.shards if one.key == key)
    results = tuple(
        Result(unit.unit, "passed", *shard.suite_key, at_s=1.0, wall_s=0.1, process=1)
        for unit in found.units
    )
    return replace(
        alone,
        results=results,
        processes=(ProcessLine(1, 0, *shard.suite_key, at_s=0.0, reason="listing"),),
        process_ends=(ProcessEndLine(1, "completed", 0, 2.0),),
        end=EndLine("completed", 3.0, 0, {"passed": len(results)}),
    )


def test_new_units_are_in_one_shard_each_and_gone_ones_in_none() -> None:
    plan = listing_plan(*OLD_SHARDS)
    listed = (*OLD[1:], *NEW)
    found = with_listings(plan, [record_of(plan, key, listed) for key in KEYS])
    units = [unit.unit for shard in found.plan.shards for unit in shard.units]
    assert sorted(units) == sorted(listed)
    assert (found.new, found.gone) == (12, 1)
    assert found.plan.inventory.collected == 14
    assert all(shard.units for shard in found.plan.shards[1:])


def test_units_are_counted_in_each_combination() -> None:
    plan = listing_plan(*OLD_SHARDS, variants=("x", "y"))
    listed = {"x": (*OLD, "a.py::only_x"), "y": OLD[:2]}
    records = [record_of(plan, one.key, listed[one.variant]) for one in plan.shards]
    verdict = prove(plan, records)
    assert (verdict.planned, verdict.new, verdict.gone) == (6, 1, 1)
    assert "a.py::only_x" in {unit.unit for one in verdict.plan.shards for unit in one.units}
    assert headline(verdict) == ("PASSED: all 6 tests of 6 shards have a result, 1 new, 1 gone")
    guess = [
        replace(
            one, units=tuple(replace(unit, has_history=one.variant == "x") for unit in one.units)
        )
        for one in plan.shards
    ]
    verdict = prove(replace(plan, shards=tuple(guess)), records)
    assert (verdict.planned, verdict.new, verdict.gone) == (6, 1, 0), "y has no test of its own yet"


def test_tests_of_lost_combinations_are_not_known() -> None:
    plan = listing_plan((), (), (), variants=("x", "y"))
    records = [record_of(plan, key, OLD) for key in ("01", "04")]
    line = "1 test ran · the tests of 3 shards are not known · 6 shards"
    for ran, text in ((records[:1], line), (records, "2 of 6 tests ran · 6 shards")):
        assert as_text([status_line(prove(plan, ran), None, NO_LINKS)]).startswith(text)


def test_new_units_of_a_lost_shard_are_named() -> None:
    plan = listing_plan(*OLD_SHARDS)
    verdict = prove(plan, [record_of(plan, key, (*OLD, *NEW)) for key in KEYS[:2]])
    lost = {one.key.unit for one in verdict.missing}
    assert "b.py::three" in lost
    assert {unit.partition("::")[0] for unit in lost} == {"b.py", "c.py"}
    assert verdict.planned == 15
    assert headline(verdict).startswith("INCOMPLETE: shard 03 of 3 has no record; ")
    assert headline(verdict).endswith(f"{len(lost)} of 15 tests have no result, 12 new")


@pytest.mark.parametrize("suite", [PYTEST, OF_MATRIX])
def test_shards_that_list_different_units_make_the_run_incomplete(suite: Suite) -> None:
    plan = listing_plan(*OLD_SHARDS, suite=suite)
    records = [
        record_of(plan, key, (*OLD, f"a.py::at[{12 if key == '03' else 11}:00]")) for key in KEYS
    ]
    verdict = prove(plan, records)
    assert verdict.state == "incomplete"
    (finding,) = [one for one in verdict.findings if one.level == "incomplete"]
    assert finding.kind == "different_listings"
    assert finding.facts["shards"] == "01, 02 / 03"
    assert [key.unit for key in finding.units] == ["a.py::at[11:00]", "a.py::at[12:00]"]


def test_a_line_that_is_lost_without_damage_makes_the_run_incomplete() -> None:
    plan = listing_plan(*OLD_SHARDS)
    records = [record_of(plan, key, (*OLD, *NEW)) for key in KEYS]
    lost = next(one.key.unit for record in records for one in record.results if "new" in one.unit)
    records = [
        replace(
            record,
            events=tuple(one for one in record.events if one.unit != lost),
            results=tuple(one for one in record.results if one.unit != lost),
        )
        for record in records
    ]
    kinds = {one.kind for one in prove(plan, records).findings if one.level == "incomplete"}
    assert "listing_short" in kinds


def test_a_leg_that_ended_without_a_listing_makes_the_run_incomplete() -> None:
    plan = listing_plan(*OLD_SHARDS)
    records = [record_of(plan, key, OLD) for key in KEYS]
    records[1] = replace(records[1], events=())
    verdict = prove(plan, records)
    (finding,) = verdict.findings
    assert (finding.kind, finding.shard) == ("no_listing", "02")


BASE = (UnitCount(3),)


@pytest.mark.parametrize(
    ("inventory", "policy"),
    [
        (InventorySummary(3, {}, "", base_units=BASE, base_source="run 7"), Policy()),
        (InventorySummary(3, {}, ""), Policy(base_units=(BASE, "run 7"))),
    ],
)
def test_fewer_units_than_on_the_base_are_found_by_the_listing(
    inventory: InventorySummary, policy: Policy
) -> None:
    plan = replace(listing_plan(*OLD_SHARDS), inventory=inventory)
    verdict = prove(plan, [record_of(plan, key, OLD[:1]) for key in KEYS], policy=policy)
    (finding,) = verdict.findings
    assert (finding.kind, finding.facts["now"], finding.facts["before"]) == ("fewer_units", 1, 3)


def test_the_last_attempt_of_a_shard_says_what_exists() -> None:
    plan = listing_plan(*OLD_SHARDS)
    first = [record_of(plan, key, OLD) for key in KEYS]
    again = record_of(plan, "03", (*OLD, *NEW), attempt=2)
    (disagreement,) = with_listings(plan, [*first, again]).disagreements
    assert disagreement.shards == (("01", "02"), ("03",))


@pytest.mark.parametrize(("lost", "planned"), [("02", 15), ("01", None)])
def test_of_many_new_units_the_first_shard_names_all(
    monkeypatch: pytest.MonkeyPatch, lost: str, planned: int | None
) -> None:
    monkeypatch.setattr(selection, "MAX_DIFFERENCE", 5)
    plan = listing_plan(*OLD_SHARDS)
    records = [record_of(plan, key, (*OLD, *NEW)) for key in KEYS if key != lost]
    named = [sum(one.kind == "unplanned" for one in record.events) for record in records]
    assert max(named) == (12 if planned else max(named))
    assert min(named) < 12
    verdict = prove(plan, records)
    assert verdict.state == "incomplete"
    assert verdict.planned == planned or (planned is None and verdict.planned < 15)


def test_a_plan_that_was_made_by_a_listing_stays_as_it_is() -> None:
    plan = replace(listing_plan(*OLD_SHARDS), policy=LegPolicy())
    found = with_listings(plan, [record_of(listing_plan(*OLD_SHARDS), "01", (*OLD, *NEW))])
    assert (found.plan, found.new, found.gone) == (plan, None, None)


def test_events_of_other_kinds_are_no_listing() -> None:
    plan = listing_plan(*OLD_SHARDS)
    record = replace(record_of(plan, "01", OLD), events=(EventLine("session_end"),))
    assert with_listings(plan, [record]).unlisted == ("01",)


def test_new_units_of_a_group_run_in_one_shard_that_of_the_group() -> None:
    plan = listing_plan(*OLD_SHARDS)
    units = [ListedUnit(OLD[1], "a.py", group="old")]
    units += [ListedUnit(unit, "c.py", group="old") for unit in NEW]
    units += [ListedUnit(f"{unit}-again", "c.py", group="new") for unit in NEW]
    homes = defaultdict(set)
    for event in listing_lines(plan, plan.shards[0], units):
        if event.kind == "unplanned":
            homes[(event.unit or "").partition("-")[2]].add(event.detail)
    assert homes[""] == {"02"}
    assert len(homes["again"]) == 1


def units_by_shard(plan: Plan, units: Iterable[ListedUnit]) -> dict[str, set[str]]:
    """What the leg of each shard runs, where each lists the same in an order of its own."""
    found = {}
    for number, shard in enumerate(plan.shards):
        order = sorted(units, key=lambda unit: crc32(f"{number}{unit.unit}".encode()))
        lines = listing_lines(plan, shard, order)
        found[shard.key] = {event.unit or "" for event in lines if event.kind == "listed"}
    return found


@pytest.mark.parametrize(
    ("sizes", "counts", "divided"),
    [
        ([7] * 28 + [2, 2], [51, 51, 49, 49], 0),
        ([97, 1, 1, 1], [25, 25, 25, 25], 1),  # more than a shard's share
        ([1, 1, 1], [1, 1, 1, 0], 0),
        ([1] * 5, [2, 1, 1, 1], 0),
    ],
)
def test_shards_without_a_past_run_share_files_by_count(
    sizes: list[int], counts: list[int], divided: int
) -> None:
    names = [(f"f{file}.py", number) for file, size in enumerate(sizes) for number in range(size)]
    units = [ListedUnit(f"{file}::t{number}", file) for file, number in names]
    found = units_by_shard(listing_plan((), (), (), ()), units).values()
    assert sorted(map(len, found), reverse=True) == counts
    assert len(set[str]().union(*found)) == sum(counts), "each unit in one shard"
    files = Counter(file for shard in found for file in {unit.partition(":")[0] for unit in shard})
    assert sum(count > 1 for count in files.values()) == divided


def test_new_files_go_to_the_shard_with_the_least_time() -> None:
    plan = listing_plan(OLD[:1], OLD[1:2], OLD[2:])
    times_s = zip(plan.shards, (9.0, 5.0, 1.0), strict=True)  # a new unit counts 5 s, the mean
    shards = [replace(each, units=(replace(each.units[0], wall_s=s),)) for each, s in times_s]
    units = [ListedUnit(name, name[:4]) for name in (*OLD, "c.py::new", "d.py::new")]
    found = units_by_shard(replace(plan, shards=tuple(shards)), units)
    assert found == {"01": {OLD[0]}, "02": {OLD[1], "d.py::new"}, "03": {OLD[2], "c.py::new"}}


def test_each_step_of_a_leg_may_list() -> None:
    plan = listing_plan(*OLD_SHARDS)
    records = [record_of(plan, key, (*OLD[1:], *NEW)) for key in KEYS]
    again = [replace(record, events=record.events * 2) for record in records]
    assert with_listings(plan, again) == with_listings(plan, records)
