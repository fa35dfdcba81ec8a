"""Units that are newer than a plan that is kept: in which shard each of them runs, over values."""

from __future__ import annotations

from dataclasses import replace

from run.leg_runner import PYTEST, plan_of

from ciguard.model import PlannedUnit, UnitKey
from ciguard.run.frameworks.base import ListedUnit
from ciguard.run.selection import shard_by_hash, unplanned_units

SHARDS = ["01", "02", "03"]
ONE = plan_of([])
PLAN = replace(
    ONE,
    suites={"": PYTEST, "slow": replace(PYTEST, exclude=("*huge*", "t[1]"))},
    shards=tuple(
        replace(
            ONE.shards[0],
            key=key,
            units=(
                PlannedUnit(f"old{key}"),
                PlannedUnit(f"grouped{key}"),
                *((PlannedUnit("old", "slow"),) if key != "02" else ()),
            ),
        )
        for key in SHARDS
    ),
)


def shards_of(suite: str, *units: ListedUnit) -> dict[str, list[str]]:
    """By unit, the shards in which it runs although none of them was planned with it."""
    found: dict[str, list[str]] = {}
    for shard in SHARDS:
        for key in unplanned_units(PLAN, shard, {(suite, ""): units}):
            assert key[:2] == (suite, "")
            found.setdefault(key.unit, []).append(shard)
    return found


def test_every_unit_hashes_to_one_shard() -> None:
    units = [UnitKey("", "", f"t{number}") for number in range(300)]
    counts = [sum(shard_by_hash(unit, SHARDS) == shard for unit in units) for shard in SHARDS]
    assert sum(counts) == 300
    assert min(counts) > 60, "nearly even"
    assert shard_by_hash(UnitKey("s", "v", "tëst\ud800"), SHARDS) in SHARDS


def test_each_new_unit_runs_in_one_shard_and_planned_ones_in_none() -> None:
    new = [f"new{number}" for number in range(30)]
    found = shards_of("", *map(ListedUnit, ["old01", *new, "grouped02"]))
    assert sorted(found) == sorted(new)
    assert all(len(shards) == 1 for shards in found.values())
    assert {shard for (shard,) in found.values()} == set(SHARDS)


def test_new_unit_runs_in_a_shard_of_its_suite() -> None:
    found = shards_of("slow", *(ListedUnit(f"new{number}") for number in range(30)))
    assert {shard for (shard,) in found.values()} == {"01", "03"}


def test_excluded_units_stay_excluded() -> None:
    found = shards_of("slow", *map(ListedUnit, ["a_huge_one", "t[1]", "t[2]"]))
    assert list(found) == ["t[2]"]


def test_new_unit_of_a_group_runs_in_the_shard_of_the_group() -> None:
    new = [ListedUnit(f"new{number}", group="db") for number in range(8)]
    found = shards_of("", ListedUnit("grouped02", group="db"), *new)
    assert list(found.values()) == [["02"]] * 8


def test_a_new_group_runs_in_one_shard() -> None:
    new = [ListedUnit(f"new{number}", group="new") for number in range(8)]
    found = shards_of("", *new)
    assert len(found) == 8
    assert len({tuple(shards) for shards in found.values()}) == 1
