"""The rules that select the final result of a unit and of its cases among all its results. Pure.

An attempt is one execution of a unit: a process that ran the unit, and the number that the program
gives to a repeated case in this process (`Result.try_number`). A result without a process has
process 0. All results are of one record, whose run attempt the caller has chosen.

1. The final result of a case is that of its last attempt. If several results claim this attempt,
   the worst one counts, and among equal ones the longest. So a pass cannot hide a failure, and the
   order of lines does not matter.
2. The last process that ran the unit supersedes earlier processes. But a case that failed or
   errored, and has no result in the last process, stays failed: it has not passed since.
3. A result of the unit as a whole, such as its death, counts for all its cases. Any later process
   of the unit supersedes this result.
4. A unit is unfinished if its last attempt began and has no result, or if the leg stopped a case
   (deadline, cancelled, lost runner) whose result is final. Otherwise the worst final result gives
   the status of the unit.
5. A failure that is not final is superseded. A unit or case that is good after a superseded failure
   is flaky. If all these failures ran out of memory, the unit is not flaky: it passes with fewer
   neighbours. Three results are no failures: an attempt that passed, an attempt that the leg
   stopped, and a death that another unit caused (`find_bystanders`). An execution that a plugin of
   the framework repeated (`Result.reruns`) is a failure.
6. A superseded failure belongs to its case. A failure of the unit as a whole, or of a case without
   a final result, belongs to every case of the unit.
7. Times and sizes are those of final results. The time of a unit is the sum over its cases. A final
   result that died or did not complete is censored, a lower bound (`history/query.py`).
8. Among the results of several legs, the worst final result counts (`severity`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import AbstractSet, Final, Iterable, Literal, Mapping, Sequence, Tuple

from ciguard.model.record import Record, Result, StartLine
from ciguard.model.types import BAD_OUTCOMES, ENDINGS, SLOTS, CaseKey, Outcome, UnitKey

UnitName = Tuple[str, str, str]  # equal to a UnitKey, but built in a fifth of its time
Status = Literal["good", "bad", "unfinished"]
STATUSES: Final[tuple[Status, ...]] = ("good", "bad", "unfinished")  # the worst last
# In ascending severity: of two good results "passed" counts.
_OUTCOMES: Final[tuple[Outcome, ...]] = ("skipped", "passed", "failed", "errored", "died")


# Not frozen, but never changed: a frozen object takes twice as long, and a run has a million.
@dataclass(unsafe_hash=True, **SLOTS)
class UnitResult:
    """The final results of a unit in one leg.

    Attributes:
        cases: the final result of each case, by case; at least one.
        failures: superseded failures, in the order of their attempts. A rerun by a plugin, of which
            only the message is known, is a copy of its result with the outcome "failed".
    """

    status: Status
    cases: tuple[Result, ...]
    failures: tuple[Result, ...] = ()

    @property
    def is_over(self) -> bool:
        """Return whether the unit has a final result: its last attempt ended by itself."""
        return self.status != "unfinished"

    @property
    def is_flaky(self) -> bool:
        """Return whether the unit is good after a failure that was not out of memory."""
        return self.status == "good" and not all(one.ran_out_of_memory for one in self.failures)

    @property
    def passed_after_oom(self) -> bool:
        """Return whether the unit is good, and all its earlier failures ran out of memory."""
        return bool(self.status == "good" and self.failures) and not self.is_flaky

    def count_failed_attempts(self) -> dict[CaseKey, int]:
        """Count by case the failed attempts that did not run out of memory; omit zeros."""
        shared: set[tuple[int, int]] = set()
        own: dict[CaseKey, set[tuple[int, int]]] = {case.key: set() for case in self.cases}
        for failure in self.failures:
            if not failure.ran_out_of_memory:
                own.get(failure.key, shared).add(_attempt(failure))
        counts = {key: len(attempts | shared) for key, attempts in own.items()}
        return {key: count for key, count in counts.items() if count}


@dataclass(frozen=True, **SLOTS)
class FinalResults:
    """The final result of every case of a leg.

    Attributes:
        failed_attempts: by case, number of failed attempts before the final result, without those
            that ran out of memory; a good case that is listed here is flaky.
    """

    results: Sequence[Result]
    failed_attempts: Mapping[CaseKey, int]


def classify_result(result: Result) -> Status:
    """Return the status of a result; an inconclusive ending has precedence over the outcome."""
    if result.ending == "completed" and result.outcome not in BAD_OUTCOMES:
        return "good"
    return "bad" if result.is_failure else "unfinished"


def severity(result: Result) -> tuple[int, int, int]:
    """Return the sort key of results of one case, the worst last; ties are equal in all words."""
    status = STATUSES.index(classify_result(result))
    return status, _OUTCOMES.index(result.outcome), ENDINGS.index(result.ending)


def resolve_attempts(results: Sequence[Result], last_start: int | None = None) -> UnitResult:
    """Find the final results of a unit. O(results).

    Args:
        results: all of the unit in one leg, in any order, at least one.
        last_start: number of the last process in which the unit began, if known.
    """
    if len(results) == 1:  # a shortcut: nearly all of a million units have one result
        result = results[0]
        is_cut = last_start is not None and last_start > (result.process or 0)
        status: Status = "unfinished" if is_cut else classify_result(result)
        return UnitResult(status, (result,), _reruns(results) if result.reruns else ())
    last = max(result.process or 0 for result in results)
    latest: dict[str, Result] = {}
    for result in results:
        known = latest.get(_case(result))
        if known is None or _rank(result) > _rank(known):
            latest[_case(result)] = result
    cases = tuple(
        result
        for _, result in sorted(latest.items())
        if (result.process or 0) == last
        or (result.outcome in ("failed", "errored") and result.case not in ("", result.unit))
    )
    failures = _superseded(results, {_case(case): _attempt(case) for case in cases})
    if last_start is not None and last_start > last:
        return UnitResult("unfinished", cases, failures)
    return UnitResult(max(map(classify_result, cases), key=STATUSES.index), cases, failures)


def find_bystanders(results: Sequence[Result]) -> dict[tuple[int, UnitKey], UnitKey]:
    """Find the units that died with a process because of a concurrent unit. O(results).

    After the death of a process, each of its concurrent units runs again, alone. A unit that dies
    alone in the same way is the culprit. A unit that ends by itself when alone is a bystander. If
    no unit dies again, each of them may be the culprit.

    Returns:
        The culprit, by process and bystander.
    """
    deaths = [result for result in results if result.outcome == "died"]
    concurrent = [death for death in deaths if (death.concurrent or 1) > 1]
    if not concurrent:
        return {}
    alone = {(death.key.unit_key, death.ending) for death in deaths if (death.concurrent or 1) == 1}
    died_alone = {key for key, _ in alone}
    deaths.sort(key=lambda death: death.key, reverse=True)  # the first of two culprits is named
    culprits = {
        death.process or 0: death.key.unit_key
        for death in deaths
        if (death.key.unit_key, death.ending) in alone
    }
    ended = {_execution(result)[::-1] for result in results if result.outcome != "died"}
    last_process = dict(sorted(ended))
    return {
        (process, key): culprits[process]
        for process, key in map(_execution, concurrent)
        if process in culprits and key not in died_alone and last_process.get(key, 0) > process
    }


def _execution(result: Result) -> tuple[int, UnitKey]:
    return result.process or 0, result.key.unit_key


def _without_bystanders(results: Iterable[Result]) -> Sequence[Result]:
    """Drop deaths that other units caused."""
    every = tuple(results)
    bystanders = find_bystanders(every)
    if not bystanders:
        return every
    return [
        result
        for result in every
        if result.outcome != "died" or _execution(result) not in bystanders
    ]


def resolve_units(
    results: Iterable[Result], last_start: Mapping[UnitName, int]
) -> dict[UnitKey, UnitResult]:
    """Return the final results of every unit of a leg; `last_start` is that of `last_starts`."""
    by_unit: dict[UnitKey, list[Result]] = {}
    for result in _without_bystanders(results):
        key = UnitKey(result.suite, result.variant, result.unit)
        by_unit.setdefault(key, []).append(result)
    return {key: resolve_attempts(group, last_start.get(key)) for key, group in by_unit.items()}


def record_units(
    record: Record, closing: AbstractSet[str] = frozenset()
) -> dict[UnitKey, UnitResult]:
    """Return the final results of every unit of a record.

    If the program of a suite reports the end of each unit (event `closed`), a unit without this
    event from its last process is unfinished: a killed leg cannot name the units that it cut. A
    unit that died has a result of its death instead. Result files of other jobs have no process,
    and all their units count as closed.

    Args:
        closing: suites whose programs report the end of each unit.
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
    """Return the final result of every case of a leg. O(results), 0.3 us for a single result."""
    first: dict[UnitName, Result] = {}
    several: dict[UnitName, list[Result]] = {}
    for result in _without_bystanders(results):
        key = result.suite, result.variant, result.unit
        known = first.setdefault(key, result)
        if known is not result:
            several.setdefault(key, [known]).append(result)
        elif result.reruns:
            several[key] = [result]
    final = [result for key, result in first.items() if key not in several]
    failed_attempts: dict[CaseKey, int] = {}
    for results_of_unit in several.values():
        unit = resolve_attempts(results_of_unit)
        final.extend(unit.cases)
        failed_attempts.update(unit.count_failed_attempts() if unit.failures else {})
    return FinalResults(final, failed_attempts)


def last_starts(starts: Iterable[StartLine]) -> dict[UnitName, int]:
    """Return the units that began, each with the number of the last process that began it."""
    last: dict[UnitName, int] = {}
    for line in starts:
        key, process = (line.suite, line.variant, line.unit), line.process or 0
        if last.setdefault(key, process) < process:
            last[key] = process
    return last


def _case(result: Result) -> str:
    return result.case or result.unit


def _attempt(result: Result) -> tuple[int, int]:
    return result.process or 0, result.try_number


def _rank(result: Result) -> tuple[tuple[int, int], tuple[int, int, int], float]:
    return _attempt(result), severity(result), -1.0 if result.wall_s is None else result.wall_s


def _superseded(
    results: Sequence[Result], final: Mapping[str, tuple[int, int]]
) -> tuple[Result, ...]:
    """Return the failures of attempts that are not final."""
    failed = [
        result
        for result in results
        if result.is_failure and _attempt(result) != final.get(_case(result))
    ]
    failed += _reruns(results)
    return tuple(sorted(failed, key=lambda result: (_attempt(result), _case(result))))


def _reruns(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return the failures within attempts that passed in the end."""
    return tuple(
        replace(result, outcome="failed")
        for result in results
        if result.reruns is not None and result.reruns > 0 and result.outcome == "passed"
    )
