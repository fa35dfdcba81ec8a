"""Guard rail: the process to stop before the machine runs out of memory, and the moment. Pure."""

from __future__ import annotations

from typing import Final

from ciguard.run.policy.actions import Action, Reason, Stop, Warn
from ciguard.run.policy.state import MIB, State

SAMPLES: Final = 2  # a single low sample may be chance
LOW_BYTES, LOW_RATIO = 600 * MIB, 0.05  # headroom below which a warning is due
CRITICAL_BYTES, CRITICAL_RATIO = 256 * MIB, 0.015  # headroom below which the runner dies next
# Largest thresholds, as shares of memory: a test that fits a small container must not be stopped.
LOW_SHARE, CRITICAL_SHARE = 0.25, 0.125
EXHAUSTED_SHARE: Final = 0.125  # of the critical threshold: steady headroom below is exhausted
HELPFUL_RATIO: Final = 0.05  # of the machine's memory: the end of so large a process always helps


def kill_helps(size_bytes: int, missing_bytes: float, memory_bytes: int) -> bool:
    """Return whether the end of a process of this size frees enough, or a large part, of memory."""
    large = HELPFUL_RATIO * memory_bytes if memory_bytes else float("inf")
    return size_bytes >= min(missing_bytes, large)


def memory_thresholds(memory_bytes: int) -> tuple[float, float]:
    """Return the low and the critical threshold of headroom, in bytes.

    Args:
        memory_bytes: memory of the machine or of its tightest cgroup; 0 if not known.
    """
    most = memory_bytes or float("inf")
    low = max(LOW_BYTES, LOW_RATIO * memory_bytes)
    critical = max(CRITICAL_BYTES, CRITICAL_RATIO * memory_bytes)
    return min(low, LOW_SHARE * most), min(critical, CRITICAL_SHARE * most)


def guard_rail(state: State) -> Action | None:
    """Warn after two samples below a threshold; stop the largest process if its end helps.

    A process is stopped only while the headroom falls, or if the headroom is exhausted.
    """
    rail = state.policy.guard_rail
    if rail == "off" or not state.running or len(state.headrooms) < SAMPLES:
        return None
    (_, before), (_, now) = state.headrooms
    memory = state.memory_bytes or 0
    low, critical = memory_thresholds(memory)
    kill_below = {"observe": 0.0, "auto": critical, "enforce": low}[rail]
    is_falling = now < before or (now == before and now < EXHAUSTED_SHARE * critical)
    if max(before, now) < kill_below and is_falling:
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


def awaiting_freed_memory(state: State, now_s: float) -> bool:
    """Return whether a process was just killed for memory, and its memory is not free yet."""
    if state.policy.guard_rail == "off" or now_s >= state.memory_back_s:
        return False
    return (
        not state.headrooms
        or state.headrooms[-1][1] < memory_thresholds(state.memory_bytes or 0)[0]
    )
