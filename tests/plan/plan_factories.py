"""Plans from literals, for the tests of what is done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.model import Pool, Suite, Variant
from ciguard.plan.declared_needs import NO_NEEDS, DeclaredNeeds
from ciguard.plan.estimates import Estimates
from ciguard.plan.inventory import inventory
from ciguard.plan.loss_isolation import CandidateSet
from ciguard.plan.overheads import Overheads
from ciguard.plan.planner import PlanResult, Provenance, plan
from ciguard.plan.problem import NO_OVERHEADS, PlanInputs, PlanOptions
from ciguard.plan.risk import UnitMemory
from ciguard.plan.time_limits import time_limits
from ciguard.run.policy.state import UNKNOWN_DELTA_BYTES

GIB = 1 << 30
POOLS = {
    "linux": Pool("ubuntu-latest", cpus=2, memory_bytes=8 * GIB, reserve_bytes=GIB),
    "large": Pool(["self-hosted", "large"], memory_bytes=64 * GIB, reserve_bytes=GIB),
}


def suite(setup_s: float = 0.0, base_bytes: int | None = None, *variants: str) -> Suite:
    names = variants or ("",)
    return Suite(
        framework="command",
        command=("run", "{units_file}"),
        variants={name: Variant() for name in names},
        setup_s=setup_s,
        base_bytes=base_bytes,
    )


def ancestors(unit: str) -> tuple[str, ...]:
    """`file::Class::test`, from the nearest."""
    parts = unit.split("::")
    return (*("::".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)), "")


def planned(
    walls_s: Mapping[str, float] | Sequence[tuple[InventoryUnit, float]],
    *,
    suites: Mapping[str, Suite] | None = None,
    peaks: Mapping[str, int] | None = None,
    retained: Mapping[str, int] | None = None,
    ordered: bool = True,
    known: bool = True,
    spread: float = 0.0,
    limit_s: float = 2700.0,
    origin: Provenance | None = None,
    pool_of: Mapping[str, str] | None = None,
    pools: Mapping[str, Pool] | None = None,
    overheads: Overheads = NO_OVERHEADS,
    candidate_sets: Sequence[CandidateSet] = (),
    declared: DeclaredNeeds = NO_NEEDS,
    **options: Any,
) -> PlanResult:
    """A plan of units whose times are given; they neither vary nor meet slow machines."""
    suites = {"": suite()} if suites is None else suites
    pairs = (
        walls_s
        if not hasattr(walls_s, "items")
        else [(InventoryUnit(unit), wall_s) for unit, wall_s in walls_s.items()]
    )
    found = inventory([unit for unit, _ in pairs], exclude={}, ordered=ordered)
    by_key = {unit.key: wall_s for unit, wall_s in pairs}
    nan = float("nan")

    def column(values: Mapping[str, int] | None) -> Any:
        return np.array([(values or {}).get(key.unit, nan) for key in found.keys], np.float64)

    count = len(found.units)
    return plan(
        PlanInputs(
            inventory=found,
            estimates=Estimates(
                wall_s=np.array([by_key[key] for key in found.keys]),
                variance_s2=np.zeros(count),
                peak_delta_bytes=column(peaks),
                has_history=np.full(count, known),
                speed_spread=spread,
                memory=UnitMemory(
                    np.where(np.isnan(column(peaks)), UNKNOWN_DELTA_BYTES, column(peaks)),
                    np.zeros(count),
                    column(retained),
                ),
            ),
            suites=suites,
            pools=POOLS if pools is None else pools,
            overheads=overheads,
            candidate_sets=candidate_sets,
            declared=declared,
        ),
        PlanOptions(
            limit=time_limits(limit_s, 300.0),
            pool_of=dict.fromkeys(suites, "linux") if pool_of is None else pool_of,
            **options,
        ),
        origin or Provenance(),
    )
