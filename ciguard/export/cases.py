"""The cases of a run as other tools count them: each once, those without a result too. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ciguard.guard.github_facts import RunFacts, select_of_run
from ciguard.guard.wording import note_text
from ciguard.model import CaseKey, Plan, Record, Result
from ciguard.model.attempts import classify_result, record_units, severity
from ciguard.model.plan import repository_path
from ciguard.run.frameworks.registry import framework

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.guard.verdict import Verdict


@dataclass(frozen=True, slots=True)
class ExportedCase:
    """A case with its final result; `result` is None where it has none, and then `reason` why.

    Attributes:
        classname, name: as the framework's own JUnit file spells it.
        file: from the repository's root; "" where it is not known.
        failures: superseded ones, in the order of their attempts.
        failed_attempts: how many attempts failed before the final result, memory aside.
    """

    key: CaseKey
    classname: str
    name: str
    shard: str
    file: str = ""
    result: Result | None = None
    failures: tuple[Result, ...] = ()
    failed_attempts: int = 0
    reason: str = ""

    @property
    def is_flaky(self) -> bool:
        """The case is good after a failure for which not only memory is to blame."""
        good = self.result is not None and classify_result(self.result) == "good"
        return good and not self.reason and self.failed_attempts > 0


class Combination(NamedTuple):
    """The cases of one suite and variant, in the order of their names."""

    suite: str
    variant: str
    cases: tuple[ExportedCase, ...]

    @property
    def name(self) -> str:
        """The name of a file of it, without an ending."""
        return "-".join(filter(None, (self.suite, self.variant))) or "tests"


def combinations(
    plan: Plan, records: Iterable[Record], platform: RunFacts | None, verdict: Verdict
) -> tuple[Combination, ...]:
    """All cases of a run, by suite and variant.

    Args:
        records, platform: what the verdict was made of.
    """
    missing = {unit.key: unit for unit in verdict.missing}
    found: dict[CaseKey, ExportedCase] = {}
    for shard, record in select_of_run(plan, records, platform).newest.items():
        for key, unit in record_units(record).items():
            reason = note_text(missing[key].reason) if key in missing else ""
            final, failed_attempts = {case.key for case in unit.cases}, unit.count_failed_attempts()
            for result in unit.cases:
                case = replace(
                    _case(plan, shard, result, reason),
                    # A failure of the unit as a whole is one of every case.
                    failures=tuple(
                        failure
                        for failure in unit.failures
                        if failure.key == result.key or failure.key not in final
                    ),
                    failed_attempts=failed_attempts.get(result.key, 0),
                )
                before = found.get(case.key)
                if before is None or _rank(before) < _rank(case):
                    found[case.key] = case
    with_a_case = {key.unit_key for key in found}
    for key, lost in missing.items():
        if key not in with_a_case:
            case_key = CaseKey(*key, key.unit)
            found[case_key] = _lost(plan, case_key, lost.shard, note_text(lost.reason))
    ordered = sorted(found.values(), key=attrgetter("key"))
    return tuple(
        Combination(suite, variant, tuple(cases))
        for (suite, variant), cases in groupby(ordered, key=lambda case: case.key[:2])
    )


def _case(plan: Plan, shard: str, result: Result, reason: str) -> ExportedCase:
    found = replace(_lost(plan, result.key, shard, reason), result=result)
    if result.classname is not None or result.name is not None:
        found = replace(found, classname=result.classname or "", name=result.name or "")
    file = repository_path(plan.suites, result.suite, result.file)
    return replace(found, file=file) if file else found


def _lost(plan: Plan, key: CaseKey, shard: str, reason: str) -> ExportedCase:
    """A case of which nothing but its name is known."""
    adapter = framework(plan.suites[key.suite].framework)
    classname, name = adapter.junit_name(key.case)
    file = repository_path(plan.suites, key.suite, adapter.file_of(key.unit))
    return ExportedCase(key, classname, name, shard, file, reason=reason)


def _rank(case: ExportedCase) -> tuple[bool, tuple[int, int, int]]:
    """The worst of several legs counts; what was stopped is worst of all."""
    assert case.result is not None
    return bool(case.reason), severity(case.result)


def count_outcomes(cases: Sequence[ExportedCase]) -> Mapping[str, int]:
    """Count cases that passed, were skipped, failed, or are errors: died, or without a result."""
    found = {"passed": 0, "skipped": 0, "failed": 0, "error": 0}
    for case in cases:
        found[status(case)] += 1
    return found


def status(case: ExportedCase) -> str:
    """One of passed, skipped, failed, error."""
    if case.result is None or case.reason:
        return "error"
    if not case.result.is_failure:
        return "skipped" if case.result.outcome == "skipped" else "passed"
    is_failed = case.result.outcome == "failed" and case.result.ending == "completed"
    return "failed" if is_failed else "error"
