"""Parser of `ctest -V`: takes a line, returns lines of the record and the output to show. Pure.

With -V each line of a test's output begins with the test's number, so that no test can print a line
that looks like CTest's. Tests are identified by number: names may contain any text.
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
# The last line before the output of a test; -V prints its command before that.
HEADER_END = re.compile(r"Test timeout ")
# Lines of -V before the first test.
NOISE = re.compile(
    r"(?:Internal ctest|Test project|Constructing|Done constructing|Updating|Added|Checking) "
    r"|UpdateCTestConf|test \d+$|\s*$"
)
SKIPPED = ("Skipped", "Not Run (Disabled)")


class BuildTest:
    """A test of the build.

    Attributes:
        number: CTest's number, from 1.
        unit: name of the test; `name #2` for a second test of this name.
        depends: names of the tests that CTest runs before this one; `needs`: their units.
    """

    def __init__(self, number: int, name: str, unit: str, properties: Mapping[str, Any]) -> None:
        self.number, self.name, self.unit = number, name, unit
        self.properties = properties
        self.is_disabled = bool(properties.get("DISABLED"))
        self.depends = () if self.is_disabled else tuple(properties.get("DEPENDS", ()))
        self.needs: Set[str] = set()

    @property
    def order(self) -> Tuple[float, int]:
        """Sort key of the order in which CTest runs one test at a time."""
        return -float(self.properties.get("COST", 0)), self.number


class CTestStream:
    """Parser of one call of CTest after the other.

    Tests that set up or clean up fixtures are no units. The time of a set-up counts for the unit
    that needs it: so does a set-up that hangs.

    Args:
        tests: all tests of the build, by number.
        here: the working folder.
    """

    def __init__(self, tests: Mapping[int, BuildTest], here: str) -> None:
        self._here = here
        self._tests = tests
        self._pending: List[BuildTest] = []  # units that have not begun, in CTest's order
        self._asked: Set[int] = set()  # numbers of all units of the call
        self._running: Optional[int] = None
        self._has_header = False
        self._log = self._ctest_text = self._result = ""
        self._failed: Dict[str, str] = {}  # name of a test that is no unit -> error

    def begin(self, tests: Iterable[BuildTest]) -> None:
        """Begin a call of CTest, with these units."""
        self._pending = sorted(tests, key=lambda test: test.order)
        self._asked = {test.number for test in self._pending}
        self._running, self._result = None, ""

    def read(self, line: bytes) -> Tuple[List[Line], bytes]:
        """Parse a line of output; return lines of the record, and the output to show."""
        text = line.decode("utf-8", "replace")
        if self._running is None:
            start = START.match(text)
            if start and int(start[1]) in self._tests:
                return self._start(int(start[1])), b""
            return [], b"" if NOISE.match(text) or not self._pending else line
        output, result = OUTPUT.match(text), RESULT.match(text)
        if self._result or (result and int(result[1]) == self._running):
            self._result += text
            return self._end()
        if output and int(output[1]) == self._running:
            self._add(output[2])
        elif text.strip() and not self._ctest_text.startswith("Failed test dep"):
            self._ctest_text = text.strip()
        return [], b""

    def _start(self, number: int) -> List[Line]:
        self._running, self._has_header = number, False
        self._log = self._ctest_text = ""
        test = self._tests[number]
        unit = test if number in self._asked else self._find_dependent(test.unit)
        if unit is None or unit not in self._pending:
            return []
        self._pending.remove(unit)
        return [{"type": "start", "unit": unit.unit}]

    def _find_dependent(self, unit: str) -> Optional[BuildTest]:
        """Return the unit for which CTest has added a test; None for a clean-up."""
        return next((test for test in self._pending if unit in test.needs), None)

    def _add(self, text: str) -> None:
        if self._has_header:
            self._log = (self._log + text)[-LOG_CHARACTERS:]
        self._has_header = self._has_header or bool(HEADER_END.match(text))

    def _end(self) -> Tuple[List[Line], bytes]:
        """Parse the result of the running test, which may have several lines, as names have."""
        assert self._running is not None
        test = self._tests[self._running]
        head = RESULT.match(self._result)
        text = self._result[head.end() if head else 0 :]
        status = STATUS.match(text[len(test.name) :] if text.startswith(test.name) else text)
        if status is None:
            return [], b""
        is_good = status["word"] in ("Passed", *SKIPPED)
        shown = self._result if is_good else self._result + self._log
        line = self._result_line(test, status)
        is_unit = self._running in self._asked
        if not is_unit and not is_good:
            self._failed[test.name] = f"{test.name}: {line['message']}"
        self._running, self._result = None, ""
        return [line, closed(test.unit)] if is_unit else [], shown.encode("utf-8", "replace")

    def _result_line(self, test: BuildTest, status: re.Match[str]) -> Line:
        word, why = status["word"], status["why"].strip()
        if word == "Exception:":
            what = f"its program ended: {why or status['fault'].strip()}"
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
            parts = (f"over its limit in CTest: {status['wall_s']} s", *parts)
        elif word == "Not Run":
            line["outcome"] = "errored"
            causes = (text for name, text in self._failed.items() if f" {name}" in self._ctest_text)
            parts = (self._ctest_text or "not run", *causes)
        line["message"] = "\n".join(filter(None, parts))
        return line
