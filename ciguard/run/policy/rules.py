"""What a leg does next: interruption, deadline, timeout, checkpoint, retry, and its end. Pure.

The supervisor obeys `next_action` and has no rule of its own; the planner simulates a shard with
the same function over estimates. Time comes in as a value. A process's peak is its base + what it
retained so far + the test's own delta: measured, that is 1-2 % off on leaking suites, where base +
largest delta is 28 % too low. Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping, Sequence, cast

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
from ciguard.run.policy.recycling import recycle

if TYPE_CHECKING:
    from ciguard.run.policy.process_state import ProcessState
    from ciguard.run.policy.state import State

# A session's teardown may take minutes, and so may what is imported before its first unit.
EXIT_S: Final = 300.0
# After its session a process waits for its threads: as long as for a test, within these limits.
THREAD_S: Final = (5.0, 60.0)
# Of its time, what a step waits for what runs: a lost runner then costs two steps' work at most.
# Once only: what is stopped a second time may need more than any step has, and would never end.
CHECKPOINT_GRACE_RATIO: Final = 1.0


def next_action(state: State, now_s: float) -> Action:
    """Decide. Pure: the same state and moment give the same action.

    Args:
        now_s: seconds since the leg began, in this step or an earlier one; never falling.

    Returns:
        One action; after `apply` ask again, until it is Wait or Finish. O(waiting units).
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
    if not (state.running or state.waiting or state.awaits_listing or state.claims.held):
        return None
    return _end_all(state, "deadline", Reason("deadline", {"limit_s": limit_s}))


def _timeout(state: State, now_s: float) -> Action | None:
    for process, running in sorted(state.running.items()):
        if running.stopping is not None:
            continue
        for unit, at_s in sorted(running.open_units.items()):
            limit_s = state.units[unit].timeout_s
            if limit_s is not None and now_s - at_s > limit_s:
                return Stop(process, "timeout", Reason("unit_timeout", {"limit_s": limit_s}), unit)
        since_s, exit_s = _exit_limit(running)
        if now_s - since_s > exit_s:
            return Stop(process, "timeout", Reason("no_exit", {"waited_s": exit_s}))
        if now_s > _hang_after_s(state, running):
            idle_s = now_s - running.last_activity_s
            return Stop(process, "timeout", Reason("idle", {"idle_s": idle_s}))
    return None


def _exit_limit(running: ProcessState) -> tuple[float, float]:
    """Since when a process need only end, never for one with tests left, and how long it may."""
    if running.thread_left_s is not None:
        return running.thread_left_s, min(max(THREAD_S[0], running.longest_s), THREAD_S[1])
    return NO_TIME_S if running.done_s is None else running.done_s, EXIT_S


def _hang_after_s(state: State, running: ProcessState) -> float:
    """When a process that is at no unit, and has some left, is taken for one that hangs.

    Before its first unit, at an import, and between two, where workers wait for each other. Only
    where each unit has a limit: no unit may then take as long as what is none. And only where all
    of them are announced: else it may be at one.
    """
    unit = running.next_unit()
    if running.open_units or unit is None or not state.file_of(unit):
        return float("inf")
    return running.last_activity_s + max(EXIT_S, running.longest_s)


def _next_moment_s(state: State, now_s: float) -> float | None:
    deadline_s, for_s = state.policy.deadline_s, state.for_s
    moments = [] if deadline_s is None else [state.began_s + deadline_s]
    if now_s < state.memory_back_s:
        moments.append(state.memory_back_s)
    if for_s is not None and now_s < state.began_s + for_s:
        moments.append(state.began_s + for_s)
    elif now_s < _grace_ends_s(state) < float("inf"):
        moments.append(_grace_ends_s(state))
    for running in state.running.values():
        if running.stopping is None and sum(_exit_limit(running)) < NO_TIME_S:
            moments.append(sum(_exit_limit(running)))
        if running.stopping is None and _hang_after_s(state, running) < float("inf"):
            moments.append(_hang_after_s(state, running))
        for unit, at_s in running.open_units.items():
            limit_s = state.units[unit].timeout_s
            if limit_s is not None:
                moments.append(at_s + limit_s)  # never, where the start has no time
    return min(moments) if moments else None


def _grace_ends_s(state: State) -> float:
    """When a step no longer waits for what runs; never where one before it has not waited."""
    if state.for_s is None or state.grace_used:
        return float("inf")
    return state.began_s + state.for_s * (1 + CHECKPOINT_GRACE_RATIO)


def _checkpoint(state: State, now_s: float) -> Action | None:
    """Behind the time that was asked for nothing is begun, and what runs may end, for a while.

    What goes on to other units is stopped at once: it has just begun one, so little is lost.
    """
    if state.for_s is None or now_s < state.began_s + state.for_s:
        return None
    ahead = {
        process: running.unstarted_units()
        for process, running in sorted(state.running.items())
        if running.stopping is None and not running.start.repeats
    }
    left = len(state.waiting) + sum(map(len, ahead.values()))
    late = bool(ahead) and now_s >= _grace_ends_s(state)
    if not left and not late:
        return None
    reason = Reason("checkpoint", {"limit_s": state.for_s, "units": left})
    if "checkpoint" not in state.warned:
        return Warn(reason)
    for process, units in ahead.items():
        if late:
            why = Reason("checkpoint_grace", {"limit_s": state.for_s})
            return Stop(process, "deadline", why, checkpoint=True)
        if units and not state.running[process].recycled:
            return Recycle(process, reason)
    if state.running:
        return Wait(_next_moment_s(state, now_s))
    # A later step takes a unit with a result for done: what went wrong is executed again in this.
    return _next_rerun(state, now_s) or Finish("deadline", reason, checkpoint=True)


def _claim(state: State, now_s: float) -> Action | None:
    """Ask for a block when the last unit of what runs begins: it comes while that runs."""
    if state.claims.status != "open" or state.waiting or state.awaits_listing:
        return None
    if state.fruitless_processes >= MAX_FRUITLESS_PROCESSES:
        return None  # what no process of this leg can run, others may
    ready_s = 0.0
    if len(state.busy) >= state.processes:
        last = [running for running in state.busy.values() if running.is_at_last_unit()]
        if not last:
            return None
        ready_s = min(_left_s(state, running, now_s) for running in last)
    reason = Reason("next_block", {"ready_s": ready_s} if ready_s else {})
    return Claim(reason, ready_s, _done_s(state), state.remaining_s(now_s))


def _done_s(state: State) -> float:
    """What was predicted for the units that are over, over the leg's processes."""
    over = set(state.tries).union(*(running.finished for running in state.running.values()))
    return sum(state.units[unit].wall_s for unit in over) / state.processes


def _left_s(state: State, running: ProcessState, now_s: float) -> float:
    """How long what a process is at is predicted to take from now on."""
    left = (
        state.units[unit].wall_s - max(0.0, now_s - at_s)
        for unit, at_s in running.open_units.items()
        if at_s < float("inf")
    )
    return max(0.0, max(left, default=0.0))


def _next_rerun(state: State, now_s: float) -> Action | None:
    """What is executed again comes last: every unit runs once before."""
    if not state.reruns or not has_free_slot(state):
        return None
    if awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    one = state.reruns[0]
    if why := one.skip_reason(state.remaining_s(now_s)):
        return Warn(why)
    start = start_of(state, one.units, one.reason, isolated=one.isolated)
    start = replace(start, repeats=one.repeats)
    fits = not one.isolated and start.predicted_peak_bytes <= free_bytes(state)
    return start if fits or not state.running else None


def _admission(state: State, now_s: float) -> Action | None:
    if state.awaits_listing:
        if awaiting_freed_memory(state, now_s):
            return Wait(_next_moment_s(state, now_s))
        return admit_listing(state)
    if not state.waiting and state.idle is None:
        return _next_rerun(state, now_s) if state.claims.status == "over" else None
    if not has_free_slot(state):
        return None
    if awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    return admit(state)


def _ending(state: State) -> Action | None:
    if state.running or state.claims.status == "asked":
        return None
    held = [unit for units in state.claims.held.values() for unit in units]
    left = len({*state.waiting, *held} - state.tries.keys())
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
    not_retried = {*state.waiting, *(unit for one in state.reruns for unit in one.units)}
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
    """The record's line of a decision; None for Wait, which decides nothing, and for Finish.

    Its `detail`, which is for people, is left to who writes it.

    Args:
        lines_read: by file of the record, how many of its lines were observed before.
        units: of the shard, to name the one that a Stop blames.
    """
    if isinstance(action, (Wait, Finish)):
        return None
    if isinstance(action, Assign):
        start = action.start
        facts = {"units": len(start.units), **start.reason.facts}
        return EventLine(
            "assigned",
            at_s,
            start.process,
            lines_read=lines_read,
            reason=start.reason.kind,
            facts=facts,
        )
    reason = action.reason
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
    if isinstance(action, Warn):
        kind = cast("EventKind", reason.kind)
    elif isinstance(action, Claim):
        kind = "claim_asked"
    else:
        kind = action.ending if isinstance(action, Stop) else "recycled"
    line = EventLine(kind, at_s, lines_read=lines_read, reason=reason.kind, facts=reason.facts)
    if isinstance(action, (Warn, Claim)):
        return line
    if isinstance(action, Recycle) or action.unit is None or not units:
        return replace(line, process=action.process)
    suite, variant, unit = units[action.unit].key
    return replace(line, process=action.process, suite=suite, variant=variant, unit=unit)
