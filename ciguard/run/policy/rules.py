"""What a leg does next: the rules of admission, recycling, retry, timeout and deadline. Pure.

The supervisor obeys `next_action` and has no rule of its own; the planner simulates a shard with
the same function over estimates. Time comes in as a value. A process's peak is its base + what it
retained so far + the test's own delta: measured, that is 1-2 % off on leaking suites, where base +
largest delta is 28 % too low. Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Mapping, Sequence, cast

from ciguard.model import EventLine, ProcessLine
from ciguard.run.policy.actions import (
    Action,
    Finish,
    Reason,
    Recycle,
    Start,
    Stop,
    Wait,
    Warn,
)
from ciguard.run.policy.bisect import bisect
from ciguard.run.policy.state import (
    MIB,
    State,
    predicted_peak_bytes,
    unit_peaks_bytes,
)

if TYPE_CHECKING:
    from ciguard.model import Ending, EventKind, Line, PlannedUnit
    from ciguard.run.policy.actions import ReasonKind
    from ciguard.run.policy.process_state import ProcessState

MARGIN_RATIO: Final = 0.10  # of the budget, kept free where a process is recycled...
MARGIN_BYTES: Final = 100 * MIB  # ... and never less than this
MAX_FRUITLESS_PROCESSES: Final = (
    3  # in a row without one finished unit: the fourth would not do better
)
SAMPLES: Final = 2  # one low sample is a hiccup
# A thread that never ends keeps a process from its end; what a session tears down takes minutes.
# So does what is imported before its first unit.
EXIT_S: Final = 300.0
LOW_BYTES, LOW_RATIO = 600 * MIB, 0.05  # headroom that is worth a word
CRITICAL_BYTES, CRITICAL_RATIO = 256 * MIB, 0.015  # headroom below which the runner dies next
# Of a small container, no floor takes more: a test that fits into it must not be called too large.
LOW_SHARE, CRITICAL_SHARE = 0.25, 0.125
NOTHING_SHARE: Final = 0.125  # of the last floor: where nothing is left, nothing can fall
HELPFUL_RATIO: Final = 0.05  # of the machine: a process this large is worth killing anyway
# Of its time, what a step waits for what runs: a lost runner then costs two steps' work at most.
# Once only: what is stopped a second time may need more than any step has, and would never end.
CHECKPOINT_GRACE_RATIO: Final = 1.0


def kill_helps(size_bytes: int, missing_bytes: float, memory_bytes: int) -> bool:
    """Whether the end of a process of that size gives back what is missing, or much at all."""
    large = HELPFUL_RATIO * memory_bytes if memory_bytes else float("inf")
    return size_bytes >= min(missing_bytes, large)


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
        or _guard_rail(state)
        or _checkpoint(state, now_s)
        or _recycling(state)
        or _admission(state, now_s)
        or _ending(state)
        or Wait(_next_moment_s(state, now_s))
    )
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
    if limit_s is None or now_s < state.began_s + limit_s or not (state.running or state.waiting):
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
        if running.done_s is not None and now_s - running.done_s > EXIT_S:
            return Stop(process, "timeout", Reason("no_exit", {"waited_s": EXIT_S}))
        if now_s > _hang_after_s(state, running):
            idle_s = now_s - running.last_activity_s
            return Stop(process, "timeout", Reason("idle", {"idle_s": idle_s}))
    return None


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
        if running.done_s is not None and running.stopping is None:
            moments.append(running.done_s + EXIT_S)
        if running.stopping is None and _hang_after_s(state, running) < float("inf"):
            moments.append(_hang_after_s(state, running))
        for unit, at_s in running.open_units.items():
            limit_s = state.units[unit].timeout_s
            if limit_s is not None:
                moments.append(at_s + limit_s)  # never, where the start has no time
    return min(moments) if moments else None


def _guard_rail(state: State) -> Action | None:
    """Two samples in a row below the floor; a kill only while it falls or is out, if it helps."""
    rail = state.policy.guard_rail
    if rail == "off" or not state.running or len(state.headrooms) < SAMPLES:
        return None
    (_, before), (_, now) = state.headrooms
    memory = state.memory_bytes or 0
    low, last_ditch = memory_thresholds(memory)
    kill_below = {"observe": 0.0, "auto": last_ditch, "enforce": low}[rail]
    falls = now < before or (now == before and now < NOTHING_SHARE * last_ditch)
    if max(before, now) < kill_below and falls:
        candidates = [
            (state.process_bytes.get(process, 0), process)
            for process, running in state.running.items()
            if running.stopping is None
        ]
        if candidates:
            size, process = max(candidates)
            facts = {"headroom_bytes": now, "largest_process_bytes": size}
            if kill_helps(size, kill_below - now, memory):
                return Stop(process, "memory_guard", Reason("memory_guard", facts))
            if "memory_not_reclaimable" not in state.warned:
                return Warn(Reason("memory_not_reclaimable", facts))
    if max(before, now) < low and not state.warned & {"memory_low", "memory_not_reclaimable"}:
        return Warn(Reason("memory_low", {"headroom_bytes": now, "limit_bytes": int(low)}))
    return None


def memory_thresholds(memory_bytes: int) -> tuple[float, float]:
    """Headroom that is worth a word, and below which the runner dies next, both in bytes.

    Args:
        memory_bytes: of the machine or of its tightest cgroup; 0 where that is not known.
    """
    most = memory_bytes or float("inf")
    low = max(LOW_BYTES, LOW_RATIO * memory_bytes)
    last_ditch = max(CRITICAL_BYTES, CRITICAL_RATIO * memory_bytes)
    return min(low, LOW_SHARE * most), min(last_ditch, CRITICAL_SHARE * most)


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


def process_limit_bytes(state: State) -> float:
    """What one of the shard's processes may grow to."""
    if state.budget_bytes is None:
        return float("inf")
    usable = state.budget_bytes - max(MARGIN_RATIO * state.budget_bytes, MARGIN_BYTES)
    return max(usable, state.budget_bytes / 2) / state.processes


def _recycling(state: State) -> Action | None:
    """A process whose next unit would pass the cap, where that unit fits a fresh one."""
    cap = process_limit_bytes(state)
    for process, running in sorted(state.running.items()):
        if running.stopping or running.recycled or running.resident_bytes is None:
            continue
        unit = running.next_unit()
        if unit is None or not running.finished:
            continue
        need = state.need_bytes(unit)
        delta = need - state.base_bytes[running.start.suite]
        if running.resident_bytes + delta > cap >= need:
            sizes = {"resident_bytes": running.resident_bytes, "next_bytes": delta}
            return Recycle(process, Reason("retained_memory", {**sizes, "limit_bytes": int(cap)}))
    return None


def _free_bytes(state: State) -> float:
    if state.budget_bytes is None:
        return float("inf")
    taken = sum(running.start.predicted_peak_bytes for running in state.running.values())
    return state.budget_bytes - taken


def _has_free_slot(state: State) -> bool:
    return (
        len(state.running) < state.processes
        and state.fruitless_processes < MAX_FRUITLESS_PROCESSES
        and not any(running.start.isolated for running in state.running.values())
    )


def _awaiting_freed_memory(state: State, now_s: float) -> bool:
    """Whether a process was just killed for memory, and what it held is not there again yet."""
    if state.policy.guard_rail == "off" or now_s >= state.memory_back_s:
        return False
    return (
        not state.headrooms
        or state.headrooms[-1][1] < memory_thresholds(state.memory_bytes or 0)[0]
    )


def _next_rerun(state: State, now_s: float) -> Action | None:
    """What is executed again comes last: every unit runs once before."""
    if not state.reruns or not _has_free_slot(state):
        return None
    if _awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    one = state.reruns[0]
    if why := one.skip_reason(state.remaining_s(now_s)):
        return Warn(why)
    start = _start(state, one.units, one.reason, isolated=one.isolated)
    start = replace(start, repeats=one.repeats)
    fits = not one.isolated and start.predicted_peak_bytes <= _free_bytes(state)
    return start if fits or not state.running else None


def _admission(state: State, now_s: float) -> Action | None:
    if not state.waiting:
        return _next_rerun(state, now_s)
    if not _has_free_slot(state):
        return None
    if _awaiting_freed_memory(state, now_s):
        return Wait(_next_moment_s(state, now_s))
    units = state.units
    suite, variant = units[state.waiting[0]].suite, units[state.waiting[0]].variant
    group = [
        unit
        for unit in state.waiting
        if units[unit].suite == suite and units[unit].variant == variant
    ]
    cap = process_limit_bytes(state)
    heavy = [
        unit for unit in group if state.need_bytes(unit) > cap or _needs_over_half(state, unit)
    ]
    return _admit_heavy(state, heavy) or _admit_share(state, group, set(heavy))


def _start(state: State, units: Sequence[int], reason: Reason, *, isolated: bool = False) -> Start:
    unit = state.units[units[0]]
    return Start(
        process=state.started + 1,
        units=tuple(units),
        suite=unit.suite,
        variant=unit.variant,
        predicted_peak_bytes=predicted_peak_bytes(state, units),
        reason=reason,
        isolated=isolated,
    )


def _needs_over_half(state: State, unit: int) -> bool:
    """Whether a unit needs over half of the budget, and most of that itself.

    Where a process that does nothing yet takes as much, no process of its own makes it less.
    """
    need = state.need_bytes(unit)
    base = state.base_bytes[state.units[unit].suite]
    return state.budget_bytes is not None and 2 * need > state.budget_bytes and need > 2 * base


def _admit_heavy(state: State, heavy: Sequence[int]) -> Action | None:
    """A unit over a process's share gets one of its own, and over half of the budget runs alone.

    What is off by a tenth is then no harm to others, who are not there.
    """
    free = int(_free_bytes(state)) if heavy else 0
    for unit in heavy:
        need = state.need_bytes(unit)
        if need > free or (state.running and _needs_over_half(state, unit)):
            continue
        alone = _needs_over_half(state, unit)
        reason = Reason("heavy", {"need_bytes": need, "free_bytes": free})
        return _start(state, [unit], reason, isolated=alone)
    if state.running or not heavy:
        return None
    need = state.need_bytes(heavy[0])
    reason = Reason("over_budget", {"need_bytes": need})
    return _start(state, heavy[:1], reason, isolated=True)


def _admit_share(state: State, group: Sequence[int], heavy: set[int]) -> Action | None:
    """A fair share of the rest, cut where the process would grow over its cap."""
    light = [unit for unit in group if unit not in heavy] if heavy else list(group)
    if not light:
        return None
    may = set(light)
    suspects = [unit for unit in state.suspects if unit in may]
    if suspects:
        # From the other end each time that one is found and nothing came of it: culprits often lie
        # together, and three in a row end the leg.
        file_of = state.file_of if state.bisects_files else lambda unit: ""  # noqa: ARG005
        share: Sequence[int] = bisect(
            suspects, file_of, back=bool((state.fruitless_processes + state.crashing_files) % 2)
        )
    elif state.crashing_files >= MAX_FRUITLESS_PROCESSES and state.file_of(light[0]):
        # Most of what is left ends its process: to look at each is cheaper than to search.
        share = [unit for unit in light if state.file_of(unit) == state.file_of(light[0])]
    else:
        share = _longest_first_share(state, light, state.processes - len(state.running))
    cap = process_limit_bytes(state)
    fitting: list[int] = []
    for unit, peak_bytes in zip(share, unit_peaks_bytes(state, share)):
        if fitting and peak_bytes > cap:
            break
        fitting.append(unit)
    kind: ReasonKind = "first" if state.started == 0 else "next"
    facts: dict[str, float] = {}
    if suspects:
        kind, facts["units"] = "search", len(suspects)
    if len(fitting) < len(share):
        facts.update(later_units=len(share) - len(fitting), limit_bytes=int(cap))
    start = _start(state, fitting, Reason(kind, facts))
    return start if start.predicted_peak_bytes <= _free_bytes(state) or not state.running else None


def _longest_first_share(state: State, units: Sequence[int], slots: int) -> list[int]:
    """One of `slots` shares of equal time (longest first, ties by position), in shard order."""
    if slots <= 1:
        return list(units)
    loads = [0.0] * slots
    shares: list[list[int]] = [[] for _ in range(slots)]
    for unit in sorted(units, key=lambda unit: (-state.units[unit].wall_s, unit)):
        # Ties go to the share with fewer units: without history all times may be equal, or 0.
        slot = min(range(slots), key=lambda slot: (loads[slot], len(shares[slot])))
        loads[slot] += state.units[unit].wall_s
        shares[slot].append(unit)
    return sorted(shares[0])


def _ending(state: State) -> Action | None:
    if state.running:
        return None
    left = len(set(state.waiting) - state.tries.keys())
    planned = len(state.units)
    if left:
        ending: Ending = "setup_failed" if not state.tries else "crash"
        left += len(state.import_crashed)
        facts = {"processes": MAX_FRUITLESS_PROCESSES, "units": left, "planned_units": planned}
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
    else:
        kind = action.ending if isinstance(action, Stop) else "recycled"
    line = EventLine(kind, at_s, lines_read=lines_read, reason=reason.kind, facts=reason.facts)
    if isinstance(action, Warn):
        return line
    if isinstance(action, Recycle) or action.unit is None or not units:
        return replace(line, process=action.process)
    suite, variant, unit = units[action.unit].key
    return replace(line, process=action.process, suite=suite, variant=variant, unit=unit)
