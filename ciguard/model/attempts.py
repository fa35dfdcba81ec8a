"""Which result counts: from all results of a unit to the final ones of it and its cases. Pure.

An attempt is one execution of a unit: a process that ran it, and in that process the number that
the program gives a repeated case (`Result.try_number`). A result without a process is of process 0.
All results are of one record; which run attempt of a leg counts is decided before.

1. The final result of a case is that of its last attempt. Where several results claim that attempt,
   the worst counts, of equal ones the longest: a pass cannot hide a failure, and no order of lines
   decides.
2. The last process that ran the unit supersedes what earlier processes reported. But a case that
   failed or errored, and has no result in the last process, stays failed: it has not passed since.
3. A result of the unit as a whole, as that of a death is, speaks of all its cases, so that any
   later process of the unit supersedes it.
4. A unit is unfinished where its last attempt began and has no result, or where a final result is
   of a case that its leg stopped (deadline, cancelled, lost runner). Else the unit is as its worst
   final result is.
5. A failure that is not final is superseded. A unit or case that is good after a superseded failure
   is flaky. If memory ran out under each of these failures it is not flaky, and only passed after
   an out-of-memory retry: beside less it passes, and always did. An attempt that went right, as
   that of a predecessor which is executed again with a failed unit, is no failure; neither is an
   attempt that its leg stopped, nor a death of another unit's making (`find_bystanders`). What a
   plugin of the framework executed again (`Result.reruns`) is a failure.
6. A superseded failure is one of its case. A failure of the unit as a whole, or of a case without a
   final result, is one of every case of the unit.
7. Times and sizes are those of final results; a unit's time is the sum over its cases. A final
   result that died or did not complete is censored, a lower bound (`history/query.py`, by columns).
8. Of results of several legs the worst final one counts (`severity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, AbstractSet, Final, Iterable, Literal, Mapping, Sequence, Tuple

from ciguard.model.types import BAD_OUTCOMES, ENDINGS, SLOTS, CaseKey, Outcome, UnitKey

if TYPE_CHECKING:
    from ciguard.model.record import Record, Result, StartLine

UnitName = Tuple[str, str, str]  # equal to its UnitKey, which takes five times as long to make
Status = Literal["good", "bad", "unfinished"]
STATUSES: Final[tuple[Status, ...]] = ("good", "bad", "unfinished")  # the worst last
# Of two good results the one that says more.
_OUTCOMES: Final[tuple[Outcome, ...]] = ("skipped", "passed", "failed", "errored", "died")


# Not frozen, and never changed: a frozen one takes twice as long to make, and a run has a million.
@dataclass(unsafe_hash=True, **SLOTS)
class UnitResult:
    """What a unit came to in one leg.

    Attributes:
        cases: the final result of each case, by case; at least one.
        failures: superseded ones, in the order of their attempts; a rerun of a plugin, of which
            only the message is known, is a copy of its result with the outcome "failed".
    """

    status: Status
    cases: tuple[Result, ...]
    failures: tuple[Result, ...] = ()

    @property
    def is_over(self) -> bool:
        """Say that the unit has a final result: its last attempt ended by itself."""
        return self.status != "unfinished"

    @property
    def is_flaky(self) -> bool:
        """Say that the unit is good after a failure for which not only memory is to blame."""
        return self.status == "good" and any(not one.ran_out_of_memory for one in self.failures)

    @property
    def passed_after_oom(self) -> bool:
        """Say that the unit is good after failures for which only memory is to blame."""
        return bool(self.status == "good" and self.failures) and not self.is_flaky

    def count_failed_attempts(self) -> dict[CaseKey, int]:
        """By case, how many attempts failed before its final result, memory aside; no zeros."""
        shared: set[tuple[int, int]] = set()
        own: dict[CaseKey, set[tuple[int, int]]] = {one.key: set() for one in self.cases}
        for failure in self.failures:
            if not failure.ran_out_of_memory:
                own.get(failure.key, shared).add(_attempt(failure))
        counts = {key: len(found | shared) for key, found in own.items()}
        return {key: count for key, count in counts.items() if count}


@dataclass(frozen=True, **SLOTS)
class FinalResults:
    """The final result of every case of a leg.

    Attributes:
        failed_attempts: by case, how many attempts failed before its final result, memory aside;
            a good case that is listed here is flaky.
    """

    results: Sequence[Result]
    failed_attempts: Mapping[CaseKey, int]


def classify_result(result: Result) -> Status:
    """Whether a result is good or bad; an ending that is no verdict outranks the outcome."""
    if result.ending == "completed" and result.outcome not in BAD_OUTCOMES:
        return "good"
    return "bad" if result.is_failure else "unfinished"


def severity(result: Result) -> tuple[int, int, int]:
    """Sort key of results that claim the same place, the worst last; equal for equal words only."""
    status = STATUSES.index(classify_result(result))
    return status, _OUTCOMES.index(result.outcome), ENDINGS.index(result.ending)


def resolve_attempts(results: Sequence[Result], last_start: int | None = None) -> UnitResult:
    """Find the final results of a unit. O(results).

    Args:
        results: all of the unit in one leg, in any order, at least one.
        last_start: number of the last process in which the unit began, where that is known.
    """
    if len(results) == 1:  # nearly all units, and a run has a million
        only = results[0]
        is_cut = last_start is not None and last_start > (only.process or 0)
        status: Status = "unfinished" if is_cut else classify_result(only)
        return UnitResult(status, (only,), _reruns(results) if only.reruns else ())
    last = max(result.process or 0 for result in results)
    latest = _latest_by_case(results)
    cases = tuple(
        result
        for _, result in sorted(latest.items())
        if (result.process or 0) == last or _is_case_failure(result)
    )
    failures = _superseded(results, {_case(one): _attempt(one) for one in cases})
    if last_start is not None and last_start > last:
        return UnitResult("unfinished", cases, failures)
    return UnitResult(max(map(classify_result, cases), key=STATUSES.index), cases, failures)


def find_bystanders(results: Sequence[Result]) -> dict[tuple[int, UnitKey], UnitKey]:
    """Find the units that only ran beside one that ended their process. O(results).

    Each of several that ran then runs again, alone. One that dies there in the same way did it, and
    what ends there by itself did not. Where none dies again, each of them may have done it.

    Returns:
        By process and unit, the one that did it.
    """
    deaths = [one for one in results if one.outcome == "died"]
    shared = [one for one in deaths if (one.concurrent or 1) > 1]
    if not shared:
        return {}
    alone = {(one.key.unit_key, one.ending) for one in deaths if (one.concurrent or 1) == 1}
    dead = {key for key, _ in alone}
    deaths.sort(key=lambda one: one.key, reverse=True)  # of two culprits the first is named
    culprits = {
        one.process or 0: one.key.unit_key
        for one in deaths
        if (one.key.unit_key, one.ending) in alone
    }
    ended = {(one.key.unit_key, one.process or 0) for one in results if one.outcome != "died"}
    last = dict(sorted(ended))
    places = [(one.process or 0, one.key.unit_key) for one in shared]
    return {
        (process, key): culprits[process]
        for process, key in places
        if process in culprits and key not in dead and last.get(key, 0) > process
    }


def _without_bystanders(results: Iterable[Result]) -> Sequence[Result]:
    """The results without those deaths that other units brought about."""
    every = tuple(results)
    beside = find_bystanders(every)
    if not beside:
        return every
    places = ((one, (one.process or 0, one.key.unit_key)) for one in every)
    return [one for one, place in places if one.outcome != "died" or place not in beside]


def resolve_units(
    results: Iterable[Result], last_start: Mapping[UnitName, int]
) -> dict[UnitKey, UnitResult]:
    """Find the final results of every unit of a leg; `last_start` as `last_starts` gives it."""
    grouped: dict[UnitKey, list[Result]] = {}
    for result in _without_bystanders(results):
        of_unit = grouped.setdefault(UnitKey(result.suite, result.variant, result.unit), [])
        of_unit.append(result)
    return {key: resolve_attempts(found, last_start.get(key)) for key, found in grouped.items()}


def record_units(
    record: Record, closing: AbstractSet[str] = frozenset()
) -> dict[UnitKey, UnitResult]:
    """Find the final results of every unit of a record, and so which of its units are over.

    A unit of a suite whose program closes units is over once its last process closed it: a leg that
    is killed cannot name the others. A unit that died has a result that tells so. A result file of
    another job has no process, and closes no unit.

    Args:
        closing: suites whose programs say when a unit is over.
    """
    units = resolve_units(record.results, last_starts(record.starts))
    if not closing:
        return units
    closed = {
        (event.process or 0, event.suite, event.variant, event.unit)
        for event in record.events
        if event.kind == "closed"
    }
    for key, unit in units.items():
        process = max(case.process or 0 for case in unit.cases)
        has_died = any(case.outcome == "died" for case in unit.cases)
        if not process or key.suite not in closing or has_died:
            continue
        if (process, *key) not in closed:
            units[key] = UnitResult("unfinished", unit.cases, unit.failures)
    return units


def final_results(results: Iterable[Result]) -> FinalResults:
    """Find the final result of every case of a leg. O(results), 0.3 us for a unit's only one."""
    first: dict[tuple[str, str, str], Result] = {}
    several: dict[tuple[str, str, str], list[Result]] = {}
    for result in _without_bystanders(results):
        key = result.suite, result.variant, result.unit
        known = first.setdefault(key, result)
        if known is not result:
            several.setdefault(key, [known]).append(result)
        elif result.reruns:
            several[key] = [result]
    found = [result for key, result in first.items() if key not in several]
    failed_attempts: dict[CaseKey, int] = {}
    for of_unit in several.values():
        unit = resolve_attempts(of_unit)
        found.extend(unit.cases)
        failed_attempts.update(unit.count_failed_attempts() if unit.failures else {})
    return FinalResults(found, failed_attempts)


def last_starts(starts: Iterable[StartLine]) -> dict[UnitName, int]:
    """The units that began, each with the number of the last process in which it did."""
    found: dict[UnitName, int] = {}
    for line in starts:
        key, process = (line.suite, line.variant, line.unit), line.process or 0
        if found.setdefault(key, process) < process:
            found[key] = process
    return found


def _case(result: Result) -> str:
    return result.case or result.unit


def _attempt(result: Result) -> tuple[int, int]:
    return result.process or 0, result.try_number


def _is_case_failure(result: Result) -> bool:
    return result.outcome in ("failed", "errored") and result.case not in ("", result.unit)


def _latest_by_case(results: Iterable[Result]) -> dict[str, Result]:
    latest: dict[str, Result] = {}
    for result in results:
        case = _case(result)
        known = latest.get(case)
        if known is None or _rank(result) > _rank(known):
            latest[case] = result
    return latest


def _rank(result: Result) -> tuple[tuple[int, int], tuple[int, int, int], float]:
    return _attempt(result), severity(result), -1.0 if result.wall_s is None else result.wall_s


def _superseded(
    results: Sequence[Result], final: Mapping[str, tuple[int, int]]
) -> tuple[Result, ...]:
    """Failures of other attempts than those that are final."""
    failed = (one for one in results if one.is_failure and _attempt(one) != final.get(_case(one)))
    found = [*failed, *_reruns(results)]
    return tuple(sorted(found, key=lambda one: (_attempt(one), _case(one)))) if found else ()


def _reruns(results: Sequence[Result]) -> tuple[Result, ...]:
    """What failed within an attempt that passed in the end."""
    return tuple(
        [
            replace(one, outcome="failed")
            for one in results
            if one.reruns is not None and one.reruns > 0 and one.outcome == "passed"
        ]
    )
