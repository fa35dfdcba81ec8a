"""Which leg a unit of a block is of, by records of a few lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ciguard.model import (
    Block,
    EventLine,
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Prediction,
    Record,
    Result,
    Shard,
    ShardLine,
    StartLine,
)
from ciguard.model.moved_units import find_moved_blocks, with_moved_units
from ciguard.model.plan import shard_of_block
from ciguard.model.record import newest_by_shard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.model import Ending, Outcome
    from ciguard.model.moved_units import MovedBlock

UNITS = {"01": ("a", "b"), "02": ("c", "d"), "03": ("e", "f")}  # the second is a block
PREDICTED, INVENTORY = Prediction(2.0, 2.0), InventorySummary(6, {}, "")
SHARDS = tuple(
    Shard(key, "default", tuple(map(PlannedUnit, units)), PREDICTED, blocks=(Block(1, 1.0),))
    for key, units in UNITS.items()
)
PLAN = Plan("p", {}, {}, LegPolicy(), SHARDS, 2.0, 0.0, INVENTORY, claims="https://ci.example")
BLOCK = "01.1"
UNIT = "b"


def claimed(block: str = BLOCK) -> EventLine:
    return EventLine("claimed", 1.0, block=block)


def taken(shard: str | None = "03") -> EventLine:
    return EventLine("taken", 1.0, block=BLOCK, shard=shard)


def result(outcome: Outcome = "passed", ending: Ending = "completed") -> Result:
    return Result(UNIT, outcome, ending=ending)


def leg(shard: str, *lines: EventLine | Result | StartLine, attempt: int = 1) -> Record:
    return Record(
        shard,
        ShardLine("p", shard, run_attempt=attempt),
        starts=tuple(one for one in lines if isinstance(one, StartLine)),
        results=tuple(one for one in lines if isinstance(one, Result)),
        events=tuple(one for one in lines if isinstance(one, EventLine)),
    )


def by_shard(*records: Record) -> Mapping[str, Record]:
    return {one.identity.shard: one for one in records}


def only_block(*records: Record, earlier: Mapping[str, list[Record]] | None = None) -> MovedBlock:
    (found,) = find_moved_blocks(PLAN, by_shard(*records), earlier)
    return found


def shard_of(*records: Record, earlier: Mapping[str, list[Record]] | None = None) -> str:
    """The shard that has the unit, and no other has it."""
    known = by_shard(*records)
    moved = with_moved_units(PLAN, find_moved_blocks(PLAN, known, earlier), known)
    found = {shard.key: [unit.unit for unit in shard.units] for shard in moved.shards}
    assert sorted(unit for units in found.values() for unit in units) == [*"abcdef"]
    (key,) = [key for key, units in found.items() if UNIT in units]
    return key


def test_shard_is_in_the_name_of_its_block() -> None:
    blocks = [name for shard in PLAN.shards for name in shard.units_by_block()]
    assert [shard_of_block(name) for name in blocks] == ["01", "02", "03"]
    assert shard_of_block("linux.3.11.12") == "linux.3.11"


def test_newest_record_of_each_shard_is_of_the_newest_attempt() -> None:
    new, old, other = leg("01", attempt=2), leg("01"), leg("02", attempt=3)
    unknown = replace(leg("02"), header=ShardLine("p", "02"))
    assert newest_by_shard([new, old, other, unknown]) == {"01": new, "02": other}


def test_block_that_its_owner_claimed_back_has_not_moved() -> None:
    assert find_moved_blocks(PLAN, by_shard(leg("01", taken(), claimed()), leg("02"))) == ()


def test_unit_that_two_legs_claimed_and_none_began_is_the_owners_if_it_is_one() -> None:
    assert shard_of(leg("01", claimed()), leg("02", claimed())) == "01"
    assert shard_of(leg("01", taken()), leg("02", claimed()), leg("03", claimed())) == "02"


def test_result_counts_for_more_than_a_start_and_an_execution_that_did_not_finish() -> None:
    unfinished = result("died", "cancelled")
    assert shard_of(leg("01", unfinished), leg("02", claimed(), result())) == "02"
    assert shard_of(leg("01", StartLine(UNIT)), leg("02", claimed(), result())) == "02"
    assert shard_of(leg("01", unfinished), leg("02", claimed(), unfinished)) == "02"
    assert shard_of(leg("01", result("failed")), leg("02", claimed(), result())) == "01"


@pytest.mark.parametrize("turned", [False, True])
def test_furthest_of_several_executions_counts(*, turned: bool) -> None:
    both = (result(), result("died", "cancelled"))
    executions = both[::-1] if turned else both
    begun = leg("02", claimed(), StartLine(UNIT))
    assert shard_of(leg("01", taken(), *executions), begun) == "01"
    assert shard_of(leg("01", taken()), begun, leg("03", claimed(), *executions)) == "03"


def test_newest_of_older_claims_is_told() -> None:
    records = leg("01", taken(None)), leg("02", attempt=3), leg("03", attempt=3)
    first, second = leg("02", claimed()), leg("03", claimed(), attempt=2)
    for earlier in ({"02": [first], "03": [second]}, {"03": [second], "02": [first]}):
        assert only_block(*records, earlier=earlier).earlier == ("03", 2)
        assert shard_of(*records, earlier=earlier) == "03"
    again = {"02": [first, replace(first, header=ShardLine("p", "02", run_attempt=2))]}
    assert only_block(*records, earlier=again).earlier == ("02", 2)
    assert only_block(*records, earlier={"01": [leg("01", claimed())]}).earlier is None


def test_leg_without_a_record_has_what_the_owner_says() -> None:
    block = only_block(leg("01", taken("03")), leg("02"))
    assert (block.taker, block.is_lost) == ("03", True)
    assert shard_of(leg("01", taken("03")), leg("02")) == "03"
    block = only_block(leg("01", taken("03")), leg("02"), leg("03"))
    assert (block.taker, block.is_lost) == ("03", False)
    assert shard_of(leg("01", taken("03")), leg("02"), leg("03")) == "01"
    assert shard_of(leg("01", taken("03")), leg("02", claimed())) == "02"


@pytest.mark.parametrize("shard", ["99", "01", "", None])
def test_shard_that_cannot_have_the_block_is_none(shard: str | None) -> None:
    block = only_block(leg("01", taken(shard)))
    assert (block.taker, block.is_lost) == ("", False)
    assert shard_of(leg("01", taken(shard))) == "01"


def test_shard_that_is_not_in_the_plan_claims_nothing() -> None:
    assert shard_of(leg("01"), leg("99", claimed(), result())) == "01"
