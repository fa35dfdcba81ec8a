"""Recycling: a fresh process replaces one whose retained memory would pass its limit. Pure."""

from __future__ import annotations

from typing import Final

from ciguard.run.policy.actions import Action, Reason, Recycle
from ciguard.run.policy.state import MIB, State

MARGIN_RATIO: Final = 0.10  # of the budget, kept free below the limits of the processes ...
MARGIN_BYTES: Final = 100 * MIB  # ... and never less than this


def process_limit_bytes(state: State) -> float:
    """Return the size that each of the shard's processes may reach; infinite without a budget."""
    if state.budget_bytes is None:
        return float("inf")
    usable = state.budget_bytes - max(MARGIN_RATIO * state.budget_bytes, MARGIN_BYTES)
    return max(usable, state.budget_bytes / 2) / state.processes


def recycle(state: State) -> Action | None:
    """Recycle a process whose next unit would pass the limit, if the unit fits a fresh process."""
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
