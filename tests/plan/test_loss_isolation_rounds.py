"""A unit that kills its runner without a trace: how many losses until it is known by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.history import file as history_codec
from ciguard.history.file import empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.run_metadata import RunMetadata
from ciguard.model import (
    EndLine,
    Pool,
    ProcessLine,
    Record,
    Result,
    Runner,
    Shard,
    ShardLine,
    Suite,
    UnitKey,
    Variant,
)
from ciguard.plan.deadline import time_limits
from ciguard.plan.estimates import estimate_units
from ciguard.plan.inventory import inventory
from ciguard.plan.loss_isolation import candidate_sets
from ciguard.plan.observations import join_history, map_keys
from ciguard.plan.planner import Provenance, plan
from ciguard.plan.problem_builder import PlanInputs, PlanOptions

if TYPE_CHECKING:
    from ciguard.history.file import History
    from ciguard.model import Plan

UNITS = [f"f{number // 10}.py::t{number}" for number in range(400)]
SHARDS = 16
START = datetime(2026, 11, 1, tzinfo=UTC)


def planned(history: History, shards: int = SHARDS) -> Plan:
    there = inventory([InventoryUnit(unit) for unit in UNITS], exclude={}, ordered=True)
    places = map_keys(history, there)
    rows, _ = join_history(history, there, places)
    names = {"": lambda unit: (unit.partition("::")[0], "")}
    basis = PlanInputs(
        inventory=there,
        estimates=estimate_units(rows, len(UNITS), there.ancestors(names)),
        suites={"": Suite("command", ("run",), variants={"": Variant()})},
        pools={"linux": Pool("ubuntu-latest")},
        ancestors=names,
        candidate_sets=candidate_sets(history, there, places.unit_of_key),
    )
    options = PlanOptions(time_limits(2700.0, 300.0), {"": "linux"}, shards=shards)
    return plan(basis, options, Provenance()).plan


def record(shard: Shard, made: Plan, number: int) -> Record:
    """What a leg leaves that ends well."""
    header = ShardLine(
        plan_id=made.id,
        shard=shard.key,
        shards=len(made.shards),
        run_id=number,
        run_attempt=1,
        runner=Runner(pool="linux"),
        started_at=(START + timedelta(hours=number)).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    results = tuple(Result(unit.unit, "passed", case=unit.unit, wall_s=1.0) for unit in shard.units)
    return Record(
        f"{shard.key}.jsonl",
        header,
        processes=(ProcessLine(1, units=len(results), at_s=0.0),),
        results=results,
        end=EndLine("completed", float(len(results)), 0),
    )


def run(history: History, made: Plan, number: int, killers: set[str]) -> History:
    """Every leg ends well, but those with a killer leave nothing at all."""
    records = [
        record(shard, made, number)
        for shard in made.shards
        if not killers & {unit.unit for unit in shard.units}
    ]
    new = history_of(records, RunMetadata(branch="main", event="push"), made)
    return history_codec.decode(history_codec.encode(merge(history, new)), "h")


@pytest.mark.parametrize("killer", [UNITS[0], UNITS[123], UNITS[399]])
def test_culprit_is_isolated_after_three_losses(killer: str) -> None:
    history = empty()
    lost: list[int] = []
    for number in range(1, 6):
        made = planned(history)
        (shard,) = (s for s in made.shards if killer in {unit.unit for unit in s.units})
        lost.append(len(shard.units))
        history = run(history, made, number, {killer})
    assert lost[0] >= len(UNITS) // SHARDS - 5, "a whole shard first"
    assert lost[3:] == [1, 1], f"units lost with it, run after run: {lost}"
    suspect = planned(history).culprit_candidates
    assert [(one.unit, one.losses, one.isolated) for one in suspect] == [(killer, 5, True)]


def test_two_culprits_are_isolated_and_cleared_once_fixed() -> None:
    killers = {UNITS[5], UNITS[250]}
    history = empty()
    for number in range(1, 7):
        history = run(history, planned(history), number, killers)
    made = planned(history)
    assert {one.unit for one in made.culprit_candidates} == killers
    alone = [shard for shard in made.shards if len(shard.units) == 1]
    assert {unit.unit for shard in alone for unit in shard.units} == killers
    history = run(history, made, 7, set())
    assert planned(history).culprit_candidates == ()
    assert UnitKey("", "", UNITS[5]) in {u.key for s in planned(history).shards for u in s.units}


@pytest.mark.parametrize(
    ("shards", "killers", "runs"),
    [
        (2, [UNITS[7]], 10),
        (4, [UNITS[123]], 6),
        (8, [UNITS[7]], 6),
        (8, [UNITS[7], UNITS[57]], 8),
        (16, [UNITS[7], UNITS[90], UNITS[180], UNITS[250], UNITS[333]], 7),
    ],
)
def test_few_shards_with_many_culprits_converge(shards: int, killers: list[str], runs: int) -> None:
    """Suspects are not lost together with the same ones, loss after loss."""
    history = empty()
    for number in range(1, runs + 1):
        history = run(history, planned(history, shards), number, set(killers))
    made = planned(history, shards)
    lost = [s for s in made.shards if set(killers) & {unit.unit for unit in s.units}]
    assert sorted(unit.unit for shard in lost for unit in shard.units) == sorted(killers)
