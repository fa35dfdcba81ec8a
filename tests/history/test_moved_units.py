"""What a history keeps of legs that ran blocks of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guard.moved_runs import MOVED, SHARDS, MovedRun, run_with_a_move

from ciguard.codec.record.reader import read_records
from ciguard.history.ingest import history_of, leg_end_s
from ciguard.history.view import json_lines
from ciguard.model import (
    EndLine,
    EventLine,
    ProcessEndLine,
    Record,
    Result,
    ShardLine,
    UnitKey,
)

if TYPE_CHECKING:
    from ciguard.history.file import History


@pytest.fixture
def run() -> MovedRun:
    return run_with_a_move()


def history(run: MovedRun) -> History:
    return history_of(read_records(run.world.files().items()), plan=run.plan)


def lost(run: MovedRun) -> dict[str, list[str]]:
    legs = history(run).runs[0].legs
    return {leg.shard: [key.unit for key in leg.lost_units] for leg in legs}


def planned(run: MovedRun) -> dict[str, int]:
    legs = history(run).runs[0].legs
    return {leg.shard: sum(one.units for one in leg.planned or ()) for leg in legs}


def test_each_result_is_of_the_shard_that_ran_it(run: MovedRun) -> None:
    found = {line.split('"unit":"')[1].split('"')[0]: line for line in json_lines(history(run))}
    assert '"shard":"03"' in found[MOVED]
    assert '"shard":"01"' in found["a.t::three"]
    assert planned(run) == {"01": 3, "02": 4, "03": 5}


def test_unit_is_lost_with_the_leg_that_claimed_it(run: MovedRun) -> None:
    run.leg("03", (*SHARDS["03"], MOVED), claimed=["03.1", "03.2", "01.2"], dies=True)
    run.world.drop("03", Result, unit=MOVED)
    assert lost(run) == {"01": [], "02": [], "03": [MOVED]}


def test_unit_is_lost_with_the_leg_that_had_it_and_left_no_record(run: MovedRun) -> None:
    """What kills runners is looked for among the tests of a leg without a record."""
    del run.world.legs["03"]
    assert lost(run) == {"01": [], "02": [], "03": [MOVED, *sorted(SHARDS["03"])]}
    assert planned(run)["03"] == 5


def test_shard_that_died_loses_nothing_that_others_ran(run: MovedRun) -> None:
    run.leg("01", SHARDS["01"][:2], dies=True)
    assert lost(run) == {"01": ["a.t::three"], "02": [], "03": []}
    del run.world.legs["01"]
    assert lost(run)["01"] == ["a.t::one", "a.t::three", "a.t::two"]
    assert sum(planned(run).values()) == sum(map(len, SHARDS.values()))


def test_runs_of_one_plan_have_moves_of_their_own(run: MovedRun) -> None:
    """Block 01.2 moved in the first run, and stayed in the second one."""
    records = list(read_records(run.world.files().items()))
    second = [
        Record(
            shard,
            ShardLine(run.plan.id, shard, run_id=8, run_attempt=1, job=f"tests ({shard})"),
            results=tuple(Result(unit, "passed") for unit in units[: 2 if shard == "01" else 4]),
        )
        for shard, units in SHARDS.items()
    ]
    found = history_of([*records, *second], plan=run.plan)
    legs = {(one.run_id, leg.shard): leg for one in found.runs for leg in one.legs}
    assert legs[7, "01"].lost_units == ()
    assert legs[8, "01"].lost_units == (
        UnitKey("", "", "a.t::four"),
        UnitKey("", "", "a.t::three"),
    )


def test_wait_for_a_block_is_no_end_of_a_leg() -> None:
    record = Record(
        "r",
        ShardLine("p", "01"),
        process_ends=(ProcessEndLine(1, "completed", 0, 10.0),),
        events=(EventLine("claim_asked", 9.5), EventLine("claims_ended", 11.5)),
        end=EndLine("completed", 11.75),
    )
    assert leg_end_s(record) == 0.25
