"""Launcher of `ctest`: `ciguard_ctest.py ctest FLAGS`.

CTest cannot be asked to stop after the current test, and a call costs 0.1 s in a build of 5,000
tests: so each call gets some seconds of tests. Tests that need each other or a fixture are in one
call. CTest's guarantees for parallel tests (locks, RUN_SERIAL) hold across the processes of a leg.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    import ciguard_launcher as launcher

if sys.platform != "win32":
    import fcntl

# The numbers of -I count all tests, for any filters, only in a union with an expression that
# matches none. CTest 4 takes a value after -U; older versions ignore a word that is no flag.
BY_NUMBER = ("-R", "^$", "-U", "1", "-I")
LISTED = re.compile(r"  Test +#(\d+): (.*)")
# Variables that change what CTest prints.
HIDDEN = ("CTEST_OUTPUT_ON_FAILURE", "CTEST_PROGRESS_OUTPUT")
CALL_S = 5.0  # target time of a call: its own cost is then 2 %
FAILED = 8
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
        self.needs: set[str] = set()

    @property
    def order(self) -> tuple[float, int]:
        """Sort key of the order in which CTest runs one test at a time."""
        return -float(self.properties.get("COST", 0)), self.number


class CTestStream:
    """Parser of one call of `ctest -V` after the other.

    With -V each line of a test's output begins with the test's number, so that no test can print a
    line that looks like CTest's. Tests are identified by number: names may contain any text.

    Tests that set up or clean up fixtures are no units. The time of a set-up counts for the unit
    that needs it: so does a set-up that hangs.

    Args:
        tests: all tests of the build, by number.
        here: the working folder.
    """

    def __init__(self, tests: Mapping[int, BuildTest], here: str) -> None:
        self._here = here
        self._tests = tests
        self._pending: list[BuildTest] = []  # units that have not begun, in CTest's order
        self._asked: set[int] = set()  # numbers of all units of the call
        self._running: int | None = None
        self._has_header = False
        self._log = self._ctest_text = self._result = ""
        self._failed: dict[str, str] = {}  # name of a test that is no unit -> error

    def begin(self, tests: Iterable[BuildTest]) -> None:
        """Begin a call of CTest, with these units."""
        self._pending = sorted(tests, key=lambda test: test.order)
        self._asked = {test.number for test in self._pending}
        self._running, self._result = None, ""

    def read(self, line: bytes) -> tuple[list[Line], bytes]:
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

    def _start(self, number: int) -> list[Line]:
        self._running, self._has_header = number, False
        self._log = self._ctest_text = ""
        test = self._tests[number]
        unit = test if number in self._asked else self._find_dependent(test.unit)
        if unit is None or unit not in self._pending:
            return []
        self._pending.remove(unit)
        return [{"type": "start", "unit": unit.unit}]

    def _find_dependent(self, unit: str) -> BuildTest | None:
        """Return the unit for which CTest has added a test; None for a clean-up."""
        return next((test for test in self._pending if unit in test.needs), None)

    def _add(self, text: str) -> None:
        if self._has_header:
            self._log = (self._log + text)[-launcher.LOG_CHARACTERS :]
        self._has_header = self._has_header or bool(HEADER_END.match(text))

    def _end(self) -> tuple[list[Line], bytes]:
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
        return [line, launcher.closed(test.unit)] if is_unit else [], shown.encode(
            "utf-8", "replace"
        )

    def _result_line(self, test: BuildTest, status: re.Match[str]) -> Line:
        word, why = status["word"], status["why"].strip()
        if word == "Exception:":
            what = f"its program ended: {why or status['fault'].strip()}"
            return launcher.death(test.unit, what, self._log)
        line: Line = {"type": "result", "unit": test.unit, "outcome": "passed"}
        if word == "Passed":
            return line
        line.update(outcome="failed", **launcher.describe_failure(self._log, self._here))
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


def printed(argv: Sequence[str], leg: Leg) -> tuple[str, int]:
    """Call CTest; return its output and exit code."""
    done = subprocess.run(argv, env=leg.environ, stdout=subprocess.PIPE, check=False)
    return done.stdout.decode("utf-8", "replace"), done.returncode


def numbers(text: str) -> list[tuple[int, str]]:
    """Return the number and the first line of the name of each test that `ctest -N` lists."""
    return [(int(match[1]), match[2]) for match in map(LISTED.match, text.splitlines()) if match]


def named(listed: Iterable[tuple[int, str]], described: Mapping[str, Any]) -> dict[int, BuildTest]:
    """Return all tests of a build by number, which `--show-only=json-v1` does not give.

    It also leaves out tests of other configurations, which `ctest -N` lists.
    """
    units: dict[str, list[str]] = {}  # by name, which tests of two folders may share
    tests: dict[int, BuildTest] = {}
    left = iter(listed)
    for test in described["tests"]:
        name = test["name"]
        properties = {item["name"]: item["value"] for item in test.get("properties", ())}
        number = next(number for number, line in left if line.startswith(name.split("\n")[0]))
        same = units.setdefault(name, [])
        same.append(f"{name} #{len(same) + 1}" if same else name)
        tests[number] = BuildTest(number, name, same[-1], properties)
    for build_test in tests.values():
        build_test.needs = {unit for name in build_test.depends for unit in units.get(name, ())}
    return tests


def fixture_tests(tests: Iterable[BuildTest]) -> set[int]:
    """Return the numbers of the set-ups and clean-ups that CTest adds to tests that need them."""
    all_tests, required = list(tests), set()
    for test in all_tests:
        if not test.is_disabled:
            required.update(test.properties.get("FIXTURES_REQUIRED", ()))
    return {
        test.number
        for test in all_tests
        for key in ("FIXTURES_SETUP", "FIXTURES_CLEANUP")
        if required.intersection(test.properties.get(key, ()))
    }


def connected(tests: Iterable[BuildTest]) -> list[list[BuildTest]]:
    """Divide tests into groups that need each other, or a common test."""
    part_of: dict[str, list[BuildTest]] = {}
    for test in tests:
        part = [test]
        for unit in (test.unit, *test.needs):
            other = part_of.setdefault(unit, part)
            if other is part:
                continue
            small, part = sorted((part, other), key=len)
            part += small
            for name in (name for member in small for name in (member.unit, *member.needs)):
                if part_of.get(name) is small:
                    part_of[name] = part
    return list({id(part): part for part in part_of.values()}.values())


def read_tests(words: Sequence[str], leg: Leg) -> tuple[dict[int, BuildTest], int]:
    """Return all tests of the build by number, and CTest's exit code, which is 0 if it can list."""
    everything = (*words, *BY_NUMBER, "1,")
    listed, code = printed([*everything, "-N"], leg)  # first: with JSON it prints no errors
    if code:
        sys.stdout.write(listed)
        return {}, code
    text, code = printed([*everything, "--show-only=json-v1"], leg)
    described = json.loads(text[text.index("{\n") :])
    if described["tests"] and not listed.strip():
        sys.stderr.write("ciguard: ctest prints nothing: leave output.quiet out of its preset\n")
        return {}, FAILED
    return named(numbers(listed), described), code


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write the listing: the tests that the command selects, without those of fixtures."""
    tests, code = read_tests(words, leg)
    if code:
        return code
    selected, code = printed([*words, "-N"], leg)
    chosen = [tests[number] for number, _ in numbers(selected) if number in tests]
    hidden = fixture_tests(chosen)
    chosen = [test for test in chosen if test.number not in hidden]
    units = {test.unit for test in chosen}
    for test in chosen:
        test.needs &= units  # tests that only share a fixture may run in different jobs
    groups = {
        test.unit: part[0].unit for part in connected(chosen) if len(part) > 1 for test in part
    }
    lines = [{"unit": test.unit, "group": groups.get(test.unit)} for test in chosen]
    missing = (test for test in chosen if test.name.endswith("_NOT_BUILT"))
    errors = [{"error": test.name, "message": "build all tests first"} for test in missing]
    leg.answer(lines, errors, os.getcwd())
    return code


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units, in calls that take some seconds each."""
    tests, code = read_tests(words, leg)
    if code:
        return code
    by_unit = {test.unit: test for test in tests.values()}
    leg.append(launcher.not_collected(unit for unit in leg.units if unit not in by_unit))
    parts = connected([by_unit[unit] for unit in leg.units if unit in by_unit])
    queue = sorted(((locks(part), part) for part in parts), key=lambda pair: pair[0])
    stream, size = CTestStream(tests, os.getcwd()), 1
    while queue:
        needed, batch = queue[0][0], []  # type: tuple[tuple[str, ...], list[BuildTest]]
        while queue and queue[0][0] == needed and len(batch) < size:
            batch += queue.pop(0)[1]
        with held(needed, os.path.dirname(leg.private), leg):
            if leg.must_stop():
                break
            began_s = time.monotonic()
            code = max(code, call(words, leg, stream, batch), key=abs)
            took_s = time.monotonic() - began_s
        size = max(1, min(2 * len(batch), int(len(batch) * CALL_S / took_s)))
    return code


def call(words: Sequence[str], leg: Leg, stream: CTestStream, batch: Sequence[BuildTest]) -> int:
    """Run tests by one call of CTest; return its exit code."""
    path = os.path.join(leg.private, "numbers")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"0,0,1,{','.join(str(test.number) for test in batch)}\n")

    def take(line: bytes) -> bytes:
        lines, shown = stream.read(line)
        leg.append_timed(lines)
        return shown

    stream.begin(batch)
    return launcher.follow([*words, *BY_NUMBER, path, "-V", "-j", "1"], leg.environ, take)


def locks(part: Iterable[BuildTest]) -> tuple[str, ...]:
    """Return the locks of a call: names of RESOURCE_LOCK, and "" to exclude all other tests."""
    names: set[str] = set()
    for test in part:
        names.update(test.properties.get("RESOURCE_LOCK", ()))
        names.update([""] if test.properties.get("RUN_SERIAL") else ())
    return tuple(sorted(names))


@contextlib.contextmanager
def held(names: Sequence[str], folder: str, leg: Leg) -> Iterator[None]:
    """Hold locks that the processes of a leg share; all take them in the same order."""
    with contextlib.ExitStack() as stack:
        if sys.platform != "win32":
            for name in ("", *filter(None, names)):
                digest = hashlib.sha256(name.encode()).hexdigest()[:16]
                file = stack.enter_context(open(os.path.join(folder, f"lock-{digest}"), "wb"))
                kind = fcntl.LOCK_EX if name in names else fcntl.LOCK_SH
                while not leg.must_stop():
                    with contextlib.suppress(BlockingIOError):
                        fcntl.flock(file, kind | fcntl.LOCK_NB)
                        break
                    time.sleep(0.02)
        yield


if __name__ == "__main__":
    launcher.launch(sys.argv[1:], list_tests, run_tests, hidden=HIDDEN)
