"""A leg that asks for blocks of units: what it runs, and when it is over."""

from __future__ import annotations

from run.states import finish_all, start

from ciguard.model import (
    Block,
    EventLine,
    LegPolicy,
    PlannedUnit,
    Prediction,
    ProcessEndLine,
    Result,
    Shard,
    StartLine,
    Suite,
)
from ciguard.run.policy.actions import Action, Claim, Finish, Reason, Start, Wait
from ciguard.run.policy.rules import decision_line, next_action
from ciguard.run.policy.simulate import simulate
from ciguard.run.policy.state import State

OTHERS = {"02.1": (PlannedUnit("x", wall_s=3.0), PlannedUnit("y", wall_s=3.0))}
ASKS = Reason("next_block")


def leg(*, max_tries: int = 1, deadline_s: float | None = None, processes: int = 1) -> State:
    """Shard 01: a and b are its own, c and d are a block each."""
    units = tuple(PlannedUnit(name, wall_s=2.0) for name in "abcd")
    blocks = (Block(1, 2.0), Block(1, 2.0))
    shard = Shard("01", "p", units, Prediction(8, 8), processes, blocks=blocks)
    policy = LegPolicy("off", max_tries, deadline_s)
    return State(shard, {"": Suite("any", ("any",))}, policy, others_blocks=OTHERS)


def said(state: State, kind: str, block: str | None = None) -> None:
    state.observe(EventLine(kind, 1.0, block=block))  # type: ignore[arg-type]


def run_next(state: State, outcome: str = "passed") -> list[str]:
    made = start(state)
    finish_all(state, made.process, outcome)
    return [state.units[unit].unit for unit in made.units]


def ask(state: State, now_s: float = 0.0) -> Action:
    action = next_action(state, now_s)
    if isinstance(action, Claim):
        state.apply(action)
    return action


def test_own_units_run_then_blocks_as_they_are_given() -> None:
    state = leg()
    assert run_next(state) == ["a", "b"]
    assert ask(state) == Claim(ASKS)
    assert next_action(state, 0.0) == Wait(None)
    said(state, "claimed", "01.1")
    assert run_next(state) == ["c"]
    assert ask(state) == Claim(ASKS)
    said(state, "taken", "01.2")
    said(state, "claimed", "02.1")
    assert run_next(state) == ["x", "y"]
    ask(state)
    said(state, "claims_ended")
    assert next_action(state, 0.0) == Finish("completed", Reason("all_ended"))
    assert [unit.unit for unit in state.own_units] == ["a", "b", "c", "x", "y"]


def test_it_asks_when_the_last_unit_begins() -> None:
    state = leg()
    made = start(state)
    state.observe(StartLine("a", process=made.process, at_s=0.0))
    assert next_action(state, 1.0) == Wait(None)
    state.observe(Result("a", "passed", process=made.process, at_s=2.0))
    state.observe(StartLine("b", process=made.process, at_s=2.0))
    action = ask(state, 2.5)
    assert isinstance(action, Claim)
    assert action.ready_s == 1.5
    assert decision_line(action, 2.5, {"process-001.jsonl": 3}) == EventLine(
        "claim_asked",
        2.5,
        lines_read={"process-001.jsonl": 3},
        reason="next_block",
        facts={"ready_s": 1.5},
    )
    said(state, "claimed", "02.1")
    assert next_action(state, 2.6) == Wait(None)  # the answer is there before it is needed
    state.observe(Result("b", "passed", process=made.process, at_s=4.0))
    state.observe(ProcessEndLine(made.process, "completed", 0))
    assert run_next(state) == ["x", "y"]


def test_without_an_answer_it_runs_all_of_its_own_that_nobody_has() -> None:
    state = leg()
    run_next(state)
    ask(state)
    said(state, "taken", "01.1")
    said(state, "claims_ended")
    assert run_next(state) == ["d"]
    assert next_action(state, 0.0) == Finish("completed", Reason("all_ended"))


def test_a_block_that_comes_back_is_run() -> None:
    """Whoever had it said so to nobody: the service gives it back."""
    state = leg()
    run_next(state)
    ask(state)
    said(state, "taken", "01.1")
    said(state, "claimed", "01.1")
    assert run_next(state) == ["c"]
    ask(state)
    said(state, "claimed", "01.1")  # once more
    assert ask(state) == Claim(ASKS)


def test_a_block_of_another_leg_is_run_once() -> None:
    state = leg()
    run_next(state)
    ask(state)
    said(state, "claimed", "02.1")
    assert run_next(state) == ["x", "y"]
    ask(state)
    said(state, "claimed", "02.1")  # once more
    assert ask(state) == Claim(ASKS)
    said(state, "claims_ended")
    assert run_next(state) == ["c", "d"]
    assert next_action(state, 0.0) == Finish("completed", Reason("all_ended"))
    assert [unit.unit for unit in state.units] == [*"abcdxy"]


def test_lines_of_other_kinds_claim_nothing() -> None:
    claims = leg().claims
    claims.status = "asked"
    assert claims.observe(EventLine("listing", 1.0, block="01.1")) == ()
    assert (claims.status, claims.claimed, [*claims.held]) == ("asked", [], ["01.1", "01.2"])


def test_what_failed_is_executed_again_after_all_blocks() -> None:
    state = leg(max_tries=2)
    run_next(state, "failed")
    assert ask(state) == Claim(ASKS)
    assert next_action(state, 0.0) == Wait(None)
    said(state, "claimed", "01.1")
    assert run_next(state) == ["c"]
    ask(state)
    said(state, "claims_ended")
    assert [run_next(state) for _ in range(2)] == [["d"], ["a", "b"]]


def test_a_leg_that_can_run_nothing_asks_for_nothing() -> None:
    state = leg()
    for _ in range(3):
        state.observe(ProcessEndLine(start(state).process, "setup_failed", 1))
    action = next_action(state, 0.0)
    assert isinstance(action, Finish)
    assert action.ending == "setup_failed"
    assert action.reason.facts["units"] == 4


def test_where_no_process_helps_any_more_others_keep_their_blocks() -> None:
    state = leg()
    run_next(state)
    state.fruitless_processes = 3
    action = next_action(state, 0.0)
    assert isinstance(action, Finish)
    assert action.reason.facts["units"] == 2


def test_a_question_says_what_is_done_and_how_long_there_is() -> None:
    state = leg(deadline_s=100.0, processes=2)
    first, second = start(state), start(state)
    for made, at_s in ((first, 1.0), (second, 3.0)):
        name = state.units[made.units[0]].unit
        state.observe(StartLine(name, process=made.process, at_s=at_s))
    action = next_action(state, 4.0)
    assert isinstance(action, Claim)
    assert (action.ready_s, action.done_s, action.left_s) == (0.0, 0.0, 96.0)
    action = next_action(state, 1.5)
    assert isinstance(action, Claim)
    assert action.ready_s == 1.5  # of the first; the second takes 2 s from its start on
    finish_all(state, first.process)
    action = next_action(state, 4.0)
    assert isinstance(action, Claim)
    assert (action.ready_s, action.done_s, action.left_s) == (0.0, 1.0, 96.0)


def test_a_process_that_is_stopped_or_recycled_is_not_asked_for() -> None:
    for field, value in (("stopping", "timeout"), ("recycled", True)):
        state = leg()
        made = start(state)
        for name in "ab":
            state.observe(StartLine(name, process=made.process, at_s=1.0))
        assert isinstance(next_action(state, 1.0), Claim)
        setattr(state.running[made.process], field, value)
        assert next_action(state, 1.0) == Wait(None)


def test_the_deadline_comes_before_what_is_held_back() -> None:
    state = leg(deadline_s=10.0)
    run_next(state)
    action = next_action(state, 10.0)
    assert isinstance(action, Finish)
    assert action.ending == "deadline"


def test_two_processes_share_a_block_or_take_turns() -> None:
    state = leg(processes=2)
    first, second = start(state), start(state)
    finish_all(state, first.process)
    assert ask(state) == Claim(ASKS)
    said(state, "claimed", "02.1")
    assert run_next(state) == ["x", "y"]
    finish_all(state, second.process)


def test_on_paper_a_leg_gets_its_own_blocks() -> None:
    state = leg()
    state.claims.others = {}

    def length_s(begun: Start) -> float:
        return 1.0 + sum(state.units[unit].wall_s for unit in begun.units)

    ends = [(begun.units, end_s) for begun, _, end_s in simulate(state, length_s)]
    assert ends == [((0, 1), 5.0), ((2,), 8.0), ((3,), 11.0)]
