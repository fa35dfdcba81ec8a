from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan.plan_factories import planned, suite

from ciguard.codec import plan_file as codec
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.model import PlannedUnit, Prediction, Shard, Suite
from ciguard.plan.loss_isolation import CandidateSet
from ciguard.plan.pool_shards import CutShard, Piece, cut_shard
from ciguard.run.policy.simulate import simulate_processes
from ciguard.run.policy.state import MIB

GIB = 1024 * MIB
SUITES = {"": suite(3.0, 100 * MIB)}


def shard(*units: PlannedUnit, processes: int = 1, budget_bytes: int | None = None) -> Shard:
    return Shard("01", "linux", units, Prediction(0, 0), processes, 45, budget_bytes)


def simulate(shard: Shard, suites: Mapping[str, Suite] = SUITES) -> float:
    def load_s(units: Sequence[int]) -> float:
        return sum(shard.units[unit].wall_s for unit in units)

    return max((end_s for *_, end_s in simulate_processes(shard, suites, load_s)), default=0.0)


def unit(name: str, wall_s: float, peak: int | None = None, retained: int = 0) -> PlannedUnit:
    size = None if peak is None else peak * MIB
    return PlannedUnit(name, "", "", wall_s, size, retained * MIB)


LEAKING = [unit(name, 1.0, 300, 300) for name in "abcd"]


@pytest.mark.parametrize(
    ("units", "how", "wall_s"),
    [
        ([unit("a", 1.0, 50), unit("b", 2.0, 70)], {}, 6.0),
        ([unit("a", 4.0, 50), unit("b", 4.0, 70)], {"processes": 2}, 7.0),
        # Four units that keep 300 MiB each do not fit one process of a 1 GiB budget.
        (LEAKING, {"budget_bytes": GIB}, 2 * 3.0 + 4.0),
        ([unit("a", 5.0, 700), unit("b", 5.0, 700)], {"processes": 2, "budget_bytes": GIB}, 16.0),
        ([unit("a", 1e6)], {}, 1e6 + 3.0),  # it does not stop at the deadline
    ],
)
def test_predicted_time(units: list[PlannedUnit], how: dict[str, int], wall_s: float) -> None:
    assert simulate(shard(*units, **how)) == wall_s


def test_every_process_has_setup_and_teardown() -> None:
    suites = {"": replace(suite(3.0, 100 * MIB), teardown_s=0.5)}
    assert simulate(shard(*LEAKING, budget_bytes=GIB), suites) == 2 * 3.5 + 4.0


WALLS_S = {f"tests/test_{file}.py::t{number}": 2.0 for file in "ab" for number in range(100)}


def test_half_of_a_shard_may_move_in_blocks() -> None:
    made = planned(WALLS_S, shards=2, claims="https://ci.example.org").plan
    assert made.claims == "https://ci.example.org"
    for shard in made.shards:
        assert len(shard.blocks) == 10
        assert shard.own_count == 50
        assert sum(block.wall_s for block in shard.blocks) == 100.0
        sizes = [block.units for block in shard.blocks]
        assert sizes == sorted(sizes, reverse=True)
        by_block = shard.units_by_block()
        assert list(by_block)[2] == f"{shard.key}.3"
        assert [unit for units in by_block.values() for unit in units] == [
            *shard.units[shard.own_count :]
        ]
    assert codec.decode(codec.encode(made), "") == made
    static = planned(WALLS_S, shards=2).plan
    assert [set(shard.units) for shard in made.shards] == [
        set(shard.units) for shard in static.shards
    ]
    assert not any(shard.blocks for shard in static.shards)


def test_blocks_are_few_where_a_start_takes_long() -> None:
    """Of 200 s, 3 % may be starts."""
    slow = planned(WALLS_S, suites={"": suite(3.0)}, shards=2, claims="https://ci.example.org").plan
    assert [len(shard.blocks) for shard in slow.shards] == [2, 2]
    assert [shard.predicted.wall_s for shard in slow.shards] == [209.0, 209.0]
    slower = planned(
        WALLS_S, suites={"": suite(30.0)}, shards=2, claims="https://ci.example.org"
    ).plan
    assert [len(shard.blocks) for shard in slower.shards] == [0, 0]


def test_what_is_kept_together_moves_together() -> None:
    pairs = [
        (InventoryUnit(name, group="db" if "_b" in name else None), wall_s)
        for name, wall_s in WALLS_S.items()
    ]
    made = planned(pairs, shards=1, group="file-strict", claims="https://ci.example.org").plan
    (shard,) = made.shards
    held = [{unit.unit for unit in units} for units in shard.units_by_block().values()]
    theirs = {name for name in WALLS_S if "_b" in name}
    assert held
    assert all(theirs <= some or theirs.isdisjoint(some) for some in held)


def test_suspects_stay_where_they_are_looked_for() -> None:
    suspects = CandidateSet((0, 1), 2)
    made = planned(
        WALLS_S, shards=4, candidate_sets=[suspects], claims="https://ci.example.org"
    ).plan
    for shard in made.shards:
        has_suspect = any(unit.unit in sorted(WALLS_S)[:2] for unit in shard.units)
        assert bool(shard.blocks) != has_suspect


def pieces(*walls_s: float) -> list[Piece]:
    return [Piece((place,), wall_s) for place, wall_s in enumerate(walls_s)]


def test_the_shortest_are_held_back_in_blocks_that_get_shorter() -> None:
    found = cut_shard(pieces(*[1.0] * 6, 20.0, 8.0), claim_s=0.5, held_back=0.17, max_blocks=3)
    assert found.own == (6, 7)
    assert found.blocks == (Piece((0, 1, 2), 3.0), Piece((3, 4), 2.0), Piece((5,), 1.0))


@pytest.mark.parametrize(
    ("claim_s", "start_s", "blocks"),
    [
        (0.0, 0.0, 10),
        (0.5, 0.0, 10),
        (1.0, 0.0, 5),
        (4.9, 0.0, 1),
        (5.2, 0.0, 0),
        (0.5, 0.32, 3),
        (0.5, 1.0, 0),
    ],
)
def test_blocks_are_as_many_as_their_costs_allow(
    claim_s: float, start_s: float, blocks: int
) -> None:
    found = cut_shard(pieces(*[0.1] * 330), claim_s=claim_s, start_s=start_s, held_back=0.31)
    assert len(found.blocks) == blocks


@pytest.mark.parametrize("walls_s", [(), (5.0,), (0.0, 0.0)])
def test_a_shard_that_cannot_be_cut_has_no_blocks(walls_s: tuple[float, ...]) -> None:
    assert cut_shard(pieces(*walls_s), claim_s=1.0) == CutShard(tuple(range(len(walls_s))))


@given(
    st.lists(st.floats(0, 100), max_size=40),
    st.floats(0, 5),
    st.floats(0, 2),
    st.floats(0, 1),
    st.integers(1, 12),
)
def test_every_unit_is_in_one_place(
    walls_s: list[float], claim_s: float, start_s: float, held_back: float, max_blocks: int
) -> None:
    some = pieces(*walls_s)
    found = cut_shard(
        some, claim_s=claim_s, start_s=start_s, held_back=held_back, max_blocks=max_blocks
    )
    members = [*found.own, *(unit for block in found.blocks for unit in block.members)]
    assert sorted(members) == list(range(len(walls_s)))
    assert len(found.blocks) <= max_blocks
    assert found.own or not walls_s
    held_s = math.fsum(block.wall_s for block in found.blocks)
    longest_s = max(walls_s, default=0.0)
    assert held_s <= held_back * math.fsum(walls_s) + longest_s + 1e-6
    for block in found.blocks:
        assert block.wall_s == pytest.approx(math.fsum(walls_s[unit] for unit in block.members))
