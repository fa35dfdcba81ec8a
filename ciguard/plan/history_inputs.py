"""What a plan takes from the past: estimates, overheads, candidate sets, capacity, the base."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ciguard.history.runs import UNDATED
from ciguard.model import PlanNote
from ciguard.plan.declared_needs import (
    NO_NEEDS,
    DeclaredNeeds,
    contradiction_notes,
    with_declared_peaks,
)
from ciguard.plan.estimates import Observations, estimate_units, no_observations
from ciguard.plan.inventory import base_count_of_history
from ciguard.plan.loss_isolation import candidate_sets
from ciguard.plan.observations import (
    join_history,
    map_keys,
    with_observed_capacity,
    with_process_costs,
)
from ciguard.plan.overheads import observe_overheads
from ciguard.plan.problem import PlanInputs
from ciguard.plan.time_limits import max_fixture_s, unit_timeouts
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.history.query import BaseQuery
    from ciguard.history.stores import LoadedHistory
    from ciguard.model import Pool, Suite
    from ciguard.plan.inventory import BaseCount, Inventory
    from ciguard.plan.time_limits import TimeoutRule


class HistorySource(NamedTuple):
    """A history, and what of it counts.

    Attributes:
        location: of the history.
        query: what selects the base's runs.
    """

    location: str
    query: BaseQuery


@dataclass(frozen=True, slots=True)
class Past:
    """All that a plan is made of; `history_json` goes into the plan file."""

    inputs: PlanInputs
    observations: Observations
    history_json: Mapping[str, Any]
    base_count: BaseCount | None
    notes: tuple[PlanNote, ...]


def history_notes(loaded: LoadedHistory) -> tuple[PlanNote, ...]:
    """Return why a plan is made without a history; none where it has one or asked for none.

    One that is lost, damaged or newer must not keep all runs from being planned until it is
    repaired: without one a plan is worse, and still right.
    """
    if loaded.problem:
        fix = f" (fix: {loaded.fix})" if loaded.fix else ""
        facts = {"location": loaded.location, "problem": f"{loaded.problem}{fix}"}
        return (PlanNote("history_unusable", facts),)
    if loaded.history is None and loaded.location:
        return (PlanNote("history_missing", {"location": loaded.location}),)
    return ()


def read_past(
    inventory: Inventory,
    loaded: LoadedHistory,
    source: HistorySource,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    timeouts: Mapping[str, TimeoutRule],
    declared: DeclaredNeeds = NO_NEEDS,
) -> Past:
    """Take from the history what a plan is made of.

    Args:
        declared: for the inventory's units.
    """
    history, notes = loaded.history, [*history_notes(loaded)]
    count = None
    ancestors = {name: framework(suite.framework).ancestors for name, suite in suites.items()}
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    if history is None:
        rows = no_observations()
        history_json: dict[str, Any] = {"source": None, "runs": 0}
        estimates = estimate_units(rows, len(inventory.units), names, members)
        inputs = PlanInputs(inventory, estimates, suites, pools, ancestors)
        setups_s = {}
    else:
        where = map_keys(history, inventory)
        rows, coverage = join_history(history, inventory, where)
        estimates = estimate_units(rows, len(inventory.units), names, members)
        history_json = {
            "source": loaded.location,
            "runs": len(history.runs),
            "entries": coverage.entries,
            "matched": coverage.matched,
            "units_with_history": int(estimates.has_history.sum()),
        }
        if history.runs and history.runs[-1].at > UNDATED:
            history_json["newest"] = history.runs[-1].at.isoformat()
        if not estimates.has_history.any():
            notes.append(PlanNote("history_unrelated", {"location": loaded.location}))
        inputs = PlanInputs(
            inventory,
            estimates,
            with_process_costs(suites, history),
            with_observed_capacity(pools, history),
            ancestors,
            observe_overheads(history, inventory, where.unit_of_key),
            candidate_sets(history, inventory, where.unit_of_key),
        )
        setups_s = max_fixture_s(history)
        count = base_count_of_history(history, source.query, suites)
    notes += contradiction_notes(inventory.keys, rows, declared)
    limits_s = unit_timeouts(inventory, rows, timeouts, setups_s)
    estimates = with_declared_peaks(estimates, rows, declared)
    inputs = replace(inputs, estimates=estimates, limits_s=limits_s, declared=declared)
    return Past(inputs, rows, history_json, count, tuple(notes))
