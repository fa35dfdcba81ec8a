"""Checks of a whole run: its inventory, a kept plan, unread files, suites of skips alone. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from ciguard.guard.verdict import Finding
from ciguard.model import UnitKey
from ciguard.text import count_of, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.policy import Policy
    from ciguard.model import Plan, Suite
    from ciguard.model.attempts import UnitResult

# From records, and no business of the file.
OBSERVED_KEYS: Final = frozenset({"base_bytes", "setup_s", "teardown_s"})
STALE_FIX: Final = "run `ciguard plan --static` and commit what it writes"
MAX_UNREAD: Final = 20  # one by one; a million refused files are no million findings
UNREAD_FIX: Final = "look at what the job uploaded: no leg of ciguard writes that"


def check_inventory(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """What of the inventory a reader of a green check must know; `planned` are the plan's units."""
    inventory = plan.inventory
    if not planned:
        fix = "look at the plan job: nothing was collected"
        yield Finding("incomplete", "nothing_planned", "no unit is planned", fix=fix)
    for error in inventory.errors:
        what = f"collecting failed: {error}"
        fix = "fix it: tests after a collection error do not run"
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


def check_stale_plan(plan: Plan, suites: Mapping[str, Suite]) -> Iterator[Finding]:
    """What the plan does not know, or knows otherwise.

    Args:
        suites: as configured now.
    """
    for name, suite in sorted(suites.items()):
        known = plan.suites.get(name)
        if known is None:
            what = f"{_suite_name(name)} is newer than the kept plan: no shard runs it"
            yield Finding("incomplete", "stale_plan", what, fix=STALE_FIX)
            continue
        for variant in sorted(suite.variants.keys() - known.variants.keys()):
            what = f"{_suite_name(name, variant)} is newer than the kept plan: no shard runs it"
            yield Finding("incomplete", "stale_plan", what, fix=STALE_FIX)
        changed = [
            field.name
            for field in fields(suite)
            if field.name not in OBSERVED_KEYS | {"variants"}
            and getattr(suite, field.name) != getattr(known, field.name)
        ]
        both = suite.variants.keys() & known.variants.keys()
        if any(suite.variants[one] != known.variants[one] for one in both):
            changed.append("variant")
        if changed:
            what = f"{_suite_name(name)} ran as the kept plan has it, not as configured: "
            yield Finding("warning", "stale_plan", what + ", ".join(changed), fix=STALE_FIX)
    for name in sorted(plan.suites.keys() - suites.keys()):
        what = f"{_suite_name(name)} is in the kept plan and no longer configured"
        yield Finding("warning", "stale_plan", what, fix=STALE_FIX)


def _suite_name(suite: str, variant: str = "") -> str:
    named = f'suite "{suite}"' if suite else "the suite"
    return f'{named}, variant "{variant}",' if variant else named


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
        named = f' of suite "{one_line(suite_key[0])}"' if suite_key[0] else ""
        named += f', variant "{one_line(suite_key[1])}"' if suite_key[1] else ""
        what = f"nothing ran{named}: {_skipped(len(units))}"
        fix = "is that meant? Look at why they are skipped"
        yield Finding("warning", "nothing_ran", what, units=units, fix=fix)


def _skipped(count: int) -> str:
    return "the one unit was skipped" if count == 1 else f"all {count:,} units were skipped"


def check_unread_files(problems: Sequence[str]) -> tuple[Finding, ...]:
    """What the guard says of them.

    Args:
        problems: each as "where: why", in any order.
    """
    found = [
        Finding("incomplete", "unread_file", f"{problem:.400}; it was not read", fix=UNREAD_FIX)
        for problem in sorted(problems)[:MAX_UNREAD]
    ]
    if len(problems) > MAX_UNREAD:
        what = f"{len(problems) - MAX_UNREAD:,} more files or artifacts were not read"
        found.append(Finding("incomplete", "unread_file", what, fix=UNREAD_FIX))
    return tuple(found)
