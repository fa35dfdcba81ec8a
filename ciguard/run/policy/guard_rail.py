"""When memory runs short: the thresholds of the guard rail, and which process it stops. Pure.

Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.run.policy.actions import Action, Reason, Stop, Warn
from ciguard.run.policy.state import MIB

if TYPE_CHECKING:
    from ciguard.run.policy.state import State

SAMPLES: Final = 2  # one low sample is a hiccup
LOW_BYTES, LOW_RATIO = 600 * MIB, 0.05  # headroom that is worth a warning
CRITICAL_BYTES, CRITICAL_RATIO = 256 * MIB, 0.015  # headroom below which the runner dies next
# Of a small container, no floor takes more: a test that fits into it must not be called too large.
LOW_SHARE, CRITICAL_SHARE = 0.25, 0.125
NOTHING_SHARE: Final = 0.125  # of the last floor: where nothing is left, nothing can fall
HELPFUL_RATIO: Final = 0.05  # of the machine: a process this large is worth killing anyway


def kill_helps(size_bytes: int, missing_bytes: float, memory_bytes: int) -> bool:
    """Whether the end of a process of that size gives back what is missing, or much at all."""
    large = HELPFUL_RATIO * memory_bytes if memory_bytes else float("inf")
    return size_bytes >= min(missing_bytes, large)


def memory_thresholds(memory_bytes: int) -> tuple[float, float]:
    """Headroom that is worth a word, and below which the runner dies next, both in bytes.

    Args:
        memory_bytes: of the machine or of its tightest cgroup; 0 where that is not known.
    """
    most = memory_bytes or float("inf")
    low = max(LOW_BYTES, LOW_RATIO * memory_bytes)
    last_ditch = max(CRITICAL_BYTES, CRITICAL_RATIO * memory_bytes)
    return min(low, LOW_SHARE * most), min(last_ditch, CRITICAL_SHARE * most)


def guard_rail(state: State) -> Action | None:
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


def awaiting_freed_memory(state: State, now_s: float) -> bool:
    """Whether a process was just killed for memory, and what it held is not there again yet."""
    if state.policy.guard_rail == "off" or now_s >= state.memory_back_s:
        return False
    return (
        not state.headrooms
        or state.headrooms[-1][1] < memory_thresholds(state.memory_bytes or 0)[0]
    )
