"""Failures that do not count: quarantined, or failing on the base too; and stale entries. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.codec.quarantine import entry_of
from ciguard.guard.verdict import Excused, Failure, Finding, Policy
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.codec.quarantine import Entry
    from ciguard.model import Outcome, UnitKey
    from ciguard.model.attempts import UnitResult


@dataclass(frozen=True, slots=True)
class Excusals:
    """Failures that count, and those that do not, each in the order in which they came."""

    failures: tuple[Failure, ...]
    quarantined: tuple[Excused, ...] = ()
    failing_on_base: tuple[Excused, ...] = ()


def apply_policy(failures: Iterable[Failure], policy: Policy) -> Excusals:
    """Tell failures apart. A unit without a result is none: nothing excuses that."""
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
        elif known is not None and _same_failure(known.outcome, failure.result.outcome):
            reason = Note("failing_on_base", {"branch": known.branch, "since_run": known.since_run})
            ignored.append(Excused(failure.shard, failure.result, reason))
        else:
            counting.append(failure)
    return Excusals(tuple(counting), tuple(quarantined), tuple(ignored))


def _same_failure(before: Outcome, now: Outcome) -> bool:
    """A test that died where it failed on the base is worse than there, and counts."""
    return before == now or {before, now} == {"failed", "errored"}


def stale_entries(
    entries: Sequence[Entry], final: Mapping[UnitKey, UnitResult], planned: Iterable[UnitKey]
) -> Iterator[Finding]:
    """Entries whose tests passed, and those that mean nothing any more.

    Args:
        final: how units ended.
        planned: planned units, with or without an end.
    """
    keys = sorted({*planned, *final}) if entries else ()
    for entry in entries:
        matching = [key for key in keys if entry.matches(key)]
        if not matching:
            yield Finding("quarantine_stale", facts={"entry": entry.name})
        elif all(_passed(final.get(key)) for key in matching):
            facts = {"entry": entry.name, "count": len(matching)}
            yield Finding("quarantine_passed", facts=facts)


def _passed(end: UnitResult | None) -> bool:
    """Say that a unit passed at once. One that was skipped has shown nothing."""
    if end is None or end.status != "good" or end.failures:
        return False
    return any(case.outcome == "passed" for case in end.cases)
