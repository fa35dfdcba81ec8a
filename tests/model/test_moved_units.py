"""What moves came to, by literals: durations that a person can add up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ciguard.model import (
    Block,
    EndLine,
    EventLine,
    InventorySummary,
    LegPolicy,
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
    MovedUnits,
    count_moved_blocks,
    find_moved_blocks,
    find_moved_units,
    with_moved_units,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.model import Ending, EventKind

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
    assert (slow.own_s, slow.own_blocks_s, slow.out_s, slow.starts_s) == (120, 30, 12, 4)
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
