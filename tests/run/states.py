"""States of the leg's rules over literals, and steps that several tests take."""

from __future__ import annotations

from ciguard.model import (
    LegPolicy,
    PlannedUnit,
    Prediction,
    ProcessEndLine,
    Result,
    Shard,
    StartLine,
    Suite,
)
from ciguard.run.policy.actions import Start
from ciguard.run.policy.rules import next_action
from ciguard.run.policy.state import MIB, State

OFF = LegPolicy(guard_rail="off")
GIB = 1024 * MIB


def state_of(
    *units: PlannedUnit | str,
    processes: int = 1,
    budget_mib: int | None = None,
    policy: LegPolicy = OFF,
    step_limit_s: float | None = None,
    files: bool = False,
    suite: Suite = Suite("any", ("any",)),  # noqa: B008  # never changed
) -> State:
    """`files`: its framework announces units, and what stands before "::" is read first."""
    planned = tuple(PlannedUnit(unit) if isinstance(unit, str) else unit for unit in units)
    budget = None if budget_mib is None else budget_mib * MIB
    shard = Shard("01", "p", planned, Prediction(1, 1), processes, budget_bytes=budget)
    return State(
        shard,
        dict.fromkeys(("", "other"), suite),
        policy,
        step_limit_s=step_limit_s,
        file_of=lambda unit: unit.unit.partition("::")[0] if files else "",
    )


def start(state: State, now_s: float = 0.0) -> Start:
    action = next_action(state, now_s)
    assert isinstance(action, Start), action
    state.apply(action)
    return action


def finish_all(state: State, process: int, outcome: str = "passed") -> None:
    for unit in state.running[process].start.units:
        planned = state.units[unit]
        state.observe(StartLine(planned.unit, process=process, at_s=0.0))
        state.observe(Result(planned.unit, outcome, process=process))  # type: ignore[arg-type]
    state.observe(ProcessEndLine(process, "completed", 0))
