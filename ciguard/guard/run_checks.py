"""Checks of a whole run: inventory, static plan, unread files, suites of skips alone. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding
from ciguard.model import UnitKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.policy import Policy
    from ciguard.model import Plan, Suite
    from ciguard.model.attempts import UnitResult

# From records, and no business of the file.
OBSERVED_KEYS: Final = frozenset({"base_bytes", "setup_s", "teardown_s"})
MAX_UNREAD: Final = 20  # one by one; a million refused files are no million findings


def check_inventory(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """What of the inventory a reader of a green check must know; `planned` are the plan's units."""
    inventory = plan.inventory
    if not planned:
        yield Finding("incomplete", "nothing_planned")
    for error in inventory.errors:
        yield Finding("incomplete", "collection_error", facts={"error": error})
    unplanned = inventory.collected - len(planned) - len(inventory.excluded)
    if unplanned > 0:
        yield Finding("incomplete", "not_planned", facts={"count": unplanned})
    yield from _drop(plan, policy)
    if len(planned) < sum(len(shard.units) for shard in plan.shards):
        counts = Counter(unit.key for shard in plan.shards for unit in shard.units)
        twice = tuple(sorted(key for key, count in counts.items() if count > 1))
        yield Finding("warning", "duplicate_unit", units=twice)
    yield from _empty_files(plan)
    if inventory.excluded:
        units = tuple(UnitKey(one.suite, one.variant, one.unit) for one in inventory.excluded)
        rules = sorted({one.rule for one in inventory.excluded})
        yield Finding("warning", "excluded", units=units, facts={"rules": rules})


def _drop(plan: Plan, policy: Policy) -> Iterator[Finding]:
    inventory, rules = plan.inventory, policy.rules
    base, source = inventory.base_planned, inventory.base_source
    if base is None and policy.base_planned is not None:
        base, source = policy.base_planned
    counts = (
        ("collected", inventory.base_collected, inventory.collected),
        ("planned", base, inventory.collected - len(inventory.excluded)),
    )
    for counted, before, now in counts:
        if before is None or before - now <= rules.max_drop * before:
            continue
        facts = {"counted": counted, "now": now, "before": before, "source": source}
        facts |= {"drop_ratio": (before - now) / before, "min_units": rules.min_units}
        if rules.min_units is not None and now >= rules.min_units:
            yield Finding("warning", "fewer_units_accepted", facts=facts)
            continue
        yield Finding("incomplete", "fewer_units", facts=facts)
        return


def _empty_files(plan: Plan) -> Iterator[Finding]:
    emptied = plan.inventory.files_without_units
    if emptied:
        facts = {"count": len(emptied), "files": emptied}
        yield Finding("incomplete", "emptied_file", facts=facts)


def check_stale_plan(plan: Plan, suites: Mapping[str, Suite]) -> Iterator[Finding]:
    """What a static plan does not know, or knows otherwise.

    Args:
        suites: as configured now.
    """
    for name, suite in sorted(suites.items()):
        known = plan.suites.get(name)
        variants = [""] if known is None else sorted(suite.variants.keys() - known.variants.keys())
        for variant in variants:
            facts = {"suite": name, "variant": variant}
            yield Finding("incomplete", "suite_not_planned", facts=facts)
        changed = [] if known is None else _changed_keys(suite, known)
        if changed:
            yield Finding("warning", "suite_changed", facts={"suite": name, "keys": changed})
    for name in sorted(plan.suites.keys() - suites.keys()):
        yield Finding("warning", "suite_removed", facts={"suite": name})


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
    final: Mapping[UnitKey, UnitResult], planned: AbstractSet[UnitKey]
) -> Iterator[Finding]:
    """Name each suite and variant whose every unit was skipped.

    A warning, as their frameworks end well: a suite may be for another system. What the base ran
    is among the changes that `compare` tells.
    """
    ran: dict[tuple[str, str], bool] = {}
    for key in planned:
        if not ran.get(key[:2]):
            end = final.get(key)
            ran[key[:2]] = end is None or any(case.outcome != "skipped" for case in end.cases)
    for suite_key in sorted(suite_key for suite_key, one_ran in ran.items() if not one_ran):
        units = tuple(sorted(key for key in planned if key[:2] == suite_key))
        facts = {"suite": suite_key[0], "variant": suite_key[1]}
        yield Finding("warning", "nothing_ran", units=units, facts=facts)


def check_unread_files(problems: Sequence[str]) -> tuple[Finding, ...]:
    """What the guard says of them.

    Args:
        problems: each as "where: why", in any order.
    """
    found = [
        Finding("incomplete", "unread_file", facts={"problem": problem})
        for problem in sorted(problems)[:MAX_UNREAD]
    ]
    if len(problems) > MAX_UNREAD:
        count = len(problems) - MAX_UNREAD
        found.append(Finding("incomplete", "unread_files", facts={"count": count}))
    return tuple(found)
