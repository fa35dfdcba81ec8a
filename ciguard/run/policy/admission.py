"""Selection of the units for the next process, by memory and time. Pure.

The predicted peak of a process must fit into the memory budget minus the peaks of the running
processes. A unit that needs over half of the budget runs alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Sequence

from ciguard.run.policy.actions import Action, Assign, Reason, ReasonKind, Start
from ciguard.run.policy.bisect import bisect
from ciguard.run.policy.recycling import process_limit_bytes
from ciguard.run.policy.state import State, predicted_peak_bytes, unit_peaks_bytes

# After so many processes in a row without a finished unit, the leg starts no further process.
MAX_FRUITLESS_PROCESSES: Final = 3


def free_bytes(state: State) -> float:
    """Return the budget minus the predicted peaks of running processes; infinite if unlimited."""
    if state.budget_bytes is None:
        return float("inf")
    taken = sum(running.start.predicted_peak_bytes for running in state.busy.values())
    return state.budget_bytes - taken


def has_free_slot(state: State) -> bool:
    """Return whether another process may start now, if memory is ignored."""
    return (
        len(state.busy) < state.processes
        and state.fruitless_processes < MAX_FRUITLESS_PROCESSES
        and not any(running.start.isolated for running in state.running.values())
    )


def admit_listing(state: State) -> Start | None:
    """Start the process that lists the units and then waits for its share."""
    if state.running or state.cannot_list or not has_free_slot(state):
        return None
    suite, variant = state.suite_key
    base_bytes = state.base_bytes[suite]
    return Start(state.started + 1, (), suite, variant, base_bytes, Reason("listing"))


def admit(state: State) -> Action | None:
    """Start the next process, or assign units to the process that has listed."""
    start = _admit_units(state) if state.pending else None
    if state.idle is None:
        return start
    if start is None:
        # The waiting process gets no units and ends: pending units need the memory that it holds.
        start = replace(state.running[state.idle].start, reason=Reason("first"))
    return Assign(replace(start, process=state.idle))


def _admit_units(state: State) -> Start | None:
    """Start a heavy unit, or a share, of the suite and variant of the first pending unit."""
    units = state.units
    suite, variant = units[state.pending[0]].suite, units[state.pending[0]].variant
    group = [
        unit
        for unit in state.pending
        if units[unit].suite == suite and units[unit].variant == variant
    ]
    limit = process_limit_bytes(state)
    heavy = [
        unit for unit in group if state.need_bytes(unit) > limit or _needs_over_half(state, unit)
    ]
    return _admit_heavy(state, heavy) or _admit_share(state, group, set(heavy))


def start_of(
    state: State, units: Sequence[int], reason: Reason, *, isolated: bool = False
) -> Start:
    """Return the start of the next process, which runs these units."""
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
    """Return whether a unit needs over half of the budget, mostly for itself.

    If an idle process of the suite already takes as much, a separate process would need no less.
    """
    need = state.need_bytes(unit)
    base = state.base_bytes[state.units[unit].suite]
    return state.budget_bytes is not None and 2 * need > state.budget_bytes and need > 2 * base


def _admit_heavy(state: State, heavy: Sequence[int]) -> Start | None:
    """Start a heavy unit in a separate process; alone, if it needs over half of the budget.

    If the estimate of a unit that runs alone is too low, no other process suffers.
    """
    free = int(free_bytes(state)) if heavy else 0
    for unit in heavy:
        need = state.need_bytes(unit)
        if need > free or (state.busy and _needs_over_half(state, unit)):
            continue
        reason = Reason("heavy", {"need_bytes": need, "free_bytes": free})
        return start_of(state, [unit], reason, isolated=_needs_over_half(state, unit))
    if state.busy or not heavy:
        return None
    need = state.need_bytes(heavy[0])
    reason = Reason("over_budget", {"need_bytes": need})
    return start_of(state, heavy[:1], reason, isolated=True)


def _admit_share(state: State, group: Sequence[int], heavy: set[int]) -> Start | None:
    """Start a share of the light units, cut where the process would exceed its memory limit."""
    light = [unit for unit in group if unit not in heavy] if heavy else list(group)
    if not light:
        return None
    light_set = set(light)
    suspects = [unit for unit in state.suspects if unit in light_set]
    share = _suspects_share(state, suspects) if suspects else _share(state, light)
    limit = process_limit_bytes(state)
    fitting: list[int] = []
    for unit, peak_bytes in zip(share, unit_peaks_bytes(state, share)):
        if fitting and peak_bytes > limit:
            break
        fitting.append(unit)
    kind: ReasonKind = "first" if state.started == (state.idle or 0) else "next"
    facts: dict[str, float] = {}
    if suspects:
        kind, facts["units"] = "search", len(suspects)
    if len(fitting) < len(share):
        facts.update(later_units=len(share) - len(fitting), limit_bytes=int(limit))
    start = start_of(state, fitting, Reason(kind, facts))
    return start if start.predicted_peak_bytes <= free_bytes(state) or not state.busy else None


def _suspects_share(state: State, suspects: Sequence[int]) -> Sequence[int]:
    """Return half of the units that may have killed a process, or of their files.

    After each fruitless process the half is taken from the other end: culprits often lie together,
    and three fruitless processes in a row end the leg.
    """
    file_of = state.file_of if state.bisects_files else lambda unit: ""  # noqa: ARG005
    is_second_half = bool((state.fruitless_processes + state.crashing_files) % 2)
    return bisect(suspects, file_of, second_half=is_second_half)


def _share(state: State, light: Sequence[int]) -> Sequence[int]:
    """Return a share for one of the free slots; after many crashing files, the units of one file.

    If most of the remaining files kill their process, one file a process is cheaper than bisection.
    """
    file = state.file_of(light[0])
    if state.crashing_files >= MAX_FRUITLESS_PROCESSES and file:
        return [unit for unit in light if state.file_of(unit) == file]
    return _longest_first_share(state, light, state.processes - len(state.busy))


def _longest_first_share(state: State, units: Sequence[int], slots: int) -> list[int]:
    """Return one of `slots` shares of equal time (longest first, ties by position), in order."""
    if slots <= 1:
        return list(units)
    loads = [0.0] * slots
    shares: list[list[int]] = [[] for _ in range(slots)]
    for unit in sorted(units, key=lambda unit: (-state.units[unit].wall_s, unit)):
        # Ties go to the share with fewer units, because without history all times may be 0.
        slot = min(range(slots), key=lambda slot: (loads[slot], len(shares[slot])))
        loads[slot] += state.units[unit].wall_s
        shares[slot].append(unit)
    return sorted(shares[0])
