"""JUnit XML for services and tools that read it. Pure.

The format has no standard. Names are those of the framework (`Framework.junit_name`), earlier tries
are elements of Surefire, and properties `dd_tags[...]` are those of Datadog.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from ciguard.export.cases import Combination, ExportedCase, count_outcomes, status

if TYPE_CHECKING:
    from ciguard.model import Result

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
    counts = count_outcomes(cases)
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
