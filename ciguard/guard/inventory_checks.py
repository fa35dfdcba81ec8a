"""Findings about the tests that exist: planned, in a static plan, in each combination, in no shard,
and as many as on the base. A combination is a suite and variant. Pure.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding, Policy
from ciguard.model import Orphan, Plan, Suite, UnitKey, count_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.legs import LegResult
    from ciguard.guard.state import Level
    from ciguard.history.query import LastShard
    from ciguard.model.attempts import UnitResult
    from ciguard.model.listings import ListedPlan

# From records, and no business of the file.
OBSERVED_KEYS: Final = frozenset({"base_bytes", "filters", "omitted", "setup_s", "teardown_s"})


def check_inventory(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """Check the inventory of the plan; `planned` are the plan's units."""
    inventory = plan.inventory
    if not planned:
        yield Finding("nothing_planned")
    for error in inventory.errors:
        yield Finding("collection_error", facts={"error": error})
    unplanned = (
        inventory.collected - len(planned) - len(inventory.excluded) - len(inventory.orphans)
    )
    if unplanned > 0:
        yield Finding("not_planned", facts={"count": unplanned})
    yield from base_findings(plan, policy, planned)
    yield from orphan_findings(inventory.orphans, policy)
    if len(planned) < sum(len(shard.units) for shard in plan.shards):
        counts = Counter(unit.key for shard in plan.shards for unit in shard.units)
        twice = tuple(sorted(key for key, count in counts.items() if count > 1))
        yield Finding("duplicate_unit", units=twice)
    if inventory.files_without_units:
        emptied = inventory.files_without_units
        reasons = sorted({reason for reason, file, _ in plan.omitted if file in emptied})
        facts = {"count": len(emptied), "files": emptied, "reasons": reasons}
        yield Finding("omitted_file" if reasons else "emptied_file", facts=facts)
    if inventory.excluded:
        units = tuple(UnitKey(unit.suite, unit.variant, unit.unit) for unit in inventory.excluded)
        rules = sorted({unit.rule for unit in inventory.excluded})
        yield Finding("excluded", units=units, facts={"rules": rules})


def check_stale_plan(plan: Plan, suites: Mapping[str, Suite]) -> Iterator[Finding]:
    """Compare a static plan with the configuration of now.

    Args:
        suites: as configured now.
    """
    for name, suite in sorted(suites.items()):
        known = plan.suites.get(name)
        variants = [""] if known is None else sorted(suite.variants.keys() - known.variants.keys())
        for variant in variants:
            facts = {"suite": name, "variant": variant}
            yield Finding("suite_not_planned", facts=facts)
        changed = [] if known is None else _changed_keys(suite, known)
        if changed:
            yield Finding("suite_changed", facts={"suite": name, "keys": changed})
    for name in sorted(plan.suites.keys() - suites.keys()):
        yield Finding("suite_removed", facts={"suite": name})


def _changed_keys(suite: Suite, known: Suite) -> list[str]:
    changed = [
        field.name
        for field in fields(suite)
        if field.name not in OBSERVED_KEYS | {"variants"}
        and getattr(suite, field.name) != getattr(known, field.name)
    ]
    both = suite.variants.keys() & known.variants.keys()
    if any(suite.variants[one] != known.variants[one] for one in both):
        changed.append("variant")
    return changed


def check_nothing_ran(
    final: Mapping[UnitKey, UnitResult], planned: AbstractSet[UnitKey], policy: Policy
) -> Iterator[Finding]:
    """Name each suite and variant whose every unit was skipped: nothing is proved of it."""
    ran: dict[tuple[str, str], bool] = {}
    for key in planned:
        if not ran.get(key[:2]):
            end = final.get(key)
            ran[key[:2]] = end is None or any(
                case.outcome != "skipped" or case.is_expected_failure for case in end.cases
            )
    for suite_key in sorted(suite_key for suite_key, one_ran in ran.items() if not one_ran):
        units = tuple(sorted(key for key in planned if key[:2] == suite_key))
        facts = {"suite": suite_key[0], "variant": suite_key[1]}
        level: Level = "warning" if policy.empty == "pass" else "incomplete"
        yield Finding("nothing_ran", units=units, facts=facts, stated_level=level)


def different_scripts(plan: Plan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Combinations of a job's matrix whose shards were not run by the same commands."""
    scripts: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for leg in legs:
        header = leg.record.header if leg.record is not None else None
        if header is not None and plan.combination(leg.shard) is not None:
            scripts[leg.shard.suite_key][header.script or ""].append(leg.shard.key)
    for (_, variant), found in scripts.items():
        if len(found) > 1:
            shards = " / ".join(", ".join(keys) for keys in found.values())
            facts = {"combination": variant, "shards": shards}
            yield Finding("different_scripts", facts=facts)


def listing_findings(listed: ListedPlan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Find combinations of which the units are not known."""
    for disagreement in listed.disagreements:
        facts = {
            "combination": disagreement.variant or None,
            "shards": " / ".join(", ".join(keys) for keys in disagreement.shards),
            "count": len(disagreement.units) or None,
            "first": disagreement.units[0].unit if disagreement.units else None,
        }
        yield Finding("different_listings", units=disagreement.units, facts=facts)
    kinds = (("nothing_listed", listed.empty), ("listing_short", listed.short))
    for kind, suite_keys in kinds:
        for suite, variant in suite_keys:
            facts = {"suite": suite or None, "variant": variant or None}
            yield Finding(kind, facts=facts)
    for leg in legs:
        if leg.shard.key in listed.unlisted and leg.end.problem is None:
            yield Finding("no_listing", leg.shard.key)


def base_findings(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """Combinations with too few of the base's units, and those that the plan no longer has.

    Who drops an entry of a matrix does so in a diff that is reviewed: that is told, and is no loss.
    A combination that is still there, and empty, always is one. Of many the one that lost the
    largest share stands in front.
    """
    base, source = plan.inventory.base_units, plan.inventory.base_source
    if policy.base_plan is not None:
        # The proposal's own file says what it likes; orphans are known tests, too.
        known = _known(policy.base_plan)
        base, source = count_units(known), f"plan of {policy.commit[:10]}"
        planned = planned | _orphans(plan)
        yield from _tests_gone(known - planned, policy)
    elif not base and policy.base_units is not None:
        base, source = policy.base_units
    now = Counter(key[:2] for key in planned) if base else {}
    gone: list[str] = []
    fewer: list[tuple[float, str, int, int]] = []
    for one in base:
        count, name = now[one.suite, one.variant], " ".join(filter(None, (one.suite, one.variant)))
        if one.suite not in plan.suites or one.variant not in plan.suites[one.suite].variants:
            gone.append(name or '""')
        elif lost_too_many(one.units, count, policy.max_drop):
            fewer.append((count / one.units, name, count, one.units))
    if fewer:
        (left_ratio, name, count, before), *others = sorted(fewer)
        accepted = policy.min_units is not None and len(planned) >= policy.min_units
        facts = {
            "combination": name or None,
            "now": count,
            "before": before,
            "drop_ratio": 1 - left_ratio,
            "source": source,
            "others": tuple(other[1] for other in others),
            "planned": len(planned),
            "min_units": policy.min_units,
        }
        if accepted:
            yield Finding("fewer_units_accepted", facts=facts)
        else:
            yield Finding("fewer_units", facts=facts)
    if gone:
        facts = {"count": len(gone), "combinations": tuple(gone), "source": source}
        yield Finding("combination_gone", facts=facts)


def _known(plan: Plan) -> AbstractSet[UnitKey]:
    return {unit.key for shard in plan.shards for unit in shard.units} | _orphans(plan)


def _orphans(plan: Plan) -> AbstractSet[UnitKey]:
    return {orphan.key for orphan in plan.inventory.orphans}


def _tests_gone(gone: AbstractSet[UnitKey], policy: Policy) -> Iterator[Finding]:
    if gone:
        units = tuple(sorted(gone))
        facts = {"source": policy.commit[:10], "tests": tuple(key.unit for key in units)}
        yield Finding("base_tests_gone", units=units, facts=facts)


def lost_too_many(before: int, now: int, max_drop: float) -> bool:
    """Return whether a combination lost too many; it may lose one where any: 1 % of 50 is none."""
    # What 0.07 * 100 is more than 7 by must not count as an eighth.
    allowed = math.ceil(round(max_drop * before, 6))
    return now < before and (not now or before - now > allowed)


def orphan_findings(orphans: Sequence[Orphan], policy: Policy) -> Iterator[Finding]:
    """More than the policy acknowledges make the run incomplete.

    Which of them are the new ones is not known by their number: those that ran last are named, with
    the shard in which they did. Without past runs all are examples.
    """
    count, accepted = len(orphans), policy.orphans
    if not count:
        return
    if count <= accepted:
        facts = {"count": count, "accepted": accepted, "fewer": count if count < accepted else None}
        yield Finding("orphans_accepted", facts=facts)
        return
    ran = _newest(policy.last_shards, count - accepted)
    keys = () if ran else tuple(orphan.key for orphan in orphans)
    facts = {"count": count, "accepted": accepted or None}
    yield Finding("orphans", units=keys, facts=facts)
    by_shard: dict[tuple[str, int], list[UnitKey]] = defaultdict(list)
    for key in sorted(ran):
        by_shard[ran[key].shard, ran[key].run_id].append(key)
    for (shard, run_id), units in sorted(by_shard.items()):
        names = {"run_id": run_id, "tests": tuple(key.unit for key in units)}
        yield Finding("orphans_lost", shard, tuple(units), names)


def _newest(last: Mapping[UnitKey, LastShard], count: int) -> Mapping[UnitKey, LastShard]:
    """So many of those that ran last; more where some of one run would be left out."""
    positions = sorted((one.position for one in last.values()), reverse=True)
    least = positions[:count][-1] if positions else 0
    return {key: one for key, one in last.items() if one.position >= least}
