"""Which block a leg gets that asks for one."""

from __future__ import annotations

import pytest

from ciguard.serve.block_choice import LegProgress, choose_block, common_ratio


def leg(own_s: float = 70.0, *blocks_s: float, name: str = "", group: str = "g") -> LegProgress:
    blocks = {f"{name}.{place}": wall_s for place, wall_s in enumerate(blocks_s, 1)}
    return LegProgress(group, own_s, blocks, began_s=0.0)


def test_a_leg_gets_its_own_blocks_first() -> None:
    legs = {"1": leg(70, 10, 20, name="1"), "2": leg(900, 30, name="2")}
    assert choose_block(legs, "1", now_s=70, cost_s=1) == "1.1"


def test_then_the_longest_that_it_ends_in_time_of_the_leg_that_ends_last() -> None:
    legs = {"1": leg(70), "2": leg(80, 9, name="2"), "3": leg(90, 40, 20, 10, name="3")}
    # The third leg would end at 160 s; what is over at 176 s is in time.
    assert choose_block(legs, "1", now_s=70, cost_s=1) == "3.1"
    assert choose_block(legs, "1", now_s=70, cost_s=67) == "3.2"


def test_nothing_moves_that_costs_more_than_it_saves() -> None:
    legs = {"1": leg(70), "2": leg(80, 8, name="2")}
    assert choose_block(legs, "1", now_s=80, cost_s=8) == "2.1"
    assert choose_block(legs, "1", now_s=80, cost_s=9) is None


def test_a_leg_gets_nothing_that_it_can_begin_only_when_its_own_leg_has_ended() -> None:
    legs = {"1": leg(70), "2": leg(60, 10, name="2")}
    legs["1"].ready_s = 66.0
    assert choose_block(legs, "1", now_s=60, cost_s=0.5) == "2.1"
    legs["1"].ready_s = 150.0
    assert choose_block(legs, "1", now_s=60, cost_s=0.5) is None


def test_a_leg_gets_nothing_that_it_cannot_end_before_its_deadline() -> None:
    legs = {"1": leg(70), "2": leg(900, 30, 20, name="2")}
    assert choose_block(legs, "1", now_s=70, cost_s=1, limit_s=32) == "2.1"
    assert choose_block(legs, "1", now_s=70, cost_s=1, limit_s=31) == "2.2"
    assert choose_block(legs, "1", now_s=70, cost_s=1, limit_s=21) is None


def test_a_leg_that_began_late_gives_blocks_away() -> None:
    late = leg(50, 30, name="2")
    legs = {"1": leg(70), "2": late}
    late.began_s = 60.0
    assert choose_block(legs, "1", now_s=100, cost_s=1) == "2.1"
    late.began_s = None  # it still waits for its runner
    assert choose_block(legs, "1", now_s=500, cost_s=1) == "2.1"


def test_blocks_move_within_their_group() -> None:
    legs = {"1": leg(70), "2": leg(900, 30, name="2", group="other")}
    assert choose_block(legs, "1", now_s=70, cost_s=1) is None


def test_time_is_counted_as_fast_as_the_legs_were_so_far() -> None:
    slow = leg(70)
    slow.ratio = 2.0
    legs = {"1": slow, "2": leg(100, 50, 40, name="2")}
    assert common_ratio(tuple(legs.values())) == 2.0
    # At 300 s the second has 180 s of work left, and 228 s up to 1.1 x its end.
    assert choose_block(legs, "1", now_s=300, cost_s=127) == "2.1"
    assert choose_block(legs, "1", now_s=300, cost_s=129) == "2.2"


@pytest.mark.parametrize("ready_s", [100.0, None])
def test_a_leg_without_blocks_ends_when_it_is_ready(ready_s: float | None) -> None:
    one = leg(100)
    one.ready_s = ready_s
    assert one.ends_s(20.0, 1.0) == 100.0
    assert one.ends_s(120.0, 1.0) == 120.0
