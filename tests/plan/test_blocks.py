"""What of a shard may move to another leg, and in which pieces."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.pool_shards import CutShard, Piece, cut_shard


def pieces(*walls_s: float) -> list[Piece]:
    return [Piece((place,), wall_s) for place, wall_s in enumerate(walls_s)]


def test_the_shortest_are_held_back_in_blocks_that_get_shorter() -> None:
    found = cut_shard(pieces(*[1.0] * 6, 20.0, 8.0), claim_s=0.5, held_back=0.17, max_blocks=3)
    assert found.own == (6, 7)
    assert found.blocks == (
        Piece((0, 1, 2), 3.0),
        Piece((3, 4), 2.0),
        Piece((5,), 1.0),
    )


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
