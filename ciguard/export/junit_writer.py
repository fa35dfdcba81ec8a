"""The cases of a run, each once, as JUnit XML for services and tools that read it. Pure.

The format has no standard. Names are those of the framework (`Framework.junit_name`), earlier tries
are elements of Surefire, and properties `dd_tags[...]` are those of Datadog.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

from ciguard.guard.github_facts import RunFacts, select_of_run
from ciguard.guard.verdict import Verdict
from ciguard.guard.wording import note_text
from ciguard.model import CaseKey, Plan, Record, Result
from ciguard.model.attempts import record_units, severity
from ciguard.model.plan import repository_path
from ciguard.run.frameworks.registry import framework


@dataclass(frozen=True, slots=True)
class ExportedCase:
    """A case with its final result, or with the reason why it has none.

    Attributes:
        classname, name: as in the framework's own JUnit file.
        file: path from the root of the repository; "" if unknown.
        result: None for a case without any result.
        failures: results of earlier, failed tries, in the order of the tries.
        reason: why the case has no final result; "" for a case that has one.
    """

    key: CaseKey
    classname: str
    name: str
    shard: str
    file: str = ""
    result: Result | None = None
    failures: tuple[Result, ...] = ()
    reason: str = ""


class Combination(NamedTuple):
    """The cases of one suite and variant, by their names; `drill` is the fault of a drill."""

    suite: str
    variant: str
    cases: tuple[ExportedCase, ...]
    drill: str | None

    @property
    def name(self) -> str:
        """Return the name of the file, without a suffix, and of its suite."""
        name = "-".join(filter(None, (self.suite, self.variant))) or "tests"
        return f"drill-{self.drill}-{name}" if self.drill else name


def combinations(
    plan: Plan, records: Iterable[Record], platform: RunFacts | None, verdict: Verdict
) -> tuple[Combination, ...]:
    """Return all cases of a run, by suite and variant.

    Args:
        records, platform: those of which the verdict was made.
    """
    missing = {unit.key: unit for unit in verdict.missing}
    exported: dict[CaseKey, ExportedCase] = {}
    for shard, record in select_of_run(plan, records, platform).newest.items():
        for key, unit in record_units(record).items():
            reason = note_text(missing[key].reason) if key in missing else ""
            final = {case.key for case in unit.cases}
            for result in unit.cases:
                case = replace(
                    _case(plan, shard, result, reason),
                    # A failure of the whole unit counts as a failure of each of its cases.
                    failures=tuple(
                        failure
                        for failure in unit.failures
                        if failure.key == result.key or failure.key not in final
                    ),
                )
                before = exported.get(case.key)
                if before is None or _rank(before) < _rank(case):
                    exported[case.key] = case
    units_with_case = {key.unit_key for key in exported}
    for key, absent in missing.items():
        if key not in units_with_case:
            case_key = CaseKey(*key, key.unit)
            exported[case_key] = _no_result(plan, case_key, absent.shard, note_text(absent.reason))
    ordered = sorted(exported.values(), key=attrgetter("key"))
    return tuple(
        Combination(suite, variant, tuple(cases), plan.drill)
        for (suite, variant), cases in groupby(ordered, key=lambda case: case.key[:2])
    )


def _case(plan: Plan, shard: str, result: Result, reason: str) -> ExportedCase:
    case = replace(_no_result(plan, result.key, shard, reason), result=result)
    if result.classname is not None or result.name is not None:
        case = replace(case, classname=result.classname or "", name=result.name or "")
    file = repository_path(plan.suites, result.suite, result.file)
    return replace(case, file=file) if file else case


def _no_result(plan: Plan, key: CaseKey, shard: str, reason: str) -> ExportedCase:
    """Make a case without a result; the framework derives names and file from the test id."""
    adapter = framework(plan.suites[key.suite].framework)
    classname, name = adapter.junit_name(key.case)
    file = repository_path(plan.suites, key.suite, adapter.file_of(key.unit))
    return ExportedCase(key, classname, name, shard, file, reason=reason)


def _rank(case: ExportedCase) -> tuple[bool, tuple[int, int, int]]:
    """Rank a case of several jobs by severity; a case that was stopped ranks highest."""
    assert case.result is not None
    return bool(case.reason), severity(case.result)


def status(case: ExportedCase) -> str:
    """Return passed, skipped, failed, or error (died, or without a final result)."""
    if case.result is None or case.reason:
        return "error"
    if not case.result.is_failure:
        return "skipped" if case.result.outcome == "skipped" else "passed"
    is_failed = case.result.outcome == "failed" and case.result.ending == "completed"
    return "failed" if is_failed else "error"


NO_RESULT: Final = "ciguard:no-result"
PEAK: Final = "dd_tags[test.memory.peak]"
SHARD: Final = "dd_tags[ci.shard]"
# Characters that no XML 1.0 document can hold, not even as a reference.
_ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(combination: Combination) -> bytes:
    """Encode a document with one test suite for each file of tests."""
    root = ET.Element("testsuites", {"name": combination.name, **_counts(combination.cases)})
    for file, cases in groupby(sorted(combination.cases, key=_group), key=_group):
        members = list(cases)
        suite = ET.SubElement(root, "testsuite", {"name": _text(file), **_counts(members)})
        for case in members:
            suite.append(_testcase(case))
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _group(case: ExportedCase) -> str:
    return case.file or case.classname or case.key.suite or "tests"


def _counts(cases: Sequence[ExportedCase]) -> dict[str, str]:
    counts = Counter(map(status, cases))
    wall_s = sum(case.result.wall_s or 0.0 for case in cases if case.result is not None)
    return {
        "tests": str(len(cases)),
        "failures": str(counts["failed"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
        "time": f"{wall_s:.6f}",
    }


def _testcase(case: ExportedCase) -> ET.Element:
    attributes = {"classname": _text(case.classname), "name": _text(case.name)}
    result = case.result
    if case.file:
        attributes["file"] = _text(case.file)
    if result is not None and result.line is not None:
        attributes["line"] = str(result.line)
    attributes["time"] = f"{(result.wall_s or 0.0) if result is not None else 0.0:.6f}"
    element = ET.Element("testcase", attributes)
    tags = {SHARD: case.shard}
    if result is not None and result.peak_bytes is not None:
        tags[PEAK] = str(result.peak_bytes)
    properties = ET.SubElement(element, "properties")
    for name, value in tags.items():
        ET.SubElement(properties, "property", {"name": name, "value": _text(value)})
    _add_outcome(element, case)
    return element


def _add_outcome(element: ET.Element, case: ExportedCase) -> None:
    """Add the element of the outcome, except for a pass, then elements of the earlier tries."""
    outcome = status(case)
    if case.result is None or case.reason:
        ET.SubElement(element, "error", {"type": NO_RESULT, "message": _text(case.reason)})
        return
    if outcome == "skipped":
        ET.SubElement(element, "skipped", {"message": _first_line(case.result)})
    elif outcome != "passed":
        name = "failure" if outcome == "failed" else "error"
        _add_failure(element, name, case.result)
    prefix = "rerun" if outcome in ("failed", "error") else "flaky"
    for failure in case.failures:
        suffix = "Failure" if failure.outcome == "failed" else "Error"
        _add_failure(element, prefix + suffix, failure)


def _add_failure(element: ET.Element, name: str, result: Result) -> None:
    kind = result.ending if result.ending != "completed" else result.outcome
    attributes = {"type": kind, "message": _first_line(result)}
    ET.SubElement(element, name, attributes).text = _text(result.message or "")


def _first_line(result: Result) -> str:
    return _text((result.message or "").partition("\n")[0])


def _text(text: str) -> str:
    return _ILLEGAL.sub(lambda match: f"#x{ord(match[0]):02X}", text)
