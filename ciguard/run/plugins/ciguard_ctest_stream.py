"""What `ctest -V` prints, as it grows: a line in, lines of the record and what to show out. Pure.

With -V a test's own output begins with the test's number, so that no test can print a line that
looks like CTest's. Tests are known by their numbers, whatever their names hold.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins.ciguard_gtest_stream import describe_failure
    from ciguard.run.plugins.ciguard_launcher import LOG_CHARACTERS, Line, closed, death
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_gtest_stream import describe_failure
    from ciguard_launcher import LOG_CHARACTERS, Line, closed, death

START = re.compile(r" +Start +(\d+): ")
OUTPUT = re.compile(r"(\d+): ?(.*)", re.S)
RESULT = re.compile(r" *\d+/\d+ Test +#(\d+): ")
STATUS = re.compile(
    r"[ .]*(?P<fault>[^*]*?)(?:\*\*\*|   )"
    r"(?P<word>Passed|Failed|Timeout|Exception:|Skipped|Not Run \(Disabled\)|Not Run)"
    r"\s*(?P<why>.*?)\s*(?P<wall_s>\d+\.\d\d) sec\s*$",
    re.S,
)
# Where CTest begins to hand on what a test prints; before it -V says what is run, and how.
HEADER_END = re.compile(r"Test timeout ")
# What -V says before the first test.
NOISE = re.compile(
    r"(?:Internal ctest|Test project|Constructing|Done constructing|Updating|Added|Checking) "
    r"|UpdateCTestConf|test \d+$|\s*$"
)
SKIPPED = ("Skipped", "Not Run (Disabled)")


class BuildTest:
    """A test of the whole build.

    Attributes:
        number: from 1, as CTest counts.
        unit: its name; of a second test of this name `name #2`.
        depends: names of the tests that CTest runs before it; `needs`: the same as units.
    """

    def __init__(self, number: int, name: str, unit: str, properties: Mapping[str, Any]) -> None:
        self.number, self.name, self.unit = number, name, unit
        self.properties = properties
        self.is_disabled = bool(properties.get("DISABLED"))
        self.depends = () if self.is_disabled else tuple(properties.get("DEPENDS", ()))
        self.needs: Set[str] = set()

    @property
    def order(self) -> Tuple[float, int]:
        """Where it stands among others in a call of CTest that runs one at a time."""
        return -float(self.properties.get("COST", 0)), self.number


class CTestStream:
    """The events of one call of CTest after the other.

    Tests that set fixtures up or clean up after them are no units. The time of a set-up is that of
    the unit that it is for: so is a set-up that hangs.

    Args:
        tests: of the whole build, by number.
        here: the working folder.
    """

    def __init__(self, tests: Mapping[int, BuildTest], here: str) -> None:
        self._here = here
        self._tests = tests
        self._waiting: List[BuildTest] = []  # asked for and not begun, in CTest's order
        self._asked: Set[int] = set()
        self._running: Optional[int] = None
        self._has_header = False
        self._log = self._said = self._result = ""
        self._failed: Dict[str, str] = {}  # tests that are no units, by name: why

    def begin(self, tests: Iterable[BuildTest]) -> None:
        """A call of CTest starts, with these units."""
        self._waiting = sorted(tests, key=lambda test: test.order)
        self._asked = {test.number for test in self._waiting}
        self._running, self._result = None, ""

    def read(self, line: bytes) -> Tuple[List[Line], bytes]:
        """What a line of output comes to, and what of it is shown."""
        text = line.decode("utf-8", "replace")
        if self._running is None:
            start = START.match(text)
            if start and int(start[1]) in self._tests:
                return self._start(int(start[1])), b""
            return [], b"" if NOISE.match(text) or not self._waiting else line
        output, result = OUTPUT.match(text), RESULT.match(text)
        if self._result or (result and int(result[1]) == self._running):
            self._result += text
            return self._end()
        if output and int(output[1]) == self._running:
            self._add(output[2])
        elif text.strip():
            self._said = self._said if self._said.startswith("Failed test dep") else text.strip()
        return [], b""

    def _start(self, number: int) -> List[Line]:
        self._running, self._has_header = number, False
        self._log = self._said = ""
        test = self._tests[number]
        unit = test if number in self._asked else self._needing(test.unit)
        if unit is None or unit not in self._waiting:
            return []
        self._waiting.remove(unit)
        return [{"type": "start", "unit": unit.unit}]

    def _needing(self, unit: str) -> Optional[BuildTest]:
        """The unit for which CTest has added a test; None for a clean-up."""
        return next((test for test in self._waiting if unit in test.needs), None)

    def _add(self, text: str) -> None:
        if self._has_header:
            self._log = (self._log + text)[-LOG_CHARACTERS:]
        self._has_header = self._has_header or bool(HEADER_END.match(text))

    def _end(self) -> Tuple[List[Line], bytes]:
        """Its result, which may be of several lines: so are names, and what CTest looked for."""
        assert self._running is not None
        test = self._tests[self._running]
        head = RESULT.match(self._result)
        left = self._result[head.end() if head else 0 :]
        found = STATUS.match(left[len(test.name) :] if left.startswith(test.name) else left)
        if found is None:
            return [], b""
        shown = self._result if found["word"] in ("Passed", *SKIPPED) else self._result + self._log
        line = self._result_line(test, found)
        is_unit = self._running in self._asked
        if not is_unit and found["word"] not in ("Passed", *SKIPPED):
            self._failed[test.name] = f"{test.name}: {line['message']}"
        self._running, self._result = None, ""
        return [line, closed(test.unit)] if is_unit else [], shown.encode("utf-8", "replace")

    def _result_line(self, test: BuildTest, found: re.Match[str]) -> Line:
        word, why, said = found["word"], found["why"].strip(), self._said
        if word == "Exception:":
            what = f"its program ended: {why or found['fault'].strip()}"
            return death(test.unit, what, self._log)
        line: Line = {"type": "result", "unit": test.unit, "outcome": "passed"}
        if word == "Passed":
            return line
        line.update(outcome="failed", **describe_failure(self._log, self._here))
        parts: Sequence[str] = (why, line["message"])
        if word in SKIPPED:
            line["outcome"] = "skipped"
            parts = parts if word == "Skipped" else ("disabled",)
        elif word == "Timeout":
            line.update(outcome="died", ending="timeout")
            parts = (f"over its limit in CTest: {found['wall_s']} s", *parts)
        elif word == "Not Run":
            line["outcome"] = "errored"
            why_not = (text for name, text in self._failed.items() if f" {name}" in said)
            parts = (said or "not run", *why_not)
        line["message"] = "\n".join(filter(None, parts))
        return line
