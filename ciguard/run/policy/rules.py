"""Rules of a leg: `next_action` decides by a fixed order of rules what happens next. Pure.

The order is: interruption, deadline, timeout, guard rail, checkpoint, recycling, claim, admission.
The supervisor executes the decisions of `next_action` and has no rule itself. The planner simulates
a shard with the same function, over estimates. The peak of a process is its base, plus the memory
that it has retained so far, plus the delta of the test. Measured on leaking suites, this sum is 1-2
% off, while base plus largest delta is 28 % too low.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Mapping, Sequence, cast

from ciguard.model import Ending, EventKind, EventLine, Line, PlannedUnit, ProcessLine
from ciguard.run.policy.actions import (
    NO_TIME_S,
    Action,
    Assign,
    Claim,
    Finish,
    Reason,
    Recycle,
    Start,
    Stop,
    Wait,
    Warn,
)
from ciguard.run.policy.admission import (
    MAX_FRUITLESS_PROCESSES,
    admit,
    admit_listing,
    free_bytes,
    has_free_slot,
    start_of,
)
from ciguard.run.policy.guard_rail import awaiting_freed_memory, guard_rail
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.recycling import recycle
from ciguard.run.policy.state import State

# The teardown of a session may take minutes, and so may the imports before its first unit.
EXIT_S: Final = 300.0
# After its session a process may wait for its threads as long as for a test, within these limits.
THREAD_S: Final = (5.0, 60.0)
# Grace period of a checkpoint, as a share of the step's time: a lost runner costs at most the work
# of two steps. Only one step of a leg has it, or a unit that needs more would be stopped each time.
CHECKPOINT_GRACE_RATIO: Final = 1.0


def next_action(state: State, now_s: float) -> Action:
    """Return the next action; the same state and moment give the same action.

    Args:
        now_s: seconds since the leg began, in this step or an earlier step; never falling.

    Returns:
        One action. After `apply`, call this function again, until it returns Wait or Finish.
        O(pending units).
    """
    action = (
        _interruption(state)
        or _deadline(state, now_s)
        or _timeout(state, now_s)
        or guard_rail(state)
        or _checkpoint(state, now_s)
        or recycle(state)
        or _claim(state, now_s)
        or _admission(state, now_s)
        or _ending(state)
        or Wait(_next_moment_s(state, now_s))
    )
    if isinstance(action, Assign):
        return Assign(replace(action.start, at_s=now_s))
    return replace(action, at_s=now_s) if isinstance(action, Start) else action


def _end_all(state: State, ending: Ending, reason: Reason) -> Action:
    for process, running in sorted(state.running.items()):
        if running.stopping is None:
            return Stop(process, ending, reason)
    return Wait() if state.running else Finish(ending, reason)


def _interruption(state: State) -> Action | None:
    if state.interrupted is not None:
        return _end_all(state, state.interrupted, Reason("cancelled"))
    if state.has_second_session:
        return _end_all(state, "setup_failed", Reason("second_session"))
    return None


def _deadline(state: State, now_s: float) -> Action | None:
    limit_s = state.policy.deadline_s
    if limit_s is None or now_s < state.began_s + limit_s:
        return None
    if not (state.running or state.pending or state.awaits_listing or state.claims.held):
        return None
    return _end_all(state, "deadline", Reason("deadline", {"limit_s": limit_s}))


def _timeout(state: State, now_s: float) -> Action | None:
    for process, running in sorted(state.running.items()):
        if running.stopping is not None:
            continue
        for unit, at_s in sorted(running.open_units.items()):
            limit_s = state.timeout_s(unit)
            if limit_s is not None and now_s - at_s > limit_s:
                return Stop(process, "timeout", Reason("unit_timeout", {"limit_s": limit_s}), unit)
        since_s, exit_s = _exit_limit(running)
        if now_s - since_s > exit_s:
            return Stop(process, "timeout", Reason("no_exit", {"waited_s": exit_s}))
        if now_s > _hang_after_s(state, running):
            idle_s = now_s - running.last_activity_at_s
            return Stop(process, "timeout", Reason("idle", {"idle_s": idle_s}))
    return None


def _exit_limit(running: ProcessState) -> tuple[float, float]:
    """Return the moment since which a process only exits (NO_TIME_S: units left), and its limit."""
    if running.thread_left_s is not None:
        return running.thread_left_s, min(max(THREAD_S[0], running.longest_timeout_s), THREAD_S[1])
    return NO_TIME_S if running.done_s is None else running.done_s, EXIT_S


def _hang_after_s(state: State, running: ProcessState) -> float:
    """Return the moment after which a process hangs that has units left and runs none.

    A process may hang before its first unit, at an import, or between two units, if workers wait
    for each other. The rule applies only if every unit has a timeout (otherwise a long unit could
    not be told from a hang) and is announced (otherwise the process may be running a unit).
    """
    unit = running.next_unit()
    if running.open_units or unit is None or not state.file_of(unit):
        return float("inf")
    return running.last_activity_at_s + max(EXIT_S, running.longest_timeout_s)


def _next_moment_s(state: State, now_s: float) -> float | None:
    """Return the next moment at which a rule may decide without a new line; None for no moment."""
    deadline_s, step_limit_s = state.policy.deadline_s, state.step_limit_s
    moments = [] if deadline_s is None else [state.began_s + deadline_s]
    if now_s < state.memory_back_s:
        moments.append(state.memory_back_s)
    if step_limit_s is not None and now_s < state.began_s + step_limit_s:
        moments.append(state.began_s + step_limit_s)
    elif now_s < _grace_ends_s(state) < float("inf"):
        moments.append(_grace_ends_s(state))
    for running in state.running.values():
        if running.stopping is None and sum(_exit_limit(running)) < NO_TIME_S:
            moments.append(sum(_exit_limit(running)))
        if running.stopping is None and _hang_after_s(state, running) < float("inf"):
            moments.append(_hang_after_s(state, running))
        for unit, at_s in running.open_units.items():
            limit_s = state.timeout_s(unit)
            if limit_s is not None:
                moments.append(at_s + limit_s)  # infinite if the start has no time
    return min(moments) if moments else None


def _grace_ends_s(state: State) -> float:
    """Return the end of the grace period of a checkpoint; infinite if an earlier step used it."""
    if state.step_limit_s is None or state.grace_used:
        return float("inf")
    return state.began_s + state.step_limit_s * (1 + CHECKPOINT_GRACE_RATIO)


def _checkpoint(state: State, now_s: float) -> Action | None:
    """End the step after its time limit: begin no unit, let running units end, stop late units.

    A process with further units is recycled, so that it ends after its current unit.
    """
    if state.step_limit_s is None or now_s < state.began_s + state.step_limit_s:
        return None
    unstarted = {
        process: running.unstarted_units()
        for process, running in sorted(state.running.items())
        if running.stopping is None and not running.start.repeats
    }
    left = len(state.pending) + sum(map(len, unstarted.values()))
    is_late = bool(unstarted) and now_s >= _grace_ends_s(state)
    if not left and not is_late:
        return None
    reason = Reason("checkpoint", {"limit_s": state.step_limit_s, "units": left})
    if "checkpoint" not in state.warned:
        return Warn(reason)
    for process, units in unstarted.items():
        if is_late:
            grace_reason = Reason("checkpoint_grace", {"limit_s": state.step_limit_s})
            return Stop(process, "deadline", grace_reason, checkpoint=True)
        if units and not state.running[process].recycled:
            return Recycle(process, reason)
    if state.running:
        return Wait(_next_moment_s(state, now_s))
    # A later step takes a unit with a result as done, so failed units run again in this step.
    return _next_rerun(state, now_s) or Finish("deadline", reason, checkpoint=True)


def _claim(state: State, now_s: float) -> Action | None:
    """Claim a block when a process begins its last unit: the answer arrives while the unit runs."""
    if state.claims.status != "open" or state.pending or state.awaits_listing:
        return None
    if state.fruitless_processes >= MAX_FRUITLESS_PROCESSES:
        return None  # blocks stay for other legs, which may be able to run them
    ready_s = 0.0
    if len(state.busy) >= state.processes:
        ending = [running for running in state.busy.values() if running.is_at_last_unit()]
        if not ending:
            return None
        ready_s = min(_left_s(state, running, now_s) for running in ending)
    reason = Reason("next_block", {"ready_s": ready_s} if ready_s else {})
    finished = set(state.tries).union(*(running.finished for running in state.running.values()))
    done_s = sum(state.units[unit].wall_s for unit in finished) / state.processes
    return Claim(reason, ready_s, done_s, state.remaining_s(now_s))


def _left_s(state: State, running: ProcessState, now_s: float) -> float:
    """Return the predicted time that the open units of a process still take."""
    left = (
        state.units[unit].wall_s - max(0.0, now_s - at_s)
        for unit, at_s in running.open_units.items()
        if at_s < float("inf")
    )
    return max(0.0, max(left, default=0.0))


def _next_rerun(state: State, now_s: float) -> Action | None:
    """Start the next rerun, or skip it if time is short; first all units run once."""
    if not state.reruns or not has_free_slot(state):
        return None
    if awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    rerun = state.reruns[0]
    if skip_reason := rerun.skip_reason(state.remaining_s(now_s)):
        return Warn(skip_reason)
    start = start_of(state, rerun.units, rerun.reason, isolated=rerun.isolated)
    start = replace(start, repeats=rerun.repeats)
    fits = not rerun.isolated and start.predicted_peak_bytes <= free_bytes(state)
    return start if fits or not state.running else None


def _admission(state: State, now_s: float) -> Action | None:
    if not (state.awaits_listing or state.pending) and state.idle is None:
        return _next_rerun(state, now_s) if state.claims.status == "over" else None
    if not state.awaits_listing and not has_free_slot(state):
        return None
    if awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    return admit_listing(state) if state.awaits_listing else admit(state)


def _ending(state: State) -> Action | None:
    if state.running or state.claims.status == "asked":
        return None
    held = [unit for units in state.claims.held.values() for unit in units]
    left = len({*state.pending, *held} - state.tries.keys())
    planned = len(state.own_units)
    if left or state.awaits_listing:
        ending: Ending = "setup_failed" if not state.tries else "crash"
        left += len(state.import_crashed)
        facts = {
            "processes": state.started if state.cannot_list else MAX_FRUITLESS_PROCESSES,
            "units": left,
            "planned_units": planned,
        }
        return Finish(ending, Reason("fruitless", facts))
    not_retried = {*state.pending, *(unit for rerun in state.reruns for unit in rerun.units)}
    counts = {
        "without_result_units": len(state.without_result),
        "import_crashed_units": len(state.import_crashed),
        "not_retried_units": len(not_retried),
    }
    facts = {name: count for name, count in counts.items() if count}
    if not facts:
        return Finish("completed", Reason("all_ended"))
    return Finish("completed", Reason("incomplete", {**facts, "planned_units": planned}))


def decision_line(
    action: Action, at_s: float, lines_read: Mapping[str, int], units: Sequence[PlannedUnit] = ()
) -> Line | None:
    """Return the record's line of a decision; None for Wait and Finish, which have no line.

    The caller adds `detail`, the text for people.

    Args:
        lines_read: file of the record -> number of its lines that were observed before.
        units: units of the shard, to name the unit that a Stop blames.
    """
    if isinstance(action, (Wait, Finish)):
        return None
    reason = action.start.reason if isinstance(action, Assign) else action.reason
    if isinstance(action, Start):
        return ProcessLine(
            process=action.process,
            units=len(action.units),
            suite=action.suite,
            variant=action.variant,
            at_s=at_s,
            predicted_peak_bytes=action.predicted_peak_bytes,
            lines_read=lines_read,
            reason=reason.kind,
            facts=reason.facts,
        )
    line = EventLine(
        "recycled", at_s, lines_read=lines_read, reason=reason.kind, facts=reason.facts
    )
    if isinstance(action, Warn):
        return replace(line, kind=cast("EventKind", reason.kind))
    if isinstance(action, Claim):
        return replace(line, kind="claim_asked")
    if isinstance(action, Assign):
        facts = {"units": len(action.start.units), **reason.facts}
        return replace(line, kind="assigned", process=action.start.process, facts=facts)
    if isinstance(action, Recycle):
        return replace(line, process=action.process)
    line = replace(line, kind=action.ending, process=action.process)
    if action.unit is None or not units:
        return line
    suite, variant, unit = units[action.unit].key
    return replace(line, suite=suite, variant=variant, unit=unit)
