"""What a plan takes from the history: estimates, overheads, candidate sets, capacity, the base."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ciguard.codec import plan_file
from ciguard.errors import CiguardError
from ciguard.history.runs import UNDATED
from ciguard.history.stores import load, open_store
from ciguard.model import PlanNote
from ciguard.plan.base_plan import (
    base_count_of_history,
    base_count_of_plan,
    from_history,
    from_plan,
)
from ciguard.plan.estimates import Estimates, Observations, estimate_units, no_observations
from ciguard.plan.loss_isolation import CandidateSet, candidate_sets
from ciguard.plan.observations import (
    join_history,
    map_keys,
    renamed_suites,
    with_observed_capacity,
    with_process_costs,
)
from ciguard.plan.overheads import Overheads, observe_overheads
from ciguard.plan.problem import NO_OVERHEADS
from ciguard.plan.timeouts import max_fixture_s
from ciguard.run.frameworks.registry import framework
from ciguard.sources import local

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ciguard.history.base import BaseQuery
    from ciguard.history.file import History
    from ciguard.model import Pool, Suite
    from ciguard.plan.base_plan import BaseCount, BasePlan
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


class HistorySource(NamedTuple):
    """What to read.

    Attributes:
        location: of the history.
        base_plan: a plan file, or "history" for the newest complete run; None for no base.
        query: what selects the base's runs.
    """

    location: str
    base_plan: str | None
    query: BaseQuery


@dataclass(frozen=True, slots=True)
class Past:
    """What a plan takes from the history and from the base's plan."""

    inputs: HistoryInputs
    base: BasePlan | None
    base_count: BaseCount | None
    notes: tuple[PlanNote, ...]


def read_past(
    inventory: Inventory,
    source: HistorySource,
    *,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    folder: Path,
    environ: Mapping[str, str],
) -> Past:
    """Read the history, which is most of what is in memory until this returns.

    A history that is lost, damaged or newer must not keep all runs from being planned until
    somebody repairs it: without one a plan is worse, and still right.

    Raises:
        CiguardError: the base's plan cannot be read.
    """
    location, base_plan, query = source
    history, notes = None, [PlanNote("history_missing", {"location": location})]
    try:
        loaded = load(open_store(location, folder, environ))
    except CiguardError as error:
        problem = f"{error.what} (fix: {error.fix})" if error.fix else error.what
        notes = [PlanNote("history_unusable", {"location": location, "problem": problem})]
    else:
        history = loaded.history if loaded.exists else None
    base, count = None, None
    if base_plan is not None and base_plan != "history":
        found = plan_file.decode(local.read(base_plan), base_plan)
        base, count = from_plan(found), base_count_of_plan(found)
    elif history is not None:
        base = from_history(history) if base_plan is not None else None
        count = base_count_of_history(history, query, suites)
    ancestors = ancestor_functions(suites)
    inputs = history_inputs(
        history, location, inventory, suites=suites, pools=pools, ancestors=ancestors
    )
    if history is not None:
        notes = list(inputs.notes)
    if base_plan is not None and base is None:
        notes.append(PlanNote("base_missing"))
    return Past(inputs, base, count, tuple(notes))


def ancestor_functions(suites: Mapping[str, Suite]) -> dict[str, Ancestors]:
    """By suite, its framework's names of the groups of a unit."""
    return {name: framework(suite.framework).ancestors for name, suite in suites.items()}
