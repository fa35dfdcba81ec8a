"""The inventory that a plan was made from, held against itself and against the base's. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding
from ciguard.model import UnitKey
from ciguard.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.policy import Policy
    from ciguard.model import Plan


def check_inventory(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """What of the inventory a reader of a green check must know; `planned` are the plan's units."""
    inventory = plan.inventory
    if not planned:
        fix = "look at the plan job: nothing was collected"
        yield Finding("incomplete", "nothing_planned", "no unit is planned", fix=fix)
    for error in inventory.errors:
        what = f"collecting failed: {error}"
        fix = "mend it: tests behind a collection error do not run"
        yield Finding("incomplete", "collection_error", what, fix=fix)
    unplanned = inventory.collected - len(planned) - len(inventory.excluded)
    if unplanned > 0:
        what = f"{count_of(unplanned, 'unit')} collected, and neither planned nor excluded"
        fix = "make the plan again, and hand it on unchanged"
        yield Finding("incomplete", "not_planned", what, fix=fix)
    yield from _drop(plan, policy)
    if len(planned) < sum(len(shard.units) for shard in plan.shards):
        counts = Counter(unit.key for shard in plan.shards for unit in shard.units)
        twice = tuple(sorted(key for key, count in counts.items() if count > 1))
        what = f"{count_of(len(twice), 'unit')} planned in more than one shard"
        yield Finding("warning", "duplicate_unit", what, units=twice, fix="make the plan again")
    yield from _empty_files(plan)
    if inventory.excluded:
        what = f"{count_of(len(inventory.excluded), 'unit')} excluded by rule: {_rules(plan)}"
        units = tuple(UnitKey(one.suite, one.variant, one.unit) for one in inventory.excluded)
        yield Finding("warning", "excluded", what, units=units)


def _drop(plan: Plan, policy: Policy) -> Iterator[Finding]:
    inventory, rules = plan.inventory, policy.rules
    base, source = inventory.base_planned, inventory.base_source
    if base is None and policy.base_planned is not None:
        base, source = policy.base_planned
    planned = inventory.collected - len(inventory.excluded)
    counts = (
        ("collected", inventory.base_collected, inventory.collected),
        ("planned", base, planned),
    )
    for word, before, now in counts:
        if before is None or before - now <= rules.max_drop * before:
            continue
        percent = 100 * (before - now) / before
        verb = "was" if now == 1 else "were"
        source_suffix = f", {source}" if source else ""
        on_base = f"{before:,} on the base (-{percent:.1f} %{source_suffix})"
        what = f"{count_of(now, 'unit')} {verb} {word}, {on_base}"
        if rules.min_units is not None and now >= rules.min_units:
            what += f": acknowledged, guard.min_units = {rules.min_units}"
            yield Finding("warning", "fewer_units", what)
            continue
        fix = (
            "bring them back, bring the branch up to date, or set guard.min_units in the "
            f"configuration of the base to {now} or less"
        )
        yield Finding("incomplete", "fewer_units", what, fix=fix)
        return


def _empty_files(plan: Plan) -> Iterator[Finding]:
    emptied, listed = plan.inventory.files_without_units, plan.inventory.user_listed
    # Of a list that somebody made nobody knows whether what it leaves out has tests.
    without = "that the inventory does not name" if listed else "without a unit"
    fix = "a file without tests is renamed or removed; one with tests is broken"
    if listed:
        fix = "list its units as well, or leave it out of files of its [suite.NAME]"
    if emptied:
        files = count_of(len(emptied), "test file")
        what = f"{files} {without}, and with some on the base: {_name_some(emptied)}"
        yield Finding("incomplete", "emptied_file", what, fix=fix)
    files_ = plan.inventory.files.items()
    empty = sorted(path for path, units in files_ if not units and path not in emptied)
    if empty:
        what = f"{count_of(len(empty), 'test file')} {without}: {_name_some(empty)}"
        yield Finding("warning", "empty_file", what, fix=fix)


def _name_some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004


def _rules(plan: Plan) -> str:
    rules = sorted({one.rule for one in plan.inventory.excluded})
    return ", ".join(rules[:5]) + (" and more" if len(rules) > 5 else "")  # noqa: PLR2004
