"""Moves and their durations, which a person can add up; the leg of a unit, by a few lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ciguard.model import (
    Block,
    Ending,
    EndLine,
    EventKind,
    EventLine,
    InventorySummary,
    LegPolicy,
    Outcome,
    Plan,
    PlannedUnit,
    Prediction,
    ProcessLine,
    Record,
    Result,
    Shard,
    ShardLine,
    StartLine,
)
from ciguard.model.moved_units import (
    MovedBlock,
    MovedUnits,
    count_moved_blocks,
    find_moved_blocks,
    find_moved_units,
    with_moved_units,
)
from ciguard.model.plan import shard_of_block
from ciguard.model.record import newest_by_shard

# Own part of a minute; a block of 20 s and one of 10 s.
UNITS = {"01": ("a", "b", "c"), "02": ("d", "e", "f"), "03": ("g", "h", "i")}


def a_plan(processes: int = 1, claims: str = "https://ci.example") -> Plan:
    shards = tuple(
        Shard(
            key,
            "default",
            tuple(PlannedUnit(unit) for unit in units),
            Prediction(90.0, 100.0),
            processes,
            blocks=(Block(1, 20.0), Block(1, 10.0)),
        )
        for key, units in UNITS.items()
    )
    inventory = InventorySummary(9, {}, "")
    return Plan("p", {}, {}, LegPolicy(), shards, 90.0, 0.0, inventory, claims=claims)


def event(kind: EventKind, at_s: float, block: str | None = None) -> EventLine:
    return EventLine(kind, at_s, block=block)


def leg(
    shard: str,
    ran: Mapping[str, tuple[float, float, int]],
    *events: EventLine,
    wall_s: float = 100.0,
    starts: Mapping[int, float] | None = None,
    ending: Ending = "completed",
) -> Record:
    """A record of units by start, end and process; processes by the time of their start."""
    return Record(
        shard,
        ShardLine("p", shard, run_attempt=1),
        processes=tuple(
            ProcessLine(number, 1, at_s=at_s) for number, at_s in (starts or {1: 0.0}).items()
        ),
        starts=tuple(
            StartLine(unit, process=process, at_s=begin_s)
            for unit, (begin_s, _, process) in ran.items()
        ),
        results=tuple(
            Result(unit, "passed", at_s=end_s, wall_s=end_s - begin_s, process=process)
            for unit, (begin_s, end_s, process) in ran.items()
        ),
        events=events,
        end=EndLine(ending, wall_s),
    )


def three_legs() -> dict[str, Record]:
    """Shard 01 is slow: 120 s for its own part and 30 s for its first block; 03 ran its second."""
    return {
        "01": leg(
            "01",
            {"a": (5.0, 125.0, 1), "b": (130.0, 160.0, 2)},
            event("claim_asked", 5.0),
            event("claimed", 5.2, "01.1"),
            event("claim_asked", 130.0),
            event("taken", 130.5, "01.2"),
            event("claims_ended", 130.5),
            wall_s=162.0,
            starts={1: 0.0, 2: 126.0},
        ),
        "02": leg(
            "02",
            {"d": (5.0, 65.0, 1), "e": (70.0, 90.0, 2), "f": (95.0, 105.0, 3)},
            wall_s=107.0,
            starts={1: 0.0, 2: 66.0, 3: 91.0},
        ),
        "03": leg(
            "03",
            {
                "g": (5.0, 65.0, 1),
                "h": (68.0, 88.0, 2),
                "i": (90.0, 100.0, 3),
                "c": (106.0, 118.0, 4),
            },
            event("claim_asked", 5.0),
            event("claimed", 5.1, "03.1"),
            event("claim_asked", 68.0),
            event("claimed", 68.1, "03.2"),
            event("claim_asked", 99.0),  # a second before its last unit ended
            event("claimed", 103.0, "01.2"),
            event("claim_asked", 106.0),
            event("claims_ended", 107.0),
            wall_s=121.0,
            starts={1: 0.0, 2: 66.0, 3: 89.0, 4: 104.0},
        ),
    }


def moves(plan: Plan, records: Mapping[str, Record]) -> MovedUnits:
    found = find_moved_units(plan, find_moved_blocks(plan, records), records)
    assert found is not None
    return found


def test_moves_and_what_the_plan_would_have_taken() -> None:
    found = moves(a_plan(), three_legs())
    slow, still, fast = found.legs
    assert (found.units, found.shards, found.ran_twice) == (1, 2, 0)
    # Of shard 01, 4 s were the start of the process for its own block, which the plan has not.
    assert (slow.out_s, slow.starts_s) == (12, 4)
    assert slow.static_s == 162 - 4 + 12
    assert (still.requests, still.static_s) == (
        0,
        107,
    )  # it claimed nothing, and nothing is taken off
    # It waited from 100 to 103, and its processes took 2, 1 and 2 s to start.
    assert (fast.units_in, fast.in_s, fast.waited_s, fast.starts_s) == (1, 12, 3, 5)
    assert fast.static_s == 121 - 3 - 5 - 12
    assert (found.makespan_s, found.static_makespan_s) == (162, 170)
    assert (found.requests, found.waited_s, found.starts_s) == (6, 3, 9)


def test_units_of_several_processes_share_the_wall_time() -> None:
    found = moves(a_plan(processes=2), three_legs())
    assert [leg.static_s for leg in found.legs] == [162 - 4 + 6, 107, 121 - 3 - 5 - 6]


def test_unit_that_both_ran_took_nothing_from_its_shard() -> None:
    records = three_legs()
    first = records["01"]
    again = leg("01", {"c": (160.0, 172.0, 3)})
    records["01"] = replace(
        first, results=(*first.results, *again.results), starts=(*first.starts, *again.starts)
    )
    found = moves(a_plan(), records)
    assert (found.units, found.ran_twice) == (1, 1)
    assert (found.legs[0].units_out, found.legs[0].out_s, found.legs[2].units_in) == (0, 0, 1)


@pytest.mark.parametrize("shard", ["01", "02", "03"])
def test_nothing_is_predicted_of_a_run_whose_leg_did_not_end(shard: str) -> None:
    records = three_legs()
    records[shard] = replace(records[shard], end=None)
    found = moves(a_plan(), records)
    assert (found.makespan_s, found.static_makespan_s, found.units) == (None, None, 1)
    del records[shard]
    assert moves(a_plan(), records).makespan_s is None


def test_nothing_is_predicted_of_a_leg_with_two_clocks() -> None:
    records = three_legs()
    first = records["01"]
    records["01"] = replace(first, events=(*first.events, event("resumed", 0.0)))
    assert moves(a_plan(), records).static_makespan_s is None


def test_nothing_is_predicted_where_a_duration_is_unknown() -> None:
    records = three_legs()
    last = records["03"]
    unmeasured = tuple(replace(one, wall_s=None) for one in last.results if one.unit == "c")
    records["03"] = replace(last, results=(*last.results[:3], *unmeasured))
    found = moves(a_plan(), records)
    assert (found.makespan_s, found.static_makespan_s) == (162, None)
    assert [leg.static_s for leg in found.legs] == [None, 107, None]


def test_retry_after_a_claim_is_no_cost_of_it() -> None:
    """A unit that began in another process before has a process of its own without claims too."""
    records = three_legs()
    last = records["03"]
    retry = leg("03", {"g": (130.0, 190.0, 5)}, starts={5: 120.0})
    records["03"] = replace(
        last,
        results=(*last.results, *retry.results),
        starts=(*last.starts, *retry.starts),
        processes=(*last.processes, *retry.processes),
    )
    assert moves(a_plan(), records).legs[2].starts_s == 5


def test_plan_without_a_service_has_no_moves() -> None:
    plan = a_plan(claims="")
    assert find_moved_blocks(plan, three_legs()) == ()
    assert find_moved_units(plan, (), three_legs()) is None


def test_each_unit_is_in_one_shard_of_the_plan_that_ran() -> None:
    plan, records = a_plan(), three_legs()
    ran = with_moved_units(plan, find_moved_blocks(plan, records), records)
    units = {shard.key: [unit.unit for unit in shard.units] for shard in ran.shards}
    assert units == {"01": ["a", "b"], "02": ["d", "e", "f"], "03": ["g", "h", "i", "c"]}
    assert not any(shard.blocks for shard in ran.shards)


def test_blocks_are_counted_without_a_plan() -> None:
    assert count_moved_blocks(three_legs()) == (1, 2)
    assert count_moved_blocks({}) == (0, 0)


UNIT_AND_BLOCK = {"01": ("a", "b"), "02": ("c", "d"), "03": ("e", "f")}  # the second is a block
PREDICTED, INVENTORY = Prediction(2.0, 2.0), InventorySummary(6, {}, "")
SHARDS = tuple(
    Shard(key, "default", tuple(map(PlannedUnit, units)), PREDICTED, blocks=(Block(1, 1.0),))
    for key, units in UNIT_AND_BLOCK.items()
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


def leg_with(shard: str, *lines: EventLine | Result | StartLine, attempt: int = 1) -> Record:
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
    new, old, other = leg_with("01", attempt=2), leg_with("01"), leg_with("02", attempt=3)
    unknown = replace(leg_with("02"), header=ShardLine("p", "02"))
    assert newest_by_shard([new, old, other, unknown]) == {"01": new, "02": other}


def test_block_that_its_owner_claimed_back_has_not_moved() -> None:
    assert (
        find_moved_blocks(PLAN, by_shard(leg_with("01", taken(), claimed()), leg_with("02"))) == ()
    )


def test_unit_that_two_legs_claimed_and_none_began_is_the_owners_if_it_is_one() -> None:
    assert shard_of(leg_with("01", claimed()), leg_with("02", claimed())) == "01"
    assert (
        shard_of(leg_with("01", taken()), leg_with("02", claimed()), leg_with("03", claimed()))
        == "02"
    )


def test_result_counts_for_more_than_a_start_and_an_execution_that_did_not_finish() -> None:
    unfinished = result("died", "cancelled")
    assert shard_of(leg_with("01", unfinished), leg_with("02", claimed(), result())) == "02"
    assert shard_of(leg_with("01", StartLine(UNIT)), leg_with("02", claimed(), result())) == "02"
    assert shard_of(leg_with("01", unfinished), leg_with("02", claimed(), unfinished)) == "02"
    assert shard_of(leg_with("01", result("failed")), leg_with("02", claimed(), result())) == "01"


@pytest.mark.parametrize("turned", [False, True])
def test_furthest_of_several_executions_counts(*, turned: bool) -> None:
    both = (result(), result("died", "cancelled"))
    executions = both[::-1] if turned else both
    begun = leg_with("02", claimed(), StartLine(UNIT))
    assert shard_of(leg_with("01", taken(), *executions), begun) == "01"
    assert shard_of(leg_with("01", taken()), begun, leg_with("03", claimed(), *executions)) == "03"


def test_newest_of_older_claims_is_told() -> None:
    records = leg_with("01", taken(None)), leg_with("02", attempt=3), leg_with("03", attempt=3)
    first, second = leg_with("02", claimed()), leg_with("03", claimed(), attempt=2)
    for earlier in ({"02": [first], "03": [second]}, {"03": [second], "02": [first]}):
        assert only_block(*records, earlier=earlier).earlier == ("03", 2)
        assert shard_of(*records, earlier=earlier) == "03"
    again = {"02": [first, replace(first, header=ShardLine("p", "02", run_attempt=2))]}
    assert only_block(*records, earlier=again).earlier == ("02", 2)
    assert only_block(*records, earlier={"01": [leg_with("01", claimed())]}).earlier is None


def test_leg_without_a_record_has_what_the_owner_says() -> None:
    block = only_block(leg_with("01", taken("03")), leg_with("02"))
    assert (block.taker, block.is_lost) == ("03", True)
    assert shard_of(leg_with("01", taken("03")), leg_with("02")) == "03"
    block = only_block(leg_with("01", taken("03")), leg_with("02"), leg_with("03"))
    assert (block.taker, block.is_lost) == ("03", False)
    assert shard_of(leg_with("01", taken("03")), leg_with("02"), leg_with("03")) == "01"
    assert shard_of(leg_with("01", taken("03")), leg_with("02", claimed())) == "02"


@pytest.mark.parametrize("shard", ["99", "01", "", None])
def test_shard_that_cannot_have_the_block_is_none(shard: str | None) -> None:
    block = only_block(leg_with("01", taken(shard)))
    assert (block.taker, block.is_lost) == ("", False)
    assert shard_of(leg_with("01", taken(shard))) == "01"


def test_shard_that_is_not_in_the_plan_claims_nothing() -> None:
    assert shard_of(leg_with("01"), leg_with("99", claimed(), result())) == "01"
