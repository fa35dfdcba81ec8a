"""When a process gives way to a fresh one, before the memory that it retains is in the way. Pure.

Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ciguard.run.policy.actions import Action, Reason, Recycle
from ciguard.run.policy.state import MIB

if TYPE_CHECKING:
    from ciguard.run.policy.state import State

MARGIN_RATIO: Final = 0.10  # of the budget, kept free where a process is recycled...
MARGIN_BYTES: Final = 100 * MIB  # ... and never less than this


def process_limit_bytes(state: State) -> float:
    """Return what one of the shard's processes may grow to."""
    if state.budget_bytes is None:
        return float("inf")
    usable = state.budget_bytes - max(MARGIN_RATIO * state.budget_bytes, MARGIN_BYTES)
    return max(usable, state.budget_bytes / 2) / state.processes


def recycle(state: State) -> Action | None:
    """Recycle a process whose next unit would pass the limit, where that unit fits a fresh one."""
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
