"""Planned units against recorded results: exactly one final outcome each, or it is named. Pure.

The expected legs come from the plan, never from what arrived: no job can detect its own absence.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

from ciguard.guard.diagnosis import is_from_result_files
from ciguard.guard.failure_groups import find_hotspots, group_failures
from ciguard.guard.github_facts import RunFacts
from ciguard.guard.job_checks import check_jobs, check_needs
from ciguard.guard.legs import LegResult, exited_with_failures, leg_findings, leg_row, read_leg
from ciguard.guard.policy import Excusals, Policy, apply_policy, stale_entries
from ciguard.guard.record_selection import Selection, select
from ciguard.guard.run_checks import check_inventory, check_nothing_ran, check_stale_plan
from ciguard.guard.verdict import Failure, Finding, Flaky, Level, Missing, Reason, State, Verdict
from ciguard.model import OUTCOMES, UnitKey
from ciguard.model.attempts import STATUSES, classify_result, last_starts, resolve_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.job_checks import NeededJob
    from ciguard.model import Outcome, Plan, Record, Suite
    from ciguard.model.attempts import UnitResult

_LEVELS: Final[tuple[Level, ...]] = ("incomplete", "failed", "warning")
# One value for all units that it is true of: of many lost shards there are 100,000.
_NO_RECORD: Final = Reason("shard_without_record")
_UNFINISHED: Final = Reason("unfinished")
_NOT_STARTED: Final = Reason("not_started")
_NOT_MENTIONED: Final = Reason("not_mentioned")


def prove(
    plan: Plan,
    records: Iterable[Record],
    needs: Sequence[NeededJob] | None = None,
    *,
    configured: Mapping[str, Suite] | None = None,
    platform: RunFacts | None = None,
    policy: Policy = Policy(),  # noqa: B008  # frozen, so sharing it is harmless
    extra_findings: Sequence[Finding] = (),
) -> Verdict:
    """Judge a run.

    Args:
        plan: the contract.
        records: all that arrived, of any plan, run and attempt, in any order.
        needs: what GitHub says of the jobs before this one, where it was asked.
        configured: the suites as they are now; only a plan that is kept can be older.
        platform: what GitHub says of the jobs of the legs, where it was asked.
        policy: what it is judged by beside the plan.
        extra_findings: what was found where the records come from.

    Returns:
        The same verdict for any order of the records. O(results).
    """
    facts = platform if platform is not None and platform.unknown is None else RunFacts()
    # Which run is judged is known also where GitHub says nothing of its jobs.
    known = platform if platform is not None else facts
    selection = select(plan, records, facts.attempts, known.run_id, known.head_shas)
    legs = _legs(plan, selection, facts)
    planned = frozenset[UnitKey]().union(*(leg.planned for leg in legs))
    final, doubled = _final_results(legs)
    missing = tuple(_missing(legs, final))
    lost = {
        shard: tuple(one.key for one in found)
        for shard, found in groupby(missing, key=lambda one: one.shard)
    }
    excusals = apply_policy(_failures(legs), policy)
    failures = excusals.failures
    causes = group_failures(failures)
    found = [
        *extra_findings,
        *selection.findings,
        *policy.findings,
        *check_inventory(plan, policy, planned),
        *_leg_findings(plan, legs, lost),
        *_unplanned_and_doubled(legs, planned, doubled),
    ]
    if configured is not None and plan.policy.run_unplanned:
        found.extend(check_stale_plan(plan, configured))
    if platform is not None:
        found.extend(check_jobs(legs, platform))
    found.extend(stale_entries(policy.quarantine, final, planned))
    found.extend(check_nothing_ran(final, planned))
    if needs is not None:
        found.extend(_needs_findings(needs, legs, excusals, found))
    findings = tuple(sorted(found, key=_order))
    state = _state(failures, missing, findings)
    flaky_units = tuple(_flaky(legs, final, selection))
    return Verdict(
        state=state,
        plan_id=plan.id,
        planned=len(planned),
        with_result=len(planned) - len({one.key for one in missing}),
        legs=tuple(map(leg_row, legs)),
        failures=failures,
        flaky=tuple(one for one in flaky_units if not one.ran_out_of_memory),
        passed_after_oom=tuple(one for one in flaky_units if one.ran_out_of_memory),
        missing=missing,
        findings=findings,
        counts=_counts(legs),
        quarantined=excusals.quarantined,
        failing_on_base=excusals.failing_on_base,
        failure_groups=causes,
        hotspots=find_hotspots(causes, plan.suites),
    )


def _leg_findings(
    plan: Plan, legs: Sequence[LegResult], lost: Mapping[str, tuple[UnitKey, ...]]
) -> Iterator[Finding]:
    for leg in legs:
        yield from leg_findings(leg, lost.get(leg.shard.key, ()), plan.policy.max_tries)


def _needs_findings(
    needs: Sequence[NeededJob],
    legs: Sequence[LegResult],
    weighed: Excusals,
    findings: Sequence[Finding],
) -> Iterator[Finding]:
    """What the jobs before this one say, in the light of what was found without them."""
    excused = bool(weighed.quarantined or weighed.failing_on_base)
    explained = excused or bool(weighed.failures) or any(exited_with_failures(leg) for leg in legs)
    red = bool(weighed.failures) or any(finding.level == "failed" for finding in findings)
    names = {_job(leg) for leg in legs}
    return check_needs(needs, is_explained=explained, is_excused=excused and not red, names=names)


def _job(leg: LegResult) -> str:
    """The job of a matrix as `needs` calls it, as far as the record of a leg tells."""
    header = leg.record.header if leg.record is not None else None
    return (header.job or "").partition(" (")[0] if header is not None else ""


def _legs(plan: Plan, selection: Selection, facts: RunFacts) -> list[LegResult]:
    return [
        read_leg(
            shard,
            selection.newest.get(shard.key),
            selection.rejected.get(shard.key),
            facts.legs.get(shard.key),
        )
        for shard in plan.shards
    ]


def _counts(legs: Iterable[LegResult]) -> dict[Outcome, int]:
    counts: Counter[Outcome] = Counter()
    for leg in legs:
        counts.update(leg.counts)
    return {outcome: counts[outcome] for outcome in OUTCOMES if counts[outcome]}


def _order(finding: Finding) -> tuple[int, str, str, str]:
    return _LEVELS.index(finding.level), finding.shard, finding.kind, f"{finding.facts}"


def _state(
    failures: Sequence[Failure], missing: Sequence[Missing], findings: Sequence[Finding]
) -> State:
    levels = {finding.level for finding in findings}
    if missing or "incomplete" in levels:
        return "incomplete"
    return "failed" if failures or "failed" in levels else "passed"


def _final_results(
    legs: Iterable[LegResult],
) -> tuple[dict[UnitKey, UnitResult], set[UnitKey]]:
    """The result of each unit, and the units that ran in several legs.

    Of several results the worst counts: a pass elsewhere cannot hide it. The first of equals.
    """
    final: dict[UnitKey, UnitResult] = {}
    doubled: set[UnitKey] = set()
    for leg in legs:
        again = final.keys() & leg.units.keys()
        doubled |= again
        earlier = {key: final[key] for key in again}
        final.update(leg.units)
        for key, result in earlier.items():
            if STATUSES.index(result.status) >= STATUSES.index(final[key].status):
                final[key] = result
    return final, doubled


def _missing(legs: Iterable[LegResult], final: Mapping[UnitKey, UnitResult]) -> Iterator[Missing]:
    for leg in legs:
        lost = [
            key
            for key in leg.planned
            if (end := final.get(key)) is None or end.status == "unfinished"
        ]
        for key in sorted(lost):
            yield Missing(key, leg.shard.key, _missing_reason(leg, key, final.get(key)))


def _missing_reason(leg: LegResult, key: UnitKey, end: UnitResult | None) -> Reason:
    if leg.record is None:
        return _NO_RECORD
    if end is not None:
        stopped = next((case for case in end.cases if classify_result(case) == "unfinished"), None)
        if stopped is None:
            return Reason("last_try_unfinished")
        return Reason("stopped", {"ending": stopped.ending})
    if key in leg.last_start:
        return _UNFINISHED
    if key in leg.missing_reasons:
        event = leg.missing_reasons[key]
        return Reason("reported", {"event": event.kind, "detail": event.detail})
    if is_from_result_files(leg.record):
        return Reason("no_case")
    if leg.end.problem is not None:
        return _NOT_STARTED
    return _NOT_MENTIONED


def _failures(legs: Iterable[LegResult]) -> Iterator[Failure]:
    found = [
        Failure(leg.shard.key, case)
        for leg in legs
        for end in leg.units.values()
        if end.status != "good"
        for case in end.cases
        if classify_result(case) == "bad"
    ]
    yield from sorted(found, key=lambda failure: (failure.shard, failure.result.key))


def _flaky(
    legs: Iterable[LegResult],
    final: Mapping[UnitKey, UnitResult],
    selection: Selection,
) -> Iterator[Flaky]:
    """Units that went wrong first and right in the end, in this attempt or an earlier one."""
    before: dict[tuple[str, UnitKey], UnitResult] = {
        (shard, key): end
        for shard, records in selection.earlier.items()
        for record in records
        for key, end in resolve_units(record.results, last_starts(record.starts)).items()
        if end.status == "bad"
    }
    found = []
    for leg in legs:
        for key, end in leg.units.items():
            past = before.get((leg.shard.key, key)) if before else None
            failures = end.failures
            if past is not None:
                bad = tuple(case for case in past.cases if classify_result(case) == "bad")
                failures = bad + failures
            if failures and final[key].status == "good":
                first = min(failures, key=lambda one: one.ran_out_of_memory)
                found.append(Flaky(key, leg.shard.key, first))
    yield from sorted(found, key=lambda one: (one.shard, one.key))


def _unplanned_and_doubled(
    legs: Sequence[LegResult], planned: AbstractSet[UnitKey], doubled: AbstractSet[UnitKey]
) -> Iterator[Finding]:
    for leg in legs:
        unplanned = tuple(sorted(leg.units.keys() - planned))
        if unplanned:
            yield Finding("warning", "unplanned", leg.shard.key, unplanned)
    if doubled:
        yield Finding("warning", "ran_in_several_shards", units=tuple(sorted(doubled)))
