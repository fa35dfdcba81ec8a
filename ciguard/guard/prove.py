"""Proof that each planned unit has exactly one final result: plan + records -> verdict. Pure.

The expected jobs come from the plan, never from the records, because no job can detect its own
absence. A leg is one execution of a shard by a job. Failures that the quarantine or the base
excuses do not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import Final

from ciguard.codec.quarantine import Entry, entry_of
from ciguard.document import first_line
from ciguard.guard.diagnosis import is_from_result_files
from ciguard.guard.failure_groups import find_hotspots, group_failures
from ciguard.guard.github_facts import NeededJob, RunFacts, check_jobs, check_needs, select_of_run
from ciguard.guard.inventory_checks import (
    check_executed,
    check_inventory,
    check_nothing_ran,
    different_scripts,
    listing_findings,
    unreached_tests,
)
from ciguard.guard.legs import (
    LegResult,
    cached_results,
    exited_with_failures,
    leg_findings,
    read_leg,
)
from ciguard.guard.limits import check_limits
from ciguard.guard.record_selection import Selection
from ciguard.guard.verdict import Excused, Failure, Finding, Flaky, Level, Missing, Policy, Verdict
from ciguard.model import Plan, Record, UnitKey
from ciguard.model.attempts import (
    STATUSES,
    Status,
    UnitResult,
    classify_result,
    last_starts,
    record_units,
)
from ciguard.model.execution import unplanned_settings
from ciguard.model.listings import with_listings
from ciguard.model.moved_units import (
    MovedBlock,
    find_moved_blocks,
    find_moved_units,
    with_moved_units,
)
from ciguard.model.probes import Repeats, ended_in_try, repeats_of
from ciguard.render.notes import Note
from ciguard.text import MAX_NAMED, unit_name

_LEVELS: Final[tuple[Level, ...]] = ("incomplete", "failed", "warning")
# All units with this reason share one value, because lost shards may have 100,000 units.
_NO_RECORD: Final = Note("shard_without_record")
_UNFINISHED: Final = Note("unfinished")
_NOT_STARTED: Final = Note("not_started")
_NOT_MENTIONED: Final = Note("not_mentioned")
_EXECUTION: Final[Mapping[str, str]] = {
    "not_executed": "tests_not_executed",
    "focus": "tests_focused",
    "filter": "tests_filtered",
}
# Reasons of `execution` events. A listing cannot know the filters inside a test file.
STATED_FILTERS: Final = ("filter", "filter_in_tests")
# Reasons for missing units of a moved block for which the shard is not to blame.
UNCLAIMED: Final[tuple[str, ...]] = ("not_claimed_again", "claim_without_record")
# Statuses of a moved unit, the worst last: one leg may finish a unit that another leg left.
MOVED_STATUSES: Final[tuple[Status, ...]] = ("unfinished", "good", "bad")
MAX_UNREAD: Final = 20  # findings; one more counts the other files


def prove(
    plan: Plan,
    records: Iterable[Record],
    needs: Sequence[NeededJob] | None = None,
    *,
    platform: RunFacts | None = None,
    policy: Policy = Policy(),  # noqa: B008  # frozen, so sharing it is harmless
    extra_findings: Sequence[Finding] = (),
) -> Verdict:
    """Judge a run.

    Args:
        plan: the contract of the run.
        records: all uploaded records, of any plan, run and attempt, in any order.
        needs: GitHub's results of the jobs before this one; None if GitHub was not asked.
        platform: GitHub's facts of the jobs of the legs; None if GitHub was not asked.
        policy: the rules beside the plan.
        extra_findings: findings of the reader of the records.

    Returns:
        The same verdict for any order of the records. O(results).
    """
    facts = platform if platform is not None and platform.unknown is None else RunFacts()
    selection = select_of_run(plan, records, platform)
    listed = with_listings(plan, selection.newest.values())
    plan = listed.plan
    blocks = find_moved_blocks(plan, selection.newest, selection.earlier)
    legs = _legs(with_moved_units(plan, blocks, selection.newest), selection, facts)
    planned = frozenset[UnitKey]().union(*(leg.planned for leg in legs))
    moved = {unit.key: block.shards for block in blocks if block.claimers for unit in block.units}
    final, doubled = _final_results(legs, moved)
    missing = with_moves(tuple(_missing(legs, final)), blocks)
    excusals = apply_policy(_failures(legs), policy)
    failures = excusals.failures
    causes = group_failures(failures)
    repeats = _find_repeats(plan, legs, final) if policy.new_tests != "off" else {}
    findings = [
        *extra_findings,
        *selection.findings,
        *policy.findings,
        *check_inventory(plan, policy, planned),
        *unreached_tests(plan, failures, policy.orphans),
        *_legs_findings(legs, missing, plan),
        *unclaimed_findings(missing),
        *_misplaced(legs, planned, doubled, final),
        *different_scripts(plan, legs),
        *listing_findings(listed, legs),
        *(check_jobs(legs, platform) if platform is not None else ()),
        *stale_entries(policy.quarantine, final, planned, repeats),
        *check_execution(plan, legs),
        *check_nothing_ran(final, planned, policy, by_suite=not plan.is_of_results),
        *check_executed(final, planned, policy),
        *cached_results(legs, facts.legs, policy),
        *check_limits(final, policy.limits),
        *_check_repeats(repeats, policy),
    ]
    if needs is not None:
        findings.extend(_needs_findings(needs, legs, excusals, findings, platform))
    findings.sort(key=_order)
    flaky = tuple(_flaky(legs, final, selection, plan))
    return Verdict(
        plan=plan,
        planned=len(planned),
        new=listed.new,
        gone=listed.gone,
        with_result=len(planned) - len({unit.key for unit in missing}),
        legs=tuple(leg.row for leg in legs),
        failures=failures,
        flaky=tuple(unit for unit in flaky if not unit.first.ran_out_of_memory),
        passed_after_oom=tuple(unit for unit in flaky if unit.first.ran_out_of_memory),
        missing=missing,
        findings=tuple(findings),
        quarantined=excusals.quarantined,
        failing_on_base=excusals.failing_on_base,
        failure_groups=causes,
        hotspots=find_hotspots(causes, plan.suites),
        moved=find_moved_units(plan, blocks, selection.newest),
        repeats=repeats,
    )


def _needs_findings(
    needs: Sequence[NeededJob],
    legs: Sequence[LegResult],
    excusals: Excusals,
    findings: Sequence[Finding],
    platform: RunFacts | None,
) -> Iterator[Finding]:
    """Return findings on the jobs before this one that the findings of records do not explain."""
    excused = bool(excusals.quarantined or excusals.failing_on_base)
    if platform is not None and platform.unknown is None:  # otherwise any job may have failed
        excused |= any(ended_in_try(leg.record) for leg in legs)
    explained = bool(excusals.failures) or excused or any(map(exited_with_failures, legs))
    red = bool(excusals.failures) or any(finding.level == "failed" for finding in findings)
    names = {_job(leg) for leg in legs}
    return check_needs(needs, is_explained=explained, is_excused=excused and not red, names=names)


def _job(leg: LegResult) -> str:
    """Return the name of a job in `needs`, by the record of its leg; "" if unknown."""
    header = leg.record.header if leg.record is not None else None
    return (header.job or "").partition(" (")[0] if header is not None else ""


def _legs(plan: Plan, selection: Selection, facts: RunFacts) -> list[LegResult]:
    closing = frozenset(name for name, suite in plan.suites.items() if suite.closes_units)
    return [
        read_leg(
            shard,
            selection.newest.get(shard.key),
            selection.rejected.get(shard.key),
            facts.legs.get(shard.key),
            closing,
        )
        for shard in plan.shards
    ]


def _order(finding: Finding) -> tuple[int, str, str, str]:
    return _LEVELS.index(finding.level), finding.shard, finding.kind, f"{finding.facts}"


def _final_results(
    legs: Iterable[LegResult], moved: Mapping[UnitKey, AbstractSet[str]]
) -> tuple[dict[UnitKey, UnitResult], set[UnitKey]]:
    """Return the result of each unit, and the units that ran in several legs without a reason.

    The worst of several results counts, so that a pass cannot hide a failure; ties go to the first.

    Args:
        moved: by unit of a moved block, the shards that may have run the unit. If one leg did not
            finish the unit, the result of another leg counts. This cannot hide a death, because the
            leg in which the unit died is itself incomplete.
    """
    final: dict[UnitKey, UnitResult] = {}
    doubled: set[UnitKey] = set()
    for leg in legs:
        earlier = {key: final[key] for key in final.keys() & leg.units.keys()}
        final.update(leg.units)
        for key, result in earlier.items():
            of_both = (result.status, final[key].status)
            if key not in moved:
                doubled.add(key)
                keeps = STATUSES.index(of_both[0]) >= STATUSES.index(of_both[1])
            else:
                keeps = MOVED_STATUSES.index(of_both[0]) >= MOVED_STATUSES.index(of_both[1])
            if keeps:
                final[key] = result
    doubled |= {
        key
        for leg in legs
        for key in moved.keys() & leg.units.keys()
        if leg.shard.key not in moved[key]
    }
    return final, doubled


def _missing(legs: Iterable[LegResult], final: Mapping[UnitKey, UnitResult]) -> Iterator[Missing]:
    for leg in legs:
        keys = [key for key in leg.planned if (end := final.get(key)) is None or not end.is_over]
        started = last_starts(leg.record.starts) if keys and leg.record is not None else {}
        for key in sorted(keys):
            reason = _missing_reason(leg, key, final.get(key), is_started=key in started)
            yield Missing(key, leg.shard.key, reason)


def _legs_findings(
    legs: Iterable[LegResult], missing: Sequence[Missing], plan: Plan
) -> Iterator[Finding]:
    """Yield the findings of each leg, with the missing units that are the leg's own fault."""
    by_shard = {
        shard: tuple(unit.key for unit in units if unit.reason.kind not in UNCLAIMED)
        for shard, units in groupby(missing, key=lambda unit: unit.shard)
    }
    for leg in legs:
        yield from leg_findings(leg, by_shard.get(leg.shard.key, ()), plan)


def _missing_reason(
    leg: LegResult, key: UnitKey, end: UnitResult | None, *, is_started: bool
) -> Note:
    if leg.record is None:
        return _NO_RECORD
    if end is not None:
        stopped = next((case for case in end.cases if classify_result(case) == "unfinished"), None)
        if stopped is None:
            return Note("last_try_unfinished")
        return Note("stopped", {"ending": stopped.ending})
    if is_started:
        return _UNFINISHED
    if key in leg.missing_reasons:
        event = leg.missing_reasons[key]
        return Note("reported", {"event": event.kind, "detail": event.detail})
    if is_from_result_files(leg.record):
        return Note("no_case")
    if leg.end.problem is not None:
        return _NOT_STARTED
    return _NOT_MENTIONED


def _failures(legs: Iterable[LegResult]) -> Iterator[Failure]:
    failures = [
        Failure(leg.shard.key, case)
        for leg in legs
        for end in leg.units.values()
        if end.status != "good"
        for case in end.cases
        if classify_result(case) == "bad"
    ]
    yield from sorted(failures, key=lambda failure: (failure.shard, failure.result.key))


def _flaky(
    legs: Iterable[LegResult], final: Mapping[UnitKey, UnitResult], selection: Selection, plan: Plan
) -> Iterator[Flaky]:
    """Find units that failed first and passed in the end, in this attempt or an earlier one.

    A unit of a movable block may have failed in another shard.
    """
    before: dict[tuple[str, UnitKey], UnitResult] = {
        (shard, key): end
        for shard, records in selection.earlier.items()
        for record in records
        for key, end in record_units(record).items()
        if end.status == "bad"
    }
    movable = {unit.key for shard in plan.shards for unit in shard.units[shard.own_count :]}
    elsewhere = {key: end for (_, key), end in before.items() if key in movable}
    flaky = []
    for leg in legs:
        for key, end in leg.units.items():
            earlier = before.get((leg.shard.key, key), elsewhere.get(key)) if before else None
            failures = end.failures
            if earlier is not None:
                bad = tuple(case for case in earlier.cases if classify_result(case) == "bad")
                failures = bad + failures
            if failures and final[key].status == "good":
                first = min(failures, key=lambda failure: failure.ran_out_of_memory)
                flaky.append(Flaky(key, leg.shard.key, first))
    yield from sorted(flaky, key=lambda unit: (unit.shard, unit.key))


def _misplaced(
    legs: Sequence[LegResult],
    planned: AbstractSet[UnitKey],
    doubled: AbstractSet[UnitKey],
    final: Mapping[UnitKey, UnitResult],
) -> Iterator[Finding]:
    """Find results of unplanned units, and results of units in another or in several shards."""
    is_by_hand = any(leg.shard.job for leg in legs)
    ended = {key for key, unit in final.items() if is_by_hand and unit.is_over}
    for leg in legs:
        # Each job of a hand-written matrix must run the tests that its filter selects. Without this
        # rule a job could run no test at all.
        if leg.shard.job and leg.record is not None:
            own = {key for key, unit in leg.units.items() if unit.is_over}
            if elsewhere := tuple(sorted((leg.planned - own) & ended)):
                yield Finding("results_elsewhere", leg.shard.key, elsewhere)
        unplanned = tuple(sorted(leg.units.keys() - planned))
        if unplanned:
            yield Finding("unplanned", leg.shard.key, unplanned)
    # Units that were planned in several shards have a finding of the plan (`duplicate_unit`).
    counts = Counter(key for leg in legs for key in leg.planned & doubled)
    if keys := tuple(sorted(key for key in doubled if counts[key] <= 1)):
        yield Finding("ran_in_several_shards", units=keys)


def check_execution(plan: Plan, legs: Iterable[LegResult]) -> Iterator[Finding]:
    """Find the dry runs, focus, filters and ignored settings that the processes reported.

    Cases that a planned filter excludes are counted, if the frameworks report them.
    """
    shards: Counter[tuple[str, str]] = Counter()
    left_out: Counter[str] = Counter()
    for record in (leg.record for leg in legs if leg.record is not None):
        foreign = unplanned_settings(record.events, plan.suites)
        shards.update(
            (_EXECUTION[reason], setting)
            for reason, settings in foreign.items()
            for setting in settings
        )
        reported = [event for event in record.events if event.kind == "execution"]
        ignored = {event.detail for event in reported if event.reason == "no_effect"}
        shards.update(("setting_ignored", setting) for setting in ignored)
        filters = {event.detail for event in reported if event.reason in STATED_FILTERS}
        planned = filters.difference(foreign.get("filter", ()))
        shards.update(("filter_planned", setting) for setting in planned)
        if not foreign:
            left_out["filter_planned" if planned else "cases_not_selected"] += _left_out(record)
    if left_out["cases_not_selected"]:
        yield Finding("cases_not_selected", facts={"left_out": left_out["cases_not_selected"]})
    for kind, pairs in groupby(sorted(shards), key=itemgetter(0)):
        settings = [setting for _, setting in pairs]
        count = max(shards[kind, setting] for setting in settings)
        facts = {"settings": settings, "count": count, "left_out": left_out[kind] or None}
        yield Finding(kind, facts=facts)


def _left_out(record: Record) -> int:
    """Return the number of cases that the files of a leg define and that a filter excluded."""
    last = {
        (event.suite, event.variant, event.unit): event.facts
        for event in record.events
        if event.kind == "closed" and "defined" in event.facts
    }
    return int(sum(facts["defined"] - facts["selected"] for facts in last.values()))


def check_unknown_shards(plan: Plan, files: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Find the result files of unplanned shards, by shard; such a file may contain a failure."""
    for shard, paths in files.items():
        facts = {"theirs": shard, "count": len(paths), "paths": list(paths)}
        shards = [shard.key for shard in plan.shards]
        yield Finding("results_of_unknown_shard", facts={**facts, "shards": shards})


def check_unread_files(problems: Sequence[str]) -> Iterator[Finding]:
    """Find the files that were not read; each problem is "where: why"."""
    for problem in sorted(problems)[:MAX_UNREAD]:
        yield Finding("unread_file", facts={"problem": problem})
    if len(problems) > MAX_UNREAD:
        yield Finding("unread_files", facts={"count": len(problems) - MAX_UNREAD})


@dataclass(frozen=True, slots=True)
class Excusals:
    """The failures that count, and the excused ones, each in the order of the input."""

    failures: tuple[Failure, ...]
    quarantined: tuple[Excused, ...] = ()
    failing_on_base: tuple[Excused, ...] = ()


def apply_policy(failures: Iterable[Failure], policy: Policy) -> Excusals:
    """Separate the failures that count from those that the quarantine or the base excuses."""
    counting, quarantined, ignored = [], [], []
    for failure in failures:
        key = failure.result.key
        entry = entry_of(policy.quarantine, key.unit_key)
        known = policy.base_failures.get(key)
        if entry is not None:
            until = entry.until.isoformat()
            facts = {"reason": entry.reason, "issue": entry.issue, "until": until}
            reason = Note("quarantined", facts)
            quarantined.append(Excused(failure.shard, failure.result, reason))
        elif known is not None and (
            # A test that failed on the base and dies here counts as a failure.
            known.outcome == failure.result.outcome
            or {known.outcome, failure.result.outcome} == {"failed", "errored"}
        ):
            reason = Note("failing_on_base", {"branch": known.branch, "since_run": known.since_run})
            ignored.append(Excused(failure.shard, failure.result, reason))
        else:
            counting.append(failure)
    return Excusals(tuple(counting), tuple(quarantined), tuple(ignored))


def stale_entries(
    entries: Sequence[Entry],
    final: Mapping[UnitKey, UnitResult],
    planned: Iterable[UnitKey],
    repeats: Mapping[UnitKey, Repeats],
) -> Iterator[Finding]:
    """Find quarantine entries whose tests all passed, and entries that match no test.

    Args:
        final: result of each unit that has a result.
        planned: the planned units.
    """
    keys = sorted({*planned, *final}) if entries else ()
    for entry in entries:
        matching = [key for key in keys if entry.matches(key)]
        if not matching:
            yield Finding("quarantine_stale", facts={"entry": entry.name})
        elif all(_passed(final.get(key), repeats.get(key)) for key in matching):
            yield Finding("quarantine_passed", facts={"entry": entry.name, "count": len(matching)})


def _passed(end: UnitResult | None, repeats: Repeats | None) -> bool:
    """Return whether a unit passed in its first try and in each repeat; a skip is no pass."""
    if end is None or end.status != "good" or end.failures or (repeats and repeats.failed):
        return False
    return any(case.outcome == "passed" for case in end.cases)


def with_moves(missing: Sequence[Missing], blocks: Sequence[MovedBlock]) -> tuple[Missing, ...]:
    """Return the missing units; those of a moved block belong to the shard of the plan.

    A block is a group of tests that an idle leg of another shard may claim. The leg that claimed a
    block has to run its units, and so has a leg that took the block by the owner's record and left
    no record. The owner then has to run none of them. If no record claims the block, its units are
    missing, too.
    """
    if not missing or not blocks:
        return tuple(missing)
    home = {unit.key: block for block in blocks for unit in block.units}
    unclaimed = {block.name: _unclaimed(block) for block in blocks}
    placed = []
    for unit in missing:
        block = home.get(unit.key)
        if block is None:
            placed.append(unit)
            continue
        reason = unclaimed[block.name] or unit.reason
        planned = block.owner if block.owner != unit.shard else ""
        placed.append(replace(unit, reason=reason, planned_shard=planned))
    return tuple(placed)


def _unclaimed(block: MovedBlock) -> Note | None:
    if block.claimers or block.is_lost:
        return None
    if block.earlier is None:
        return Note("claim_without_record", {"claimer": block.taker or None})
    shard, attempt = block.earlier
    # The owner runs the units in any case; the claimer only if it continues its older record.
    return Note("not_claimed_again", {"claimer": shard, "attempt": attempt, "owner": block.owner})


def unclaimed_findings(missing: Iterable[Missing]) -> Iterator[Finding]:
    """Find units of unclaimed blocks; units with equal shard, reason and facts share a finding."""
    groups: dict[tuple[str, str, str], list[Missing]] = defaultdict(list)
    for unit in missing:
        if unit.reason.kind in UNCLAIMED:
            groups[unit.shard, unit.reason.kind, f"{unit.reason.facts}"].append(unit)
    for (shard, kind, _), units in sorted(groups.items()):
        yield Finding(kind, shard, tuple(unit.key for unit in units), units[0].reason.facts)


def _find_repeats(
    plan: Plan, legs: Iterable[LegResult], final: Mapping[UnitKey, UnitResult]
) -> Mapping[UnitKey, Repeats]:
    """Return the repeats of each test that was to be repeated, by the leg that gave its result.

    Repeats change no result. A fork controls its records, so only planned units that passed count.
    A planned unit without lines on repeats counts if it passed. A retry counts as a repeat.
    """
    changes = {
        unit.key: unit.change for shard in plan.shards for unit in shard.units if unit.change
    }
    repeats: dict[UnitKey, Repeats] = {}
    for leg in legs if plan.drill is None else ():
        found = repeats_of(leg.record) if leg.record is not None else {}
        for key in (changes.keys() | found.keys()) & leg.planned & leg.units.keys():
            result = leg.units[key]
            passed = any(one.outcome == "passed" for one in result.cases)
            if result is final[key] and result.status == "good" and (key in found or passed):
                change = "changed" if changes.get(key) == "changed" else "new"
                retried = _retries(result) if passed else Repeats("")
                repeats[key] = replace(found.get(key, retried), change=change)
    return dict(sorted(repeats.items(), key=lambda item: (-item[1].failed, item[0])))


def _retries(result: UnitResult) -> Repeats:
    """Return the tries of a unit that passed in a retry, if its failures were not out of memory."""
    failed = max(result.count_failed_attempts().values(), default=0)
    message = result.failures[0].message if failed else None
    return Repeats("", int(failed > 0), failed, message or "")


def _check_repeats(repeats: Mapping[UnitKey, Repeats], policy: Policy) -> Iterator[Finding]:
    """Find the tests that failed in a repeat; the worst are named, the others counted."""

    def level(keys: Sequence[UnitKey]) -> Level:
        is_excused = all(entry_of(policy.quarantine, key) for key in keys)
        return "failed" if policy.new_tests == "enforce" and not is_excused else "warning"

    failed = [key for key, found in repeats.items() if found.failed]
    failed.sort(key=lambda key: bool(repeats[key].dependence))
    for key in failed[:MAX_NAMED]:
        found = replace(repeats[key], message=first_line(repeats[key].message))
        facts = {**asdict(found), "test": unit_name(key), "count": found.passed + found.failed}
        kind = f"new_test_fails_{found.dependence}" if found.dependence else "flaky_new_test"
        yield Finding(kind, facts=facts, stated_level=level([key]))
    if rest := failed[MAX_NAMED:]:
        yield Finding("more_flaky_new_tests", facts={"count": len(rest)}, stated_level=level(rest))
