from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.history import file as history_codec
from ciguard.history.file import CODE_NAMES, History, empty, of_columns
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import (
    CaseKey,
    Ending,
    EndLine,
    Plan,
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
from ciguard.plan.estimates import estimate_units
from ciguard.plan.history_inputs import join_history, map_keys
from ciguard.plan.inventory import inventory
from ciguard.plan.loss_isolation import CandidateSet, candidate_sets, place_candidates
from ciguard.plan.planner import Provenance, plan
from ciguard.plan.problem import PlanInputs, PlanOptions
from ciguard.plan.time_limits import time_limits

NAMES = "abcdefgh"

UNITS = [f"f{number // 10}.py::t{number}" for number in range(400)]
SHARDS = 16
START = datetime(2026, 11, 1, tzinfo=UTC)


def found(*runs: tuple[str, str], ending: Ending = "unknown") -> tuple[CandidateSet, ...]:
    """Runs as (units that ended well, units of the shard that was lost), oldest first."""
    there = inventory([InventoryUnit(name) for name in NAMES], exclude={}, ordered=True)
    known = tuple(
        HistoryRun(
            number,
            legs=(
                HistoryLeg("01", ending="completed", complete=True),
                HistoryLeg("02", ending=ending, lost_units=tuple(UnitKey("", "", u) for u in lost)),
            ),
        )
        for number, (_, lost) in enumerate(runs, 1)
    )
    rows = sorted((name, run) for run, (good, _) in enumerate(runs) for name in good)
    keys = sorted({name for name, _ in rows})
    columns: dict[str, Any] = {
        "key": np.array([keys.index(name) for name, _ in rows], np.int32),
        "run": np.array([run for _, run in rows], np.int32),
        "leg": np.zeros(len(rows), np.int32),
        "outcome": np.full(len(rows), CODE_NAMES["outcome"].index("passed"), np.uint8),
        "ending": np.full(len(rows), CODE_NAMES["ending"].index("completed"), np.uint8),
        "measured_by": np.zeros(len(rows), np.uint8),
        "try_number": np.ones(len(rows), np.uint8),
    }
    history = History(
        of_columns(columns), known, tuple(CaseKey("", "", name, name) for name in keys)
    )
    return candidate_sets(history, there, map_keys(history, there).unit_of_key)


def named(*output: tuple[str, int]) -> tuple[CandidateSet, ...]:
    return tuple(CandidateSet(tuple(map(NAMES.index, units)), losses) for units, losses in output)


def test_units_of_a_lost_shard_are_suspects_until_they_complete() -> None:
    assert found(("ab", "cd")) == named(("cd", 1))
    assert found(("ab", "cd"), ("c", "")) == named(("d", 1))
    assert found(("ab", "cd"), ("cd", "")) == ()


def test_completion_before_the_loss_does_not_clear_a_unit() -> None:
    assert found(("abcd", ""), ("ab", "cd")) == named(("cd", 1))


def test_losses_intersect_to_the_culprit() -> None:
    assert found(("ef", "abcd"), ("cd", "aeg")) == named(("a", 2))
    assert found(("", "abcd"), ("", "abe"), ("", "bfg")) == named(("b", 3))


def test_disjoint_losses_give_two_candidate_sets() -> None:
    assert found(("", "ab"), ("", "cd")) == named(("cd", 1), ("ab", 1))


@pytest.mark.parametrize("ending", ["cancelled", "superseded", "deadline", "setup_failed"])
def test_leg_stopped_for_a_known_reason_gives_no_suspects(ending: Ending) -> None:
    assert found(("", "ab"), ending=ending) == ()


def test_suspects_are_spread_until_each_can_be_isolated() -> None:
    many, few = CandidateSet((0, 1, 2), 1), CandidateSet((5,), 2)
    own, spread = place_candidates((many,), range(8), 2)
    assert (own, sorted(map(len, spread))) == ([], [1, 2])
    own, spread = place_candidates((many, few), range(8), 4)
    assert own == [(5,)], "a set of one unit"
    assert sorted(spread) == [(0,), (1,), (2,)]
    own, _ = place_candidates((CandidateSet((5, 6), 2),), range(32), 16)
    assert own == [(5,), (6,)], "an eighth of 16"
    own, _ = place_candidates((CandidateSet((5, 6, 7), 2),), range(32), 16)
    assert own == []


def test_suspects_are_not_isolated_without_other_units() -> None:
    own, spread = place_candidates((CandidateSet((0, 1), 2),), (0, 1), 2)
    assert (own, sorted(spread)) == ([], [(0,), (1,)])
    assert place_candidates((CandidateSet((0,), 2),), (0, 1), 1) == ([], [(0,)])


@given(
    st.integers(1, 30).flatmap(
        lambda units: st.tuples(
            st.just(units), st.integers(1, units), st.sets(st.integers(0, units - 1))
        )
    ),
    st.integers(1, 3),
    st.sets(st.integers(0, 29)),
)
def test_every_suspect_is_placed_once_and_no_shard_stays_empty(
    sizes: tuple[int, int, set[int]], losses: int, together: set[int]
) -> None:
    units, count, suspects = sizes
    marked = tuple(sorted(unit for unit in together if unit < units))
    groups = (marked,) if marked and count <= units - len(marked) + 1 else ()
    suspicion = (CandidateSet(tuple(sorted(suspects)), losses),) if suspects else ()
    own, spread = place_candidates(suspicion, range(units), count, colocated=groups)
    assert len(own) + len(spread) == count
    if groups and suspects.intersection(marked):
        suspects |= set(marked)
    assert sorted(unit for one in (*own, *spread) for unit in one) == sorted(suspects)
    assert all(own)
    rest = set(range(units)) - suspects
    pieces = len(rest) - (len(marked) - 1 if groups and rest.issuperset(marked) else 0)
    assert pieces >= sum(not one for one in spread), "none stays empty"


def planned(history: History, shards: int = SHARDS) -> Plan:
    there = inventory([InventoryUnit(unit) for unit in UNITS], exclude={}, ordered=True)
    places = map_keys(history, there)
    rows = join_history(history, places)
    names = {"": lambda unit: (unit.partition("::")[0], "")}
    basis = PlanInputs(
        inventory=there,
        estimates=estimate_units(rows, len(UNITS), there.ancestors(names), there.members(names)),
        suites={"": Suite("command", ("run",), variants={"": Variant()})},
        pools={"linux": Pool("ubuntu-latest")},
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
