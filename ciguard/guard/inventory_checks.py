"""Findings about the inventory: tests that exist and are not planned, or fewer than on the base.

Also about the combinations (suite and variant) of a matrix, and about lost cases. Pure.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.guard.verdict import Failure, Finding, Level, Policy
from ciguard.model import Plan, Record, UnitKey, count_units
from ciguard.model.execution import unplanned_settings
from ciguard.model.plan import OF_LIST, OF_RESULTS
from ciguard.run.frameworks.node import path_of
from ciguard.run.frameworks.registry import FRAMEWORKS

if TYPE_CHECKING:
    from ciguard.guard.legs import LegResult
    from ciguard.history.query import LastShard, StableCases
    from ciguard.history.runs import HistoryRun
    from ciguard.model.attempts import UnitResult
    from ciguard.model.listings import ListedPlan


def check_inventory(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    inventory = plan.inventory
    if not planned and not plan.is_of_results:
        yield Finding("nothing_planned")
    for error in inventory.errors:
        yield Finding("collection_error", facts={"error": error})
    unplanned = (
        inventory.collected - len(planned) - len(inventory.excluded) - len(inventory.orphans)
    )
    if unplanned > 0:
        yield Finding("not_planned", facts={"count": unplanned})
    yield from base_findings(plan, policy, planned)
    yield from orphan_findings(plan, policy)
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


def check_unplanned(
    plan: Plan, expected: int | None, missing: str, last: HistoryRun | None
) -> Iterator[Finding]:
    """Check the shards with results of a run without a plan.

    Args:
        expected: number of these shards; None: all that left a file, also one without a test.
        missing: why no result file was found, if the reason is known.
        last: the newest run of the base; None if there is none.
    """
    shards = {shard.key for shard in plan.shards if shard.units}
    expected = len(plan.shards) if expected is None else expected
    if not shards:
        yield Finding("empty_results", facts={"reason": missing or None})
    elif expected != len(shards):
        yield Finding("expected_shards", facts={"count": len(shards), "expected": expected})
    legs = last.legs if last is not None else ()
    absent = sorted({leg.shard for leg in legs if leg.plan_id in (OF_RESULTS, OF_LIST)} - shards)
    if last is not None and absent and shards:
        yield Finding("absent_shards", facts={"absent": absent, "run_id": last.run_id})


def check_nothing_ran(
    final: Mapping[UnitKey, UnitResult],
    planned: AbstractSet[UnitKey],
    policy: Policy,
    *,
    by_suite: bool = True,
) -> Iterator[Finding]:
    """Find suites and variants whose units were all skipped: nothing is proved about them.

    Args:
        by_suite: False: only if all units of the run were skipped.
    """
    ran: dict[tuple[str, str], bool] = {}
    for key in planned:
        if not ran.get(key[:2]):
            end = final.get(key)
            ran[key[:2]] = end is None or any(case.skip_reason is None for case in end.cases)
    if not by_suite and any(ran.values()):
        return
    for suite_key in sorted(suite_key for suite_key, has_run in ran.items() if not has_run):
        units = tuple(sorted(key for key in planned if key[:2] == suite_key))
        facts = {"suite": suite_key[0], "variant": suite_key[1]}
        level: Level = "warning" if policy.empty == "pass" else "incomplete"
        yield Finding("nothing_ran", units=units, facts=facts, stated_level=level)


def check_executed(
    final: Mapping[UnitKey, UnitResult], planned: AbstractSet[UnitKey], policy: Policy
) -> Iterator[Finding]:
    """Find that too few of the planned cases executed; a unit without a result counts as one."""
    if policy.min_executed is None:
        return
    counts: Counter[str | None] = Counter()
    for end in map(final.get, planned):
        counts.update(["no result"] if end is None else [case.skip_reason for case in end.cases])
    listed, executed = counts.total(), counts.pop(None, 0)
    if executed < round(policy.min_executed * listed, 6):
        largest = sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))
        facts = {
            "executed": executed,
            "count": listed,
            "executed_ratio": executed / listed,
            "min_ratio": policy.min_executed,
            "reasons": tuple(f"{count:,} {reason or 'no reason'}" for reason, count in largest),
        }
        yield Finding("few_executed", facts=facts)


def different_scripts(plan: Plan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Find combinations of a matrix whose shards ran different commands."""
    scripts: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for leg in legs:
        header = leg.record.header if leg.record is not None else None
        if header is not None and plan.combination(leg.shard) is not None:
            scripts[leg.shard.suite_key][header.script or ""].append(leg.shard.key)
    for (_, variant), shards_by_script in scripts.items():
        if len(shards_by_script) > 1:
            shards = " / ".join(", ".join(keys) for keys in shards_by_script.values())
            yield Finding("different_scripts", facts={"combination": variant, "shards": shards})


def listing_findings(listed: ListedPlan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Find combinations whose units are not known, by the listings of their jobs."""
    for disagreement in listed.disagreements:
        facts = {
            "combination": disagreement.variant or None,
            "shards": " / ".join(", ".join(keys) for keys in disagreement.shards),
            "count": len(disagreement.units) or None,
            "first": disagreement.units[0].unit if disagreement.units else None,
        }
        yield Finding("different_listings", units=disagreement.units, facts=facts)
    for kind, suite_keys in (("nothing_listed", listed.empty), ("listing_short", listed.short)):
        for suite, variant in suite_keys:
            yield Finding(kind, facts={"suite": suite or None, "variant": variant or None})
    for leg in legs:
        if leg.shard.key in listed.unlisted and leg.end.problem is None:
            yield Finding("no_listing", leg.shard.key)


def base_findings(plan: Plan, policy: Policy, planned: AbstractSet[UnitKey]) -> Iterator[Finding]:
    """Find combinations with too few of the base's units, and those that the plan no longer has.

    A combination that is no longer in the matrix gives a warning: the change is in a reviewed diff.
    A combination in the matrix without units is always a loss. The combination that lost the
    largest share comes first.
    """
    base, source = plan.inventory.base_units, plan.inventory.base_source
    if policy.base_plan is not None:
        # The counts in the proposal's own plan may be edited; orphans are known tests, too.
        base_keys = {unit.key for shard in policy.base_plan.shards for unit in shard.units}
        base_keys |= _orphans(policy.base_plan)
        base, source = count_units(base_keys), f"plan of {policy.commit[:10]}"
        planned = planned | _orphans(plan)
        if gone_keys := tuple(sorted(base_keys - planned)):
            names = {"source": policy.commit[:10], "tests": tuple(key.unit for key in gone_keys)}
            yield Finding("base_tests_gone", units=gone_keys, facts=names)
    elif not base and policy.base_units is not None:
        base, source = policy.base_units
    now = Counter(key[:2] for key in planned) if base else {}
    gone: list[str] = []
    fewer: list[tuple[float, str, int, int]] = []
    for old in base:
        count, name = now[old.suite, old.variant], " ".join(filter(None, (old.suite, old.variant)))
        if old.suite not in plan.suites or old.variant not in plan.suites[old.suite].variants:
            gone.append(name or '""')
        elif _lost_too_many(old.units, count, policy.max_drop):
            fewer.append((count / old.units, name, count, old.units))
    if fewer:
        (left_ratio, name, count, before), *others = sorted(fewer)
        accepted = policy.min_units is not None and len(planned) >= policy.min_units
        facts = {
            "combination": name or None,
            "now": count,
            "known": "with a result" if plan.is_of_results else "planned",
            "before": before,
            "drop_ratio": 1 - left_ratio,
            "source": source,
            "others": tuple(other[1] for other in others),
            "planned": len(planned),
            "min_units": policy.min_units,
        }
        yield Finding("fewer_units_accepted" if accepted else "fewer_units", facts=facts)
    if gone:
        facts = {"count": len(gone), "combinations": tuple(gone), "source": source}
        yield Finding("combination_gone", facts=facts)


def _orphans(plan: Plan) -> AbstractSet[UnitKey]:
    return {orphan.key for orphan in plan.inventory.orphans}


def _lost_too_many(before: int, now: int, max_drop: float) -> bool:
    """Return whether a combination lost too many units.

    The allowed share is rounded up (1 % of 50 units allow one); losing all units is too many.
    """
    # 0.07 * 100 is a little more than 7, and must not allow an eighth unit.
    allowed = math.ceil(round(max_drop * before, 6))
    return now < before and (not now or before - now > allowed)


def orphan_findings(plan: Plan, policy: Policy) -> Iterator[Finding]:
    """Find tests in no shard (orphans); more than the policy acknowledges make the run incomplete.

    A number does not show which orphans are new: those that ran last are named, with their shard.
    Without past runs all orphans are named. Of a list, they are the tests without a result.
    """
    orphans = plan.inventory.orphans
    count, accepted = len(orphans), policy.orphans
    if not count:
        return
    if count <= accepted:
        facts = {"count": count, "accepted": accepted, "fewer": count if count < accepted else None}
        yield Finding("orphans_accepted", facts=facts)
        return
    newest = _newest(policy.last_shards, count - accepted)
    keys = () if newest else tuple(orphan.key for orphan in orphans)
    kind = "orphans_of_list" if plan.id == OF_LIST else "orphans"
    yield Finding(kind, units=keys, facts={"count": count, "accepted": accepted or None})
    by_shard: dict[tuple[str, int], list[UnitKey]] = defaultdict(list)
    for key in sorted(newest):
        by_shard[newest[key].shard, newest[key].run_id].append(key)
    for (shard, run_id), units in sorted(by_shard.items()):
        names = {"run_id": run_id, "tests": tuple(key.unit for key in units)}
        yield Finding("orphans_lost", shard, tuple(units), names)


def unreached_tests(plan: Plan, failures: Iterable[Failure], most: int) -> Iterator[Finding]:
    """Find tests of a list that did not run because the process of their Go package ended.

    Args:
        most: number of orphans that the policy acknowledges.
    """
    orphans: dict[str, list[UnitKey]] = defaultdict(list)
    for orphan in plan.inventory.orphans if len(plan.inventory.orphans) > most else ():
        package, _, test = orphan.unit.rpartition(".")
        # As Go requires; a class of .NET or Java begins with a capital letter.
        if test.startswith(("Test", "Example", "Fuzz")) and not re.search(r"\.[A-Z]\w*$", package):
            orphans[package].append(orphan.key)
    for failure in failures if orphans else ():
        result = failure.result
        package = result.classname or result.unit
        if (result.outcome, result.ending) != ("failed", "completed") and package in orphans:
            ending = result.ending.replace("completed", "")
            facts = {"package": package, "test": result.name, "ending": ending}
            yield Finding("unreached", failure.shard, tuple(orphans.pop(package)), facts)


def _newest(last: Mapping[UnitKey, LastShard], count: int) -> Mapping[UnitKey, LastShard]:
    """Return the `count` tests that ran last, and all others that ran last in the same run."""
    positions = sorted((shard.position for shard in last.values()), reverse=True)
    least = positions[:count][-1] if positions else 0
    return {key: shard for key, shard in last.items() if shard.position >= least}


@dataclass(frozen=True, slots=True)
class CaseLoss:
    """The cases of one unit that the base's last runs had and this run has not.

    A program that ends within a file of several cases writes a well-formed result file of the cases
    before, and may end with exit code 0; a file may also define its cases under a condition. A loss
    may be intended only if a change of the file deleted it.

    Attributes:
        file: path of the unit below the plan's folder; "" if the unit is not a file.
        is_emptied: no case of the unit ran.
    """

    key: UnitKey
    cases: tuple[str, ...]
    base: StableCases
    file: str
    is_emptied: bool = False


def units_with_cases(plan: Plan, *, foreign: bool) -> frozenset[UnitKey]:
    """Return the planned units that may hold several cases.

    Args:
        foreign: the results are files of jobs of the user's own.
    """
    units = (unit for shard in plan.shards for unit in shard.units)
    # If the framework's unit is a test, no case is lost without its unit.
    tests = {name for name, adapter in FRAMEWORKS.items() if adapter.unit.startswith("test")}
    single = {name for name, suite in plan.suites.items() if suite.framework in tests}
    return frozenset(unit.key for unit in units if foreign or unit.suite not in single)


def find_case_losses(
    plan: Plan, records: Iterable[Record], base: Mapping[UnitKey, StableCases]
) -> tuple[CaseLoss, ...]:
    """Find the lost cases, by unit. O(results).

    Other findings cover these units: a unit without any result, the units of a leg with a focus or
    a filter that is not in the plan, and the unit at which a leg was cut short.

    Args:
        records: the records that count.
        base: the cases of the base.
    """
    ran: dict[UnitKey, set[str]] = defaultdict(set)
    explained: set[UnitKey] = set()
    for record in records:
        if unplanned_settings(record.events, plan.suites):
            continue
        is_cut = bool(record.starts) and (record.end is None or record.end.ending != "completed")
        closed = {
            (event.suite, event.variant, event.unit)
            for event in record.events
            if is_cut and event.kind == "closed"
        }
        for result in record.results:
            if (key := result.unit_key) in base:
                ran[key].add(result.key.case)
                # A unit that errored or died is a failure already, and has no cases.
                if result.outcome in ("errored", "died") or (is_cut and key not in closed):
                    explained.add(key)
    return tuple(
        CaseLoss(
            key,
            tuple(sorted(base[key].cases - ran[key])),
            base[key],
            _file(plan, key),
            is_emptied=ran[key] == {key.unit},
        )
        for key in sorted(ran.keys() - explained)
        if base[key].cases - ran[key]
    )


def _file(plan: Plan, key: UnitKey) -> str:
    """Return the path of a unit that is named as its file; "" for any other name."""
    suite = plan.suites.get(key.suite)
    path = posixpath.normpath(posixpath.join(suite.cwd if suite else ".", path_of(key.unit)))
    is_path = "." in path and not path.startswith(("/", "..")) and path.isprintable()
    return path if is_path else ""


def case_loss_findings(
    losses: Sequence[CaseLoss],
    changed: Mapping[str, bool],
    base: Mapping[UnitKey, StableCases],
    max_drop: float,
) -> Iterator[Finding]:
    """Judge the lost cases: those of unchanged files make the run incomplete, others warn.

    A file whose cases are all gone makes the run incomplete, changed or not. If the change is not
    known, as for a class, a share of the combination's cases may be gone.

    Args:
        changed: by file, whether it differs from the version that the base's run tested.
        base: all cases of the base.
        max_drop: the share, 0..1.
    """
    totals: Counter[tuple[str, str]] = Counter()
    for key, known in base.items():
        totals[key[:2]] += len(known.cases)
    kinds: dict[tuple[str, Level | None], list[CaseLoss]] = defaultdict(list)
    unknown: dict[tuple[str, str], list[CaseLoss]] = defaultdict(list)
    for loss in losses:
        if loss.is_emptied:
            kinds["all_cases_gone", None].append(loss)
        elif loss.file not in changed:
            unknown[loss.key[:2]].append(loss)
        elif changed[loss.file]:
            kinds["cases_gone_of_changed_file", None].append(loss)
        else:
            kinds["cases_gone_of_unchanged_file", None].append(loss)
    for suite_key, of_suite in unknown.items():
        total, count = totals[suite_key], sum(len(loss.cases) for loss in of_suite)
        is_too_many = _lost_too_many(total, total - count, max_drop)
        kinds["cases_gone", "incomplete" if is_too_many else None].extend(of_suite)
    for (kind, level), lost in kinds.items():
        names = tuple(f"{loss.key.unit}: {case}" for loss in lost for case in loss.cases)
        newest = max(loss.base.run.run_id for loss in lost)
        total = sum(len(loss.base.cases) for loss in lost)
        facts = {"count": len(names), "total": total, "run_id": newest, "cases": names}
        yield Finding(kind, units=tuple(loss.key for loss in lost), facts=facts, stated_level=level)
