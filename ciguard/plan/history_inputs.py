"""What a plan takes from the history: estimates, overheads, candidate sets, capacity. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ciguard.codec.history_runs import UNDATED
from ciguard.model import PlanNote
from ciguard.plan.estimates import Estimates, Observations, estimate_units, no_observations
from ciguard.plan.loss_isolation import CandidateSet, candidate_sets
from ciguard.plan.observations import (
    join_history,
    map_keys,
    renamed_suites,
    with_process_costs,
)
from ciguard.plan.overheads import Overheads, observe_overheads
from ciguard.plan.pools import with_observed_capacity
from ciguard.plan.problem import NO_OVERHEADS
from ciguard.plan.timeouts import max_fixture_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.codec.history import History
    from ciguard.model import Pool, Suite
    from ciguard.plan.inventory import Ancestors, Inventory


@dataclass(frozen=True, slots=True)
class HistoryInputs:
    """What a plan takes from the history; `history_json` goes into the plan file."""

    observations: Observations
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    history_json: Mapping[str, Any]
    notes: tuple[PlanNote, ...] = ()
    overheads: Overheads = NO_OVERHEADS
    candidate_sets: tuple[CandidateSet, ...] = ()
    setups_s: Mapping[str, float] = field(default_factory=dict)


def history_inputs(
    history: History | None,
    location: str,
    inventory: Inventory,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    ancestors: Mapping[str, Ancestors],
) -> HistoryInputs:
    """What the history knows of the inventory's units; without one, all are estimated alike."""
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    count = len(inventory.units)
    if history is None:
        rows = no_observations()
        values = estimate_units(rows, count, names, members)
        return HistoryInputs(rows, values, suites, pools, {"source": None, "runs": 0})
    where = map_keys(history, inventory)
    rows, share = join_history(history, inventory, where)
    values = estimate_units(rows, count, names, members)
    unrelated = PlanNote("history_unrelated", {"location": location})
    history_json: dict[str, Any] = {
        "source": location,
        "runs": len(history.runs),
        "entries": share.entries,
        "matched": share.matched,
        "units_with_history": int(values.has_history.sum()),
    }
    if history.runs and history.runs[-1].at > UNDATED:
        history_json["newest"] = history.runs[-1].at.isoformat()
    return HistoryInputs(
        observations=rows,
        estimates=values,
        suites=with_process_costs(suites, history),
        pools=with_observed_capacity(pools, history),
        history_json=history_json,
        notes=(
            *(() if values.has_history.any() else (unrelated,)),
            *renamed_suites(history, inventory),
        ),
        overheads=observe_overheads(history, inventory, where.unit_of_key),
        candidate_sets=candidate_sets(history, inventory, where.unit_of_key),
        setups_s=max_fixture_s(history),
    )
