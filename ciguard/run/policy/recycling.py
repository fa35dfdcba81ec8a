"""Memory limit of a process: its recycling before the limit, and the number of workers. Pure.

Recycling ends a process after its current unit; a fresh process runs the remaining units.
"""

from __future__ import annotations

from itertools import chain, repeat
from typing import Final, Iterable, Sequence

from ciguard.run.policy.actions import Action, Reason, Recycle
from ciguard.run.policy.state import MIB, UNKNOWN_DELTA_BYTES, State

MARGIN_RATIO: Final = 0.10  # of the budget, kept free below the limits of the processes ...
MARGIN_BYTES: Final = 100 * MIB  # ... and never less than this


def process_limit_bytes(state: State) -> float:
    """Return the size that each process of the shard may reach; infinite without a budget."""
    if state.budget_bytes is None:
        return float("inf")
    usable = state.budget_bytes - max(MARGIN_RATIO * state.budget_bytes, MARGIN_BYTES)
    return max(usable, state.budget_bytes / 2) / state.processes


def recycle(state: State) -> Action | None:
    """Recycle a process whose next unit would exceed the limit, but fits a fresh process."""
    limit = process_limit_bytes(state)
    for process, running in sorted(state.running.items()):
        if running.stopping or running.recycled or running.resident_bytes is None:
            continue
        unit = running.next_unit()
        if unit is None or not running.finished:
            continue
        need = state.need_bytes(unit)
        delta = need - state.base_bytes[running.start.suite]
        if running.resident_bytes + delta > limit >= need:
            sizes = {"resident_bytes": running.resident_bytes, "next_bytes": delta}
            return Recycle(process, Reason("retained_memory", {**sizes, "limit_bytes": int(limit)}))
    return None


MOST: Final = 1024  # workers; no tool starts more


def count_fitting(limit_bytes: float, worker_bytes: int, peaks: Iterable[int | None]) -> int:
    """Return how many workers fit if the largest tests run at once, from 0 to `MOST`.

    Args:
        worker_bytes: memory of a worker without a test; 0 if the tests share one process.
        peaks: peaks of the tests above `worker_bytes`; None for the default.
    """
    deltas = (UNKNOWN_DELTA_BYTES if peak is None else peak for peak in peaks)
    taken_bytes = 0
    for count, delta in zip(range(MOST), chain(sorted(deltas, reverse=True), repeat(0))):
        taken_bytes += worker_bytes + delta
        if taken_bytes > limit_bytes:
            return count
    return MOST


def exceeds_side_by_side(state: State, suite: str, count: int) -> bool:
    """Return whether the `count` largest units of a suite together exceed a process's limit."""
    peaks = [unit.peak_delta_bytes for unit in state.units if unit.suite == suite]
    free_bytes = process_limit_bytes(state) - state.base_bytes[suite]
    is_measured = any(peak is not None for peak in peaks)
    return is_measured and count_fitting(free_bytes, 0, peaks) < min(count, len(peaks))


def fitting_workers(state: State, units: Sequence[int]) -> int | None:
    """Return how many workers of a process with these units fit into its limit, at least 1.

    The process that directs the workers takes at most the base of one worker. The memory that a
    test retains stays in one worker, for any number of workers. None without a memory budget, or if
    no unit was measured.
    """
    planned = [state.units[unit] for unit in units]
    peaks = [unit.peak_delta_bytes for unit in planned]
    if state.budget_bytes is None or all(peak is None for peak in peaks):
        return None
    base_bytes = state.base_bytes[planned[0].suite]
    retained_bytes = sum(max(0, unit.retained_bytes or 0) for unit in planned)
    free_bytes = process_limit_bytes(state) - base_bytes - retained_bytes
    return max(1, count_fitting(free_bytes, base_bytes, peaks))
