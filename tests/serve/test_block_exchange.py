"""Who gets which block, on SQLite and on PostgreSQL; legs that ask at once, and lost answers."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ciguard.plan.pool_shards import CLAIM_S
from ciguard.serve.block_exchange import (
    ClaimAnswer,
    ClaimBody,
    ClaimState,
    LegProgress,
    NotRegistered,
    answer_claim,
    apply_claim,
    choose_block,
    common_ratio,
    confirm_block,
)
from ciguard.serve.state import claim_rows, repositories, schema
from ciguard.serve.state.claim_rows import ClaimBlock, ClaimLeg, PlanKey
from ciguard.serve.state.database import Database
from ciguard.serve.state.run_key import RunKey

KEY: Final = PlanKey(RunKey(11, 7, 1), "0123456789ab")


def answer(
    block: str | None = None, *, taken: dict[str, str] | None = None, held: tuple[str, ...] = ()
) -> ClaimAnswer:
    return ClaimAnswer(block=block, taken=taken or {}, held=held)


def claim(leg: str, state: ClaimState, elapsed_s: float, **more: float) -> ClaimBody:
    return ClaimBody(plan=KEY.plan, leg=leg, state=state, elapsed_s=elapsed_s, **more)


def made(
    walls_s: Mapping[str, tuple[float, ...]], own_s: float = 60.0, exchange: str = "g"
) -> tuple[list[ClaimLeg], list[ClaimBlock]]:
    legs = [ClaimLeg(name, exchange, own_s) for name in walls_s]
    blocks = [
        ClaimBlock(f"{name}.{place}", name, place, wall_s)
        for name, some in walls_s.items()
        for place, wall_s in enumerate(some, 1)
    ]
    return legs, blocks


def register(database: Database, walls_s: Mapping[str, tuple[float, ...]]) -> None:
    with database.write() as connection:
        assert claim_rows.register(connection, KEY, *made(walls_s)) is not None


def ask(
    database: Database,
    leg: str,
    elapsed_s: float = 60.0,
    state: ClaimState = "asks",
    key: PlanKey = KEY,
) -> ClaimAnswer:
    with database.write() as connection:
        return answer_claim(connection, key, claim(leg, state, elapsed_s))


def confirm(database: Database, leg: str, block: str | None) -> bool:
    assert block is not None
    with database.write() as connection:
        return confirm_block(connection, KEY, leg, block)


def run_block(database: Database, leg: str) -> str | None:
    block = ask(database, leg).block
    assert block is None or confirm(database, leg, block)
    return block


def test_own_blocks_come_first_and_then_those_of_the_leg_that_ends_last(database: Database) -> None:
    register(database, {"01": (10.0,), "02": (10.0,), "03": (30.0, 20.0, 10.0)})
    for leg in ("01", "02", "03"):
        assert ask(database, leg, 0.0, "begins") == answer()
    assert run_block(database, "01") == "01.1"
    assert ask(database, "01").block == "03.1"
    # Confirmed by nobody yet: its owner does not hear of it.
    assert ask(database, "03", 30.0, "begins") == answer()
    assert confirm(database, "01", "03.1")
    assert ask(database, "03", 30.0, "begins") == answer(taken={"03.1": "01"})
    assert run_block(database, "03") == "03.2"
    # The second has not asked yet, and has 60 s before its block by the plan.
    assert ask(database, "01") == answer("02.1", held=("03.1",))


def test_eight_legs_that_ask_at_once_run_each_block_once(database: Database) -> None:
    """One that is not confirmed yet may be its owner's again: only one of the two confirms it."""
    names = [f"{number:02}" for number in range(8)]
    register(database, dict.fromkeys(names, (9.0, 8.0, 7.0)))
    confirmed: list[str] = []
    start = threading.Barrier(len(names))

    def run(leg: str) -> None:
        start.wait()
        while (block := ask(database, leg).block) is not None:
            if confirm(database, leg, block):
                confirmed.append(block)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(run, names))
    assert sorted(confirmed) == [f"{name}.{place}" for name in names for place in (1, 2, 3)]


def test_lost_answer_is_given_again_and_at_last_to_the_owner(database: Database) -> None:
    register(database, {"01": (), "02": (30.0, 20.0)})
    assert ask(database, "01").block == "02.1"
    assert ask(database, "01").block == "02.1"  # its answer was lost
    assert run_block(database, "02") == "02.2"
    assert ask(database, "02") == answer("02.1")  # nothing else is left
    assert not confirm(database, "01", "02.1")
    assert confirm(database, "02", "02.1")
    assert ask(database, "02") == answer()
    assert ask(database, "01") == answer()


def test_owner_whose_answer_was_lost_takes_nothing_back(database: Database) -> None:
    """It has a block of its own that it never heard of: that is what it gets again."""
    register(database, {"01": (), "03": (), "02": (30.0, 20.0)})
    assert ask(database, "02").block == "02.1"
    assert ask(database, "01").block == "02.2"
    assert ask(database, "02").block == "02.1"  # its answer was lost
    assert ask(database, "03").block is None
    assert ask(database, "01").block == "02.2"


def test_block_that_was_given_back_is_its_first_confirmers(database: Database) -> None:
    register(database, {"01": (), "03": (), "02": (30.0, 20.0, 10.0)})
    assert ask(database, "01").block == "02.1"
    assert ask(database, "03").block == "02.2"
    assert run_block(database, "02") == "02.3"
    assert ask(database, "02").block == "02.1"  # and with it, 02.2 has no holder
    assert confirm(database, "03", "02.2")
    assert confirm(database, "02", "02.1")
    assert ask(database, "02") == answer(taken={"02.2": "03"})


def test_leg_alone_keeps_its_blocks_and_frees_what_it_never_heard_of(database: Database) -> None:
    register(database, {"01": (15.0,), "02": (30.0, 20.0, 10.0), "03": ()})
    assert run_block(database, "01") == "01.1"
    assert run_block(database, "01") == "02.1"
    assert ask(database, "01").block == "02.2"
    assert ask(database, "03").block == "02.3"
    for _ in range(2):  # it says so until it is heard, which it may not hear either
        assert ask(database, "01", state="alone") == answer(held=("02.1",))
    assert ask(database, "01") == answer(held=("02.1",))  # sent before, and late
    assert run_block(database, "02") == "02.2"
    # Of the second, only what the third has confirmed is not its own.
    assert confirm(database, "03", "02.3")
    assert ask(database, "02", state="alone") == answer(taken={"02.1": "01", "02.3": "03"})
    assert ask(database, "03") == answer(held=("02.3",))


def test_blocks_of_a_leg_alone_are_not_confirmed_by_others(database: Database) -> None:
    register(database, {"01": (), "02": (30.0,)})
    assert ask(database, "01").block == "02.1"
    assert ask(database, "02", state="alone") == answer()
    assert not confirm(database, "01", "02.1")
    assert ask(database, "01") == answer()


def test_leg_that_is_repeated_hears_what_it_had(database: Database) -> None:
    register(database, {"01": (), "02": (30.0,)})
    assert run_block(database, "01") == "02.1"
    later = PlanKey(RunKey(11, 7, 3), KEY.plan)
    states: tuple[ClaimState, ...] = ("begins", "asks", "alone")
    for state in states:
        assert ask(database, "01", state=state, key=later) == answer(held=("02.1",))
        assert ask(database, "02", state=state, key=later) == answer()
    second = PlanKey(RunKey(11, 7, 2), KEY.plan)
    with database.write() as connection:
        claim_rows.register(connection, second, *made({"01": (), "02": (30.0,)}))
    assert ask(database, "01", 0.0, "begins", later) == answer()
    assert ask(database, "01", 0.0, "begins") == answer(held=("02.1",))
    for key in (
        PlanKey(RunKey(11, 7, 4), "ba9876543210"),
        PlanKey(RunKey(11, 8, 4), KEY.plan),
        PlanKey(RunKey(12, 7, 4), KEY.plan),
    ):
        with pytest.raises(NotRegistered, match="plan is not registered"):
            ask(database, "01", key=key)
    for key in (KEY, later):
        with pytest.raises(NotRegistered, match="no such job"):
            ask(database, "04", key=key)


def test_only_blocks_of_the_plan_are_confirmed(database: Database) -> None:
    register(database, {"01": (), "02": (30.0,)})
    for leg, block, words in (("03", "02.1", "no such job"), ("01", "02.2", "no such block")):
        with pytest.raises(NotRegistered, match=words):
            confirm(database, leg, block)
    assert confirm(database, "01", "02.1")
    assert confirm(database, "01", "02.1")
    assert not confirm(database, "02", "02.1")
    later = PlanKey(RunKey(11, 7, 2), KEY.plan)
    with database.write() as connection, pytest.raises(NotRegistered, match="this run attempt"):
        confirm_block(connection, later, "01", "02.1")


def test_plan_is_registered_once_and_gets_a_new_token(database: Database) -> None:
    legs, blocks = made({"01": (), "02": (30.0,)})
    with database.write() as connection:
        first = claim_rows.register(connection, KEY, legs, blocks)
    assert run_block(database, "01") == "02.1"
    with database.write() as connection:
        second = claim_rows.register(connection, KEY, legs, blocks)
        stored = str(connection.execute(sa.select(schema.claim_plan)).all())
        assert first is not None
        assert second is not None
        assert (first.is_new, second.is_new) == (True, False)
        assert claim_rows.plan_of(connection, first.secret) is None
        assert claim_rows.plan_of(connection, second.secret) == KEY
        assert claim_rows.plan_of(connection, "\udcff") is None
    assert second.secret.removeprefix(claim_rows.PREFIX) not in stored + repr(second)
    assert ask(database, "01") == answer(held=("02.1",))


def test_plan_that_is_registered_twice_at_once_has_one_token(database: Database) -> None:
    start = threading.Barrier(4)

    def run(_: int) -> claim_rows.Registration | None:
        start.wait()
        with database.write() as connection:
            return claim_rows.register(connection, KEY, *made({"01": (1.0,) * 9}))

    with ThreadPoolExecutor(4) as pool:
        some = [one for one in pool.map(run, range(4)) if one is not None]
    assert sorted(one.is_new for one in some) == [False, False, False, True]
    with database.read() as connection:
        known = [claim_rows.plan_of(connection, one.secret) for one in some]
    assert sorted(one is not None for one in known) == [False, False, False, True]


def test_run_attempt_has_a_limit_of_plans(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_rows, "MAX_PLANS", 2)
    found = []
    for run, plan in ((KEY.run, "a"), (KEY.run, "b"), (KEY.run, "c"), (RunKey(11, 7, 2), "c")):
        with database.write() as connection:
            made_plan = claim_rows.register(connection, PlanKey(run, plan), *made({"01": (1.0,)}))
            found.append(made_plan is not None)
    assert found == [True, True, False, True]
    with database.read() as connection:
        count = connection.execute(sa.select(sa.func.count()).select_from(schema.claim_block))
        assert count.scalar_one() == 3


def test_plans_go_with_their_repository(database: Database) -> None:
    register(database, {"01": (1.0,)})
    other = PlanKey(RunKey(12, 7, 1), KEY.plan)
    tables = (schema.claim_plan, schema.claim_leg, schema.claim_block)

    def rows() -> list[int]:
        with database.read() as connection:
            return [
                connection.execute(sa.select(sa.func.count()).select_from(one)).scalar_one()
                for one in tables
            ]

    with database.write() as connection:
        claim_rows.register(connection, other, *made({"01": (1.0,)}))
    assert rows() == [2, 2, 2]
    with database.write() as connection:
        repositories.delete_rows(connection, 12)
    assert rows() == [1, 1, 1]


def test_ratio_is_of_what_has_run_and_says_when_the_next_question_comes() -> None:
    legs, blocks = made({"01": (10.0, 10.0)})
    by_name = {one.leg: one for one in legs}
    leg = legs[0]
    now_ms = 1_000_000
    apply_claim(claim("01", "asks", 110.0, ready_in_s=10.0, done_s=55.0), by_name, blocks, now_ms)
    assert leg.ratio == 2.0
    assert leg.began_at_ms == now_ms - 110_000
    assert leg.ready_at_ms == now_ms + round(1000 * (10.0 + CLAIM_S + 2.0 * 10.0))
    blocks[0].is_confirmed = True
    apply_claim(claim("01", "asks", 150.0, done_s=60.0), by_name, blocks, now_ms + 40_000)
    assert leg.ratio == 2.5
    assert leg.began_at_ms == now_ms - 110_000


def test_predictions_of_next_to_nothing_end_no_leg_at_infinity() -> None:
    legs, blocks = made({"01": (), "02": (10.0,)})
    by_name = {one.leg: one for one in legs}
    question = claim("01", "asks", 3_000_000.0, done_s=5e-324)
    assert apply_claim(question, by_name, blocks, 10**12).block == "02.1"
    assert legs[0].ready_at_ms is not None
    legs, blocks = made({"01": (), "02": (10.0,)})
    apply_claim(claim("01", "asks", 1.0), {one.leg: one for one in legs}, blocks, 10**12)
    assert legs[0].ratio is None


def test_no_leg_gets_what_it_cannot_end_before_its_deadline() -> None:
    legs, blocks = made({"01": (5.0,), "02": (30.0, 20.0)})
    by_name = {one.leg: one for one in legs}
    for left_s, expected in ((1.0, "01.1"), (20.0, None), (21.0, "02.2"), (31.0, "02.1")):
        question = claim("01", "asks", 10.0, done_s=10.0, left_s=left_s)
        assert apply_claim(question, by_name, blocks, 10**12).block == expected, left_s
        for block in blocks:
            block.holder = "01" if block.block == "01.1" else ""
            block.is_confirmed = bool(block.holder)


@given(st.data())
def test_whatever_is_lost_each_block_is_run(data: st.DataObject) -> None:
    """Legs as they are to behave, of which any request or answer may be lost, or be late."""
    counts = data.draw(st.lists(st.integers(0, 3), min_size=2, max_size=4))
    legs, blocks = made({str(number): (9.0, 5.0, 2.0)[:n] for number, n in enumerate(counts)})
    by_name = {one.leg: one for one in legs}
    own = {name: [one for one in blocks if one.leg == name] for name in by_name}
    ran: set[str] = set()
    asking = set(by_name)
    now_ms = 10**9

    def visible(name: str) -> list[ClaimBlock]:
        return [one for one in blocks if one.holder in ("", name) or one.leg == name]

    def alone(name: str) -> None:
        asking.discard(name)
        ran.update(one.block for one in own[name])
        if data.draw(st.booleans(), "alone is heard"):
            apply_claim(claim(name, "alone", 90.0), by_name, visible(name), now_ms)

    while asking:
        name = data.draw(st.sampled_from(sorted(asking)), "leg")
        now_ms += 1000
        fate = data.draw(st.sampled_from(("heard", "heard", "heard", "lost", "unanswered")))
        if fate == "lost":
            alone(name)
            continue
        block = apply_claim(claim(name, "asks", 60.0), by_name, visible(name), now_ms).block
        if fate == "unanswered":
            alone(name)
        elif block is None:
            asking.discard(name)
        else:
            ran.add(block)
            found = next(one for one in blocks if one.block == block)
            assert found.holder == name
            found.is_confirmed = True
    assert ran == {one.block for one in blocks}


Times = tuple[float, ...]  # of a leg: of its own part, and of its blocks
AHEAD: Final[dict[str, Times]] = {"1": (70,), "2": (900, 30, 20)}
LAST: Final[dict[str, Times]] = {"1": (70,), "2": (80, 9), "3": (90, 40, 20, 10)}
SHORT: Final[dict[str, Times]] = {"1": (70,), "2": (80, 8)}
EARLY: Final[dict[str, Times]] = {"1": (70,), "2": (60, 10)}
LATE: Final[dict[str, Times]] = {"1": (70,), "2": (50, 30)}
SLOW: Final[dict[str, Times]] = {"1": (70,), "2": (100, 50, 40)}


def progress(times: Mapping[str, Times], changes: Mapping[str, Any]) -> dict[str, LegProgress]:
    """Legs that began together; a change is of a leg and a value: `2.began_s`."""
    legs = {
        name: LegProgress(
            "g", own_s, {f"{name}.{at}": wall_s for at, wall_s in enumerate(walls, 1)}, 0
        )
        for name, (own_s, *walls) in times.items()
    }
    for place, value in changes.items():
        setattr(legs[place[0]], place[2:], value)
    return legs


@pytest.mark.parametrize(
    ("times", "now_s", "cost_s", "changes", "limit_s", "expected"),
    [
        ({"1": (70, 10, 20), "2": (900, 30)}, 70, 1, {}, math.inf, "1.1"),  # its own first
        # The third leg would end at 160 s; what is over at 176 s is in time.
        (LAST, 70, 1, {}, math.inf, "3.1"),
        (LAST, 70, 67, {}, math.inf, "3.2"),
        (SHORT, 80, 8, {}, math.inf, "2.1"),
        (SHORT, 80, 9, {}, math.inf, None),  # it would cost more than it saves
        (EARLY, 60, 0.5, {"1.ready_s": 66.0}, math.inf, "2.1"),
        (EARLY, 60, 0.5, {"1.ready_s": 150.0}, math.inf, None),
        (AHEAD, 70, 1, {}, 32, "2.1"),
        (AHEAD, 70, 1, {}, 31, "2.2"),
        (AHEAD, 70, 1, {}, 21, None),
        (LATE, 100, 1, {"2.began_s": 60.0}, math.inf, "2.1"),
        (LATE, 500, 1, {"2.began_s": None}, math.inf, "2.1"),  # it still waits for its runner
        (AHEAD, 70, 1, {"2.group": "other"}, math.inf, None),
        # At 300 s the second has 180 s of work left, and 228 s up to 1.1 x its end.
        (SLOW, 300, 127, {"1.ratio": 2.0}, math.inf, "2.1"),
        (SLOW, 300, 129, {"1.ratio": 2.0}, math.inf, "2.2"),
    ],
)
def test_block_is_of_the_leg_that_ends_last_and_in_time(
    *,
    times: Mapping[str, Times],
    now_s: float,
    cost_s: float,
    changes: Mapping[str, Any],
    limit_s: float,
    expected: str | None,
) -> None:
    legs = progress(times, changes)
    assert choose_block(legs, "1", now_s, cost_s, limit_s) == expected
    assert common_ratio(tuple(legs.values())) == changes.get("1.ratio", 1.0)


@pytest.mark.parametrize("ready_s", [100.0, None])
def test_a_leg_without_blocks_ends_when_it_is_ready(ready_s: float | None) -> None:
    leg = progress({"1": (100,)}, {"1.ready_s": ready_s})["1"]
    assert [leg.ends_s(now_s, 1.0) for now_s in (20.0, 120.0)] == [100.0, 120.0]
