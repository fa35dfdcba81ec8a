"""Repeats of new and changed tests, and those that failed in one. Pure.

They change no result. A fork controls its records: only planned units that passed count.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from ciguard.codec.quarantine import entry_of
from ciguard.document import first_line
from ciguard.guard.verdict import Finding, Level, Policy
from ciguard.model.probes import Repeats, repeats_of
from ciguard.text import MAX_NAMED, unit_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ciguard.guard.legs import LegResult
    from ciguard.model import Plan, UnitKey
    from ciguard.model.attempts import UnitResult


def find_repeats(
    plan: Plan, legs: Iterable[LegResult], final: Mapping[UnitKey, UnitResult]
) -> Mapping[UnitKey, Repeats]:
    """Return the repeats of each test that was to be repeated, of the leg that gave its result.

    Without a line on its repeats, it is one that passed. A retry counts as a repeat.
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
    """Return the tries of a unit that passed in a retry, if it did not run out of memory before."""
    failed = max(result.count_failed_attempts().values(), default=0)
    message = result.failures[0].message if failed else None
    return Repeats("", int(failed > 0), failed, message or "")


def check_repeats(repeats: Mapping[UnitKey, Repeats], policy: Policy) -> Iterator[Finding]:
    """Find the tests that failed in a repeat: the worst are named, the others counted."""

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
