"""PHPUnit's TeamCity log as it grows: a line in, lines of the record out. Pure.

A unit is the file of a test class, or a .phpt file; tests and their data sets are cases.
https://www.jetbrains.com/help/teamcity/service-messages.html
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Mapping, Optional, Set

Line = Dict[str, Any]
MESSAGE = re.compile(r"##teamcity\[(\w+)((?: \w+='(?:\|.|[^'|])*')*)\]\s*$")
ATTRIBUTE = re.compile(r" (\w+)='((?:\|.|[^'|])*)'")
ESCAPED = re.compile(r"\|(.)")
CONTROLS = {"n": "\n", "r": "\r"}
PLACE = re.compile(r"(.+):(\d+)$")
# A risky test is logged as a failed one, by a text of PHPUnit and without a trace.
RISKY = re.compile(r"This test |Test code or tested code |Execution aborted after |--- Global ")
ATTEMPT = re.compile(r" \(attempt (\d+) of \d+\)$")  # PHPUnit 13 logs the last one
RANKS = ("passed", "skipped", "failed")
MESSAGE_CHARACTERS = 4096


class _Case:
    """A test that has begun, or of which something was said."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.case = ""  # as the record names it; "" for the file
        self.outcome, self.said = RANKS[0], {}  # type: str, Mapping[str, str]

    def take(self, outcome: str, said: Mapping[str, str]) -> None:
        if RANKS.index(outcome) > RANKS.index(self.outcome):  # the first failure says most
            self.outcome, self.said = outcome, said


class TeamCityStream:
    """The log of one PHPUnit.

    Args:
        units: by path, with links resolved.
        suite: name of the test suite that holds all of them.
        risky: outcome of a risky test.

    Attributes:
        has_begun: PHPUnit had loaded all files.
        begun: units that have.
        is_complete: the test suite came to its end.
    """

    def __init__(self, units: Mapping[str, str], suite: str, risky: str) -> None:
        self._units, self._suite, self._risky = units, suite, risky
        self._unit, self._class = "", ""
        self._case: Optional[_Case] = None
        self._names: Dict[str, int] = Counter()  # of the unit's cases
        self.has_begun = False
        self.begun: Set[str] = set()
        self.is_complete = False

    def read(self, line: bytes) -> List[Line]:
        """What a line of the log comes to."""
        found = MESSAGE.match(line.decode("utf-8", "replace"))
        if found is None:
            return []
        self.has_begun = True
        said = {
            name: ESCAPED.sub(lambda one: CONTROLS.get(one[1], one[1]), text)
            for name, text in ATTRIBUTE.findall(found[2])
        }
        what, name = found[1], said.get("name", "")
        if what == "testSuiteStarted":
            return [*self._end_case(), *self._begin_suite(said.get("locationHint", ""))]
        if what == "testSuiteFinished":
            # After a class its file may have another one: the next start closes it.
            is_last = name == self._suite
            self.is_complete = self.is_complete or is_last
            return [*self._end_case(), *(self._enter("") if is_last else [])]
        if what in ("testStarted", "testFailed", "testIgnored"):
            return self._test(what, name, said)
        if what == "testFinished" and self._case is not None and self._case.name == name:
            return self._end_case(said.get("duration"))
        return []

    def _begin_suite(self, hint: str) -> List[Line]:
        path, _, symbol = hint.partition("php_qn://")[2].partition("::\\")
        if not symbol or "::" in symbol:
            return []  # a suite of suites, or the data sets of a test
        self._class = symbol
        return self._enter(self._units.get(path, ""))

    def _test(self, what: str, name: str, said: Mapping[str, str]) -> List[Line]:
        """What was skipped, or failed to be set up, may not have started."""
        lines: List[Line] = []
        if what == "testStarted" or self._case is None or self._case.name != name:
            lines = self._end_case()
            if name in self._units:
                lines += self._enter(self._units[name])
            self._case = _Case(name)
            self._name_case(self._case)
            if what == "testStarted" and self._unit and self._case.case:
                start = {"type": "event", "kind": "case_start", "unit": self._unit}
                lines.append({**start, "detail": self._case.case})
        assert self._case is not None
        if what == "testIgnored":
            self._case.take("skipped", said)
        elif what == "testFailed":
            text, trace = said.get("message", ""), said.get("details", "").strip()
            is_risky = not trace and RISKY.match(text) is not None
            self._case.take(self._risky if is_risky else "failed", said)
        return lines

    def _name_case(self, case: _Case) -> None:
        is_file = case.name in self._units
        name = "" if is_file or case.name == self._class else f"{self._class}::{case.name}"
        name = ATTEMPT.sub("", name)
        self._names[name] += 1
        count = self._names[name]
        case.case = name if count == 1 or not name else f"{name} #{count}"

    def _end_case(self, duration_ms: Optional[str] = None) -> List[Line]:
        case, self._case = self._case, None
        if case is None or not self._unit:
            return []
        line: Line = {"type": "result", "unit": self._unit, "outcome": case.outcome}
        attempt = ATTEMPT.search(case.name)
        if attempt and attempt[1] != "1":
            line["reruns"] = int(attempt[1]) - 1
        if case.case:
            line["case"] = case.case
        if duration_ms is not None:
            line["wall_s"] = int(duration_ms) / 1000
        if case.outcome != "passed":
            line.update(self._message(case.said))
        return [line]

    def _message(self, said: Mapping[str, str]) -> Line:
        """The text and the trace of a failure, and its first place in a file of a unit."""
        frames = [one.strip() for one in said.get("details", "").splitlines() if one.strip()]
        parts = [said.get("message", "").strip(), *frames]
        if "expected" in said:
            parts[1:1] = [f"expected: {said['expected']}", f"actual: {said.get('actual', '')}"]
        line: Line = {"message": "\n".join(parts)[:MESSAGE_CHARACTERS]}
        for place in filter(None, map(PLACE.match, frames)):
            if place[1] in self._units:
                return {**line, "file": self._units[place[1]], "line": int(place[2])}
        return line

    def _enter(self, unit: str) -> List[Line]:
        """Go from a unit, or none, to another."""
        lines: List[Line] = []
        if unit == self._unit:
            return lines
        if self._unit:
            lines += [] if self._names else [skipped(self._unit)]
            lines.append({"type": "event", "kind": "closed", "unit": self._unit})
        if unit:
            lines.append({"type": "start", "unit": unit})
            self.begun.add(unit)
        self._unit, self._names = unit, Counter()
        return lines


def skipped(unit: str) -> Line:
    """The result of a file of which the options select no test."""
    message = "no test of it is selected"
    return {"type": "result", "unit": unit, "outcome": "skipped", "message": message}
