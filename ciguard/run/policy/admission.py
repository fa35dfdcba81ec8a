"""Which units the next process gets. Pure.

A process's predicted peak has to fit into what the running ones leave of the memory budget; a unit
that needs over half of the budget runs alone. Standard library only, Python 3.8+ (travels in the
leg).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Sequence

from ciguard.run.policy.actions import Action, Assign, Reason, ReasonKind, Start
from ciguard.run.policy.bisect import bisect
from ciguard.run.policy.recycling import process_limit_bytes
from ciguard.run.policy.state import predicted_peak_bytes, unit_peaks_bytes

if TYPE_CHECKING:
    from ciguard.run.policy.state import State

# Processes in a row without one finished unit: the fourth would not do better.
MAX_FRUITLESS_PROCESSES: Final = 3


def free_bytes(state: State) -> float:
    """What of the budget no running process is predicted to take; infinite without a budget."""
    if state.budget_bytes is None:
        return float("inf")
    taken = sum(running.start.predicted_peak_bytes for running in state.busy.values())
    return state.budget_bytes - taken


def has_free_slot(state: State) -> bool:
    """Return whether another process may start now, memory apart."""
    return (
        len(state.busy) < state.processes
        and state.fruitless_processes < MAX_FRUITLESS_PROCESSES
        and not any(running.start.isolated for running in state.running.values())
    )


def admit_listing(state: State) -> Start | None:
    """The process that lists what exists, and waits for its units; one at a time."""
    if state.running or state.cannot_list or not has_free_slot(state):
        return None
    suite, variant = state.suite_key
    base_bytes = state.base_bytes[suite]
    return Start(state.started + 1, (), suite, variant, base_bytes, Reason("listing"))


def admit(state: State) -> Action | None:
    """The next process, or the units of the one that has listed."""
    start = _admit_units(state) if state.waiting else None
    if state.idle is None:
        return start
    listing = state.running[state.idle].start
    # Without units it ends: what waits then is for processes with more memory.
    given = replace(listing, reason=Reason("first")) if start is None else start
    return Assign(replace(given, process=state.idle))


def _admit_units(state: State) -> Start | None:
    """Of the suite of the first waiting unit: a large unit alone, or a share."""
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


def start_of(
    state: State, units: Sequence[int], reason: Reason, *, isolated: bool = False
) -> Start:
    """The start of one process that runs these units."""
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
    """Return whether a unit needs over half of the budget, and most of that itself.

    Where a process that does nothing yet takes as much, no process of its own makes it less.
    """
    need = state.need_bytes(unit)
    base = state.base_bytes[state.units[unit].suite]
    return state.budget_bytes is not None and 2 * need > state.budget_bytes and need > 2 * base


def _admit_heavy(state: State, heavy: Sequence[int]) -> Start | None:
    """A unit over a process's share gets one of its own, and over half of the budget runs alone.

    What is off by a tenth is then no harm to others, who are not there.
    """
    free = int(free_bytes(state)) if heavy else 0
    for unit in heavy:
        need = state.need_bytes(unit)
        if need > free or (state.busy and _needs_over_half(state, unit)):
            continue
        alone = _needs_over_half(state, unit)
        reason = Reason("heavy", {"need_bytes": need, "free_bytes": free})
        return start_of(state, [unit], reason, isolated=alone)
    if state.busy or not heavy:
        return None
    need = state.need_bytes(heavy[0])
    reason = Reason("over_budget", {"need_bytes": need})
    return start_of(state, heavy[:1], reason, isolated=True)


def _admit_share(state: State, group: Sequence[int], heavy: set[int]) -> Start | None:
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
        share = _longest_first_share(state, light, state.processes - len(state.busy))
    cap = process_limit_bytes(state)
    fitting: list[int] = []
    for unit, peak_bytes in zip(share, unit_peaks_bytes(state, share)):
        if fitting and peak_bytes > cap:
            break
        fitting.append(unit)
    kind: ReasonKind = "first" if state.started == (state.idle or 0) else "next"
    facts: dict[str, float] = {}
    if suspects:
        kind, facts["units"] = "search", len(suspects)
    if len(fitting) < len(share):
        facts.update(later_units=len(share) - len(fitting), limit_bytes=int(cap))
    start = start_of(state, fitting, Reason(kind, facts))
    return start if start.predicted_peak_bytes <= free_bytes(state) or not state.busy else None


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
