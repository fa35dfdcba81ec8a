"""Parser of `go test -json`: takes a line, returns lines of the record and what to show. Pure.

A unit is `package.Test`; its subtests are cases, and the test's time includes theirs. A paused test
does not run. https://go.dev/cmd/test2json
"""

from __future__ import annotations

import json
import re
from textwrap import dedent
from typing import Any, Dict, Iterator, List, Mapping, Set, Tuple

Line = Dict[str, Any]
LOG_CHARACTERS = 1 << 16  # kept of the output of a test or package: its start
OUTCOMES = {"pass": "passed", "fail": "failed", "skip": "skipped"}
FRAME = re.compile(r"=== (?:RUN|PAUSE|CONT|NAME|ATTR) |\s*--- (?:PASS|FAIL|SKIP): |(?:FAIL|ok  )\t")
ENDED = re.compile(r"\s*--- (?:PASS|FAIL|SKIP): ")
# test2json reports the end of a test as output if it follows a line of some KiB without a line
# feed. Go 1.27, https://github.com/golang/go/blob/master/src/cmd/internal/test2json
LOST_END = re.compile(r"\x16\s*--- (PASS|FAIL|SKIP): (.+) \((\d+\.\d+)s\)\s*$")
PLACE = re.compile(r"\s*([\w.-]+_test\.go):(\d+): ")
NOT_BUILT = re.compile(r"FAIL\t(\S+) \[(?:build|setup) failed\]\s*$")
BUILD = re.compile(r"# (\S+)")
ENDINGS = (
    ("timeout", re.compile(r"^panic: test timed out after", re.M)),
    (
        "out_of_memory",
        re.compile(r"^fatal error: (?:runtime: )?(?:out of|cannot allocate) mem", re.M),
    ),
)
# A goroutine outlived its test and reported to it: the running test is not to blame.
OUTLIVED = re.compile(
    r"^panic: (?:Fail|Log) in goroutine after (\S+?)(?:/\S*)? has completed", re.M
)
MESSAGE_CHARACTERS = 4096


class _Test:
    """A test or subtest that has begun and not ended."""

    def __init__(self) -> None:
        self.log = ""
        self.paused = False
        self.has_ended = False
        self.has_failed_part = False

    def add(self, text: str) -> None:
        self.has_ended = self.has_ended or ENDED.match(text) is not None
        if len(self.log) < LOG_CHARACTERS:
            self.log += text

    def message(self) -> str:
        """Return the test's own output."""
        lines = (line for line in self.log.splitlines(keepends=True) if not FRAME.match(line))
        return dedent("".join(lines)).strip("\n")


class GoStream:
    """Parser of one `go test` after the other.

    Args:
        folders: package -> its folder in the repository.

    Attributes:
        printed: package -> its output outside of tests.
        failed: package without a test that began -> why it failed.
    """

    def __init__(self, folders: Mapping[str, str]) -> None:
        self._folders = folders
        self._tests: Dict[str, Dict[str, _Test]] = {}  # by package and name, open ones
        self._builds: Dict[str, str] = {}
        self._build = ""
        self._begun: Set[str] = set()
        self._packages_begun: Set[str] = set()  # since `begin`
        self._ended: Set[str] = set()
        self._bad: Set[str] = set()
        self.printed: Dict[str, str] = {}
        self.failed: Dict[str, str] = {}

    def begin(self) -> None:
        """Begin a `go test`."""
        self._packages_begun, self._ended, self._bad = set(), set(), set()
        self.printed, self.failed, self._builds = {}, {}, {}

    def read(self, line: bytes) -> Tuple[List[Line], bytes]:
        """Parse a line; return lines of the record, and the output of `go test` without -json."""
        if line.startswith(b"{"):
            try:
                event = json.loads(line)
            except ValueError:
                return [], line
            if isinstance(event, dict) and "Action" in event:
                lines, shown = self._event(event)
                return lines, shown.encode("utf-8", "replace")
        text = line.decode("utf-8", "replace")
        header, not_built = BUILD.match(text), NOT_BUILT.match(text)
        if header:
            self._build = header[1]
        elif not_built:
            self._fail_package(not_built[1])
        else:
            self._builds[self._build] = self._builds.get(self._build, "") + text
        return [], line

    def _event(self, event: Mapping[str, Any]) -> Tuple[List[Line], str]:
        action, package = str(event["Action"]), str(event.get("Package", ""))
        name, output = str(event.get("Test", "")), str(event.get("Output", ""))
        if action == "build-output":
            build = str(event.get("ImportPath", "")).partition(" ")[0]
            self._builds[build] = self._builds.get(build, "") + output
            return [], output
        if action == "output":
            shown = self._output(package, name, output.lstrip("\x16"))
            lost = LOST_END.match(output)
            if lost and lost[2] == name and name in self._tests.get(package, {}):
                return self._end_test(package, name, OUTCOMES[lost[1].lower()], float(lost[3]))
            return [], shown
        if not name:
            if action in OUTCOMES:
                return self._end_package(package, bad=action == "fail"), ""
            return [], ""
        tests = self._tests.setdefault(package, {})
        unit, is_top = f"{package}.{name}", "/" not in name
        if action in ("run", "cont"):
            tests.setdefault(name, _Test()).paused = False
            if is_top:
                self._begun.add(unit)
                self._packages_begun.add(package)
                return [{"type": "start", "unit": unit}], ""
        elif action == "pause":
            tests.setdefault(name, _Test()).paused = True
            if is_top:
                return [{"type": "event", "kind": "unit_paused", "unit": unit}], ""
        elif action in OUTCOMES:
            return self._end_test(package, name, OUTCOMES[action], event.get("Elapsed"))
        return [], ""

    def _output(self, package: str, name: str, text: str) -> str:
        test = self._tests.get(package, {}).get(name)
        if test is not None:
            test.add(text)
            return ""
        known = self.printed.get(package, "")
        self.printed[package] = known + text if len(known) < LOG_CHARACTERS else known
        return text if text.strip() not in ("PASS", "FAIL") else ""

    def _end_test(
        self, package: str, name: str, outcome: str, elapsed: object
    ) -> Tuple[List[Line], str]:
        test = self._tests[package].get(name) or _Test()
        if not test.has_ended:
            # A binary that exited with 0 in a test (syscall.Exit, exit of C): test2json reports an
            # end of that test. The test stays open, and dies.
            return [], ""
        del self._tests[package][name]
        top, _, part = name.partition("/")
        unit, message = f"{package}.{top}", test.message()
        line: Line = {"type": "result", "unit": unit, "outcome": outcome}
        if part:
            line["case"] = name
        elif isinstance(elapsed, (int, float)):
            line["wall_s"] = elapsed
        if outcome != "passed":
            line["message"] = message[:MESSAGE_CHARACTERS]
            line.update(self._place(package, message))
        shown = test.log if outcome == "failed" else ""
        if outcome == "failed" and part:
            for other in (top, name.rpartition("/")[0]):
                if other in self._tests[package]:
                    self._tests[package][other].has_failed_part = True
        lines = [line]
        if outcome == "failed" and test.has_failed_part and not message:
            lines = []  # its subtests have all information
        if not part:
            lines.append({"type": "event", "kind": "closed", "unit": unit})
        return lines, shown

    def _place(self, package: str, message: str) -> Line:
        place = PLACE.match(message)
        folder = self._folders.get(package)
        if place is None or folder is None:
            return {}
        return {
            "file": place[1] if folder == "." else f"{folder}/{place[1]}",
            "line": int(place[2]),
        }

    def _end_package(self, package: str, *, bad: bool) -> List[Line]:
        """End a package: its open tests died with it; its paused tests have not run."""
        self._ended.add(package)
        if bad:
            self._bad.add(package)
        deaths: List[Line] = []
        culprit = ""
        for name, test in self._tests.pop(package, {}).items():
            unit = f"{package}.{name}"
            if "/" in name:
                continue  # a subtest: its test has the result
            if test.paused:
                self._begun.discard(unit)
                continue
            output = test.message() + "\n" + self.printed.get(package, "")
            ending = next((name for name, text in ENDINGS if text.search(output)), "crash")
            words = [line for line in output.splitlines() if line.strip() and not FRAME.match(line)]
            first = words[0] if words else "it said nothing (os.Exit?)"
            message = "\n".join([f"its test binary ended: {first}", *words])
            line = {"type": "result", "unit": unit, "outcome": "died", "ending": ending}
            deaths.append({**line, "message": message[:MESSAGE_CHARACTERS]})
            outlived = OUTLIVED.search(output)
            culprit = f"{package}.{outlived[1]}" if outlived else ""
        for death in deaths:
            death["concurrent"] = len(deaths)  # one of them is to blame: each runs again, alone
        if culprit in self._begun - {death["unit"] for death in deaths}:
            for death in deaths:
                death["concurrent"] = len(deaths) + 1
            deaths.append({**deaths[-1], "unit": culprit, "concurrent": 1})
        if bad and package not in self._packages_begun:
            self._fail_package(package)
        return deaths

    def _fail_package(self, package: str) -> None:
        self._ended.add(package)
        self._bad.add(package)
        build = self._builds.get(package) or self._builds.get(f"{package}_test")
        self.failed[package] = (build or self.printed.get(package, "") or "it failed").strip()

    def end(self) -> Iterator[Line]:
        """End a `go test`: yield the results of open tests, which died, and the failed builds."""
        for package in list(self._tests):
            yield from self._end_package(package, bad=True)
        for package, text in self.failed.items():
            detail = text[:MESSAGE_CHARACTERS]
            yield {"type": "event", "kind": "collection_error", "unit": package, "detail": detail}

    def is_cut_short(self, unit: str) -> bool:
        """Return whether a unit has not begun in a failed package whose other units have."""
        package = unit.rpartition(".")[0]
        return unit not in self._begun and package in self._bad & self._packages_begun

    def has_skipped(self, unit: str) -> bool:
        """Return whether a unit has not begun although its package has run: it does not exist."""
        return unit not in self._begun and unit.rpartition(".")[0] not in self.failed
