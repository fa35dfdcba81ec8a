"""What a plan takes from the history: estimates, overheads, candidate sets, capacity. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ciguard.codec.history_runs import UNDATED
from ciguard.model import PlanNote
from ciguard.plan.estimates import Estimates, Observations, estimate_units, no_observations
from ciguard.plan.loss_isolation import CandidateSet, candidate_sets
from ciguard.plan.observations import (
    JoinCoverage,
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
    from ciguard.plan.base_plan import BaseCount, BasePlan
    from ciguard.plan.inventory import Ancestors, Inventory


@dataclass(frozen=True, slots=True)
class HistoryInputs:
    """What a plan takes from the history; `history_json` is what its answer says of the history."""

    observations: Observations
    estimates: Estimates
    suites: Mapping[str, Suite]
    pools: Mapping[str, Pool]
    history_json: Mapping[str, Any]
    notes: tuple[PlanNote, ...] = ()
    overheads: Overheads = NO_OVERHEADS
    candidate_sets: tuple[CandidateSet, ...] = ()
    setups_s: Mapping[str, float] = field(default_factory=dict)
    base: BasePlan | None = None
    count: BaseCount | None = None


def without_history(
    inventory: Inventory,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    ancestors: Mapping[str, Ancestors],
    bases: tuple[BasePlan | None, BaseCount | None],
    why: PlanNote,
) -> HistoryInputs:
    """All units are estimated alike; `why` there is no history."""
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    observations = no_observations()
    return HistoryInputs(
        observations,
        estimate_units(observations, len(inventory.units), names, members),
        suites,
        pools,
        {"source": None, "runs": 0},
        (why,),
        base=bases[0],
        count=bases[1],
    )


def with_history(
    history: History,
    place: str,
    inventory: Inventory,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    ancestors: Mapping[str, Ancestors],
    bases: tuple[BasePlan | None, BaseCount | None],
) -> tuple[HistoryInputs, JoinCoverage]:
    """What the history knows of the inventory's units, and how much of it that is."""
    names, members = inventory.ancestors(ancestors), inventory.members(ancestors)
    where = map_keys(history, inventory)
    rows, share = join_history(history, inventory, where)
    values = estimate_units(rows, len(inventory.units), names, members)
    notes = []
    if not values.has_history.any():
        notes.append(PlanNote("history_unrelated", {"location": place}))
    notes += renamed_suites(history, inventory)
    history_json: dict[str, Any] = {
        "source": place,
        "runs": len(history.runs),
        "entries": share.entries,
    }
    history_json |= {"matched": share.matched, "units_with_history": int(values.has_history.sum())}
    if history.runs and history.runs[-1].at > UNDATED:
        history_json["newest"] = history.runs[-1].at.isoformat()
    inputs = HistoryInputs(
        observations=rows,
        estimates=values,
        suites=with_process_costs(suites, history),
        pools=with_observed_capacity(pools, history),
        history_json=history_json,
        notes=tuple(notes),
        overheads=observe_overheads(history, inventory, where.unit_of_key),
        candidate_sets=candidate_sets(history, inventory, where.unit_of_key),
        setups_s=max_fixture_s(history),
        base=bases[0],
        count=bases[1],
    )
    return inputs, share


def coverage_text(share: JoinCoverage) -> str:
    """How many entries of the history belong to units of the inventory."""
    part = share.matched / share.entries if share.entries else 1.0
    return f"{share.matched} of its {share.entries} entries ({part:.1%}) are units that exist"
