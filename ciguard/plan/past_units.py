"""A plan of units of the past, whose legs list what exists now. Pure.

Of a past run, they need no set-up of the project where it is planned. A combination without a past
of its own is planned as a sibling was; without any, its shards are empty, and share by a hash what
they list.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import UsageError
from ciguard.history.query import BaseQuery, base_runs, cases_of_run
from ciguard.model import InventorySummary, Plan, PlanNote, Pool, Prediction, Shard, Suite
from ciguard.plan.allocation import DEFAULT_SHARDS
from ciguard.plan.planner import MIN_KEY_WIDTH, PlanResult, Provenance, encode_plan
from ciguard.plan.problem import MAX_SHARDS, PlanOptions
from ciguard.plan.risk import budget_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.history.file import History

_NO_PREDICTION = Prediction(0.0, 0.0)


def past_units(
    history: History | None, query: BaseQuery, suites: Mapping[str, Suite]
) -> tuple[InventoryUnit, ...]:
    """For each variant of each suite, the units of the newest complete run that has it.

    Where there is none, those of the newest complete run with another variant of the suite.
    O(values of the runs that are looked at).
    """
    if history is None:
        return ()
    wanted = {(name, variant) for name, suite in suites.items() for variant in suite.variants}
    own: dict[tuple[str, str], list[str]] = {}
    of_suite: dict[str, list[str]] = {}
    for position in base_runs(history, query):
        if not history.runs[position].complete:
            continue
        if wanted <= own.keys():
            break
        found: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for suite, variant, unit, _ in cases_of_run(history, position):
            found[suite, variant][unit] = None
        for suite_key, units in found.items():
            own.setdefault(suite_key, list(units))
            of_suite.setdefault(suite_key[0], list(units))
    return tuple(
        InventoryUnit(unit, suite, variant)
        for suite, variant in sorted(wanted)
        for unit in own.get((suite, variant), of_suite.get(suite, []))
    )


def empty_plan(
    options: PlanOptions, origin: Provenance, pools: Mapping[str, Pool], files: tuple[str, ...]
) -> Plan:
    """A plan of no unit, to which `with_listing_shards` adds shards.

    Args:
        files: test files that are there.
    """
    return Plan(
        id="",
        suites={},
        pools=pools,
        policy=replace(options.policy, deadline_s=options.limit.deadline_s),
        shards=(),
        lower_bound_s=0.0,
        gap=0.0,
        inventory=InventorySummary(0, dict.fromkeys(files, 0), hash=""),
        history=origin.history,
        shard_count_limited_by=(PlanNote("requested" if options.shards else "no_timings"),),
        repository=origin.repository,
        workflow=origin.workflow,
        head_sha=origin.head_sha,
        job_minutes=options.limit.job_minutes,
        warnings=origin.notes,
    )


def with_listing_shards(
    draft: Plan,
    suites: Mapping[str, Suite],
    pools: Mapping[str, Pool],
    options: PlanOptions,
    split: tuple[str, ...] = (),
) -> PlanResult:
    """The plan whose legs list what exists: with shards for each variant, also without a unit.

    Raises:
        UsageError: more shards than GitHub has jobs.
    """
    shards: list[Shard] = []
    extra: list[Shard] = []
    for name, suite in sorted(suites.items()):
        for variant, entry in suite.variants.items():
            theirs = [
                replace(shard, suite=name, variant=variant, processes=options.processes)
                for shard in draft.shards
                if shard.suite_key == (name, variant)
            ]
            pool = entry.pool or options.pool_of[name]
            empty = Shard(
                "",
                pool,
                (),
                _NO_PREDICTION,
                options.processes,
                options.limit.step_minutes,
                budget_bytes(pools[pool]),
                name,
                variant,
            )
            shards += theirs
            wanted = options.shards if options.per_combination else None
            extra += [empty] * ((wanted or DEFAULT_SHARDS) - len(theirs))
    count = len(shards) + len(extra)
    if count > MAX_SHARDS:
        fix = "request fewer shards for each combination, or divide the job"
        raise UsageError(f"{count} shards, and GitHub runs at most {MAX_SHARDS} jobs", fix=fix)
    width = max(MIN_KEY_WIDTH, len(str(count)))
    ordered = [*sorted(shards, key=lambda shard: shard.key), *extra]
    used = {shard.pool for shard in ordered}
    return encode_plan(
        replace(
            draft,
            suites={name: draft.suites.get(name, suite) for name, suite in suites.items()},
            pools={name: pool for name, pool in pools.items() if name in used},
            shards=tuple(
                replace(shard, key=f"{number:0{width}}") for number, shard in enumerate(ordered, 1)
            ),
        ),
        (),
        split,
    )
