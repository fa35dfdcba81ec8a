"""`go test -json`, also in files of `gotestsum --jsonfile`: JSON lines -> results, streamed. Pure.

An event is about a test, a package or a build. A test that ran and has no closing event did not
end, even if its package passed. https://go.dev/cmd/test2json; docs/reference/result-files.md.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final

from ciguard.codec.results.base import MAX_MESSAGE_BYTES, truncate_message
from ciguard.codec.results.xmlstream import MAX_BYTES, MAX_S
from ciguard.codec.unpack_limits import GZIP_ERRORS, damaged_gzip
from ciguard.errors import InputError
from ciguard.model import Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "go test -json"

# Actions that end a test. A test without one of them counts as died.
_OUTCOMES: Final[Mapping[str, Outcome]] = {"pass": "passed", "skip": "skipped", "fail": "failed"}
# Go writes the keys in this order, so an event begins with one of them.
_EVENT: Final = re.compile(rb'\{"(?:ImportPath|Time|Action|Package)":')
_ACTION: Final = re.compile(rb'"Action":"[a-z-]+"')
# Before Go 1.24 a package that could not be built is a line of text.
_NOT_BUILT: Final = re.compile(rb"FAIL\t(\S{1,1000}) \[(?:build|setup) failed\]\s*$")

# Lines of the testing package around the output of a test.
_FRAME: Final = re.compile(r"=== (RUN|PAUSE|CONT|NAME|ATTR) |\s*--- (PASS|FAIL|SKIP|BENCH): ")
# Last lines of a process that ended itself.
_LAST_WORDS: Final[tuple[tuple[Ending, re.Pattern[str]], ...]] = (
    ("timeout", re.compile(r"panic: test timed out after |\*\*\* Test killed.*ran too long")),
    (
        "out_of_memory",
        re.compile(r"(fatal error: )?(runtime: )?(out of memory|cannot allocate memory)"),
    ),
    (
        "crash",
        re.compile(
            r"panic: |fatal error: |SIG(SEGV|ABRT|BUS|FPE|ILL)\b"
            r"|signal: (segmentation|abort|bus|floating|illegal)"
        ),
    ),
)

MAX_LINE_BYTES: Final = 4 << 20
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def sniff(head: bytes) -> bool:
    """Recognise an event of `go test -json` in any line; lines of a build may precede it."""
    lines = head.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    return any(_EVENT.match(line) and _ACTION.search(line) for line in lines)


@dataclass(slots=True)
class GoLog:
    """The output of a test, a package or a build: its beginning, and an ending that it names."""

    paused: bool = False  # of a test
    text: str = ""
    ending: Ending | None = None

    def add(self, line: str) -> None:
        """Add a line, up to the length of a message."""
        if _FRAME.match(line):
            return
        if len(self.text) < MAX_MESSAGE_BYTES:
            self.text += line[:MAX_MESSAGE_BYTES]
        if self.ending is None:
            self.ending = next((ending for ending, text in _LAST_WORDS if text.match(line)), None)


@dataclass(slots=True)
class _Package(GoLog):
    """An open package, from its first event to its result."""

    tests: dict[str, GoLog] = field(default_factory=dict)
    bad: int = 0
    started: bool = False


@dataclass(slots=True)
class _Reading:
    """The state of packages, tests and builds by the events so far."""

    packages: dict[str, _Package] = field(default_factory=dict)
    builds: dict[str, GoLog] = field(default_factory=dict)
    unreported: set[str] = field(default_factory=set)  # failed builds that no package has named yet
    tries: Counter[str] = field(default_factory=Counter)
    died: int = 0
    first_died: str = ""

    def event(self, event: Mapping[str, Any]) -> Iterator[Result]:
        """Yield the results that an event completes."""
        action, name = _text(event, "Action"), _text(event, "Package")
        if action.startswith("build-"):
            self.build(action, event)
            return
        package = self.packages.get(name)
        if package is None:
            package = self.packages[name] = _Package()
        test = _text(event, "Test")
        if action == "output":
            package.tests.get(test, package).add(_text(event, "Output"))
        elif action in ("start", "run"):
            package.started = True
            if test in package.tests:
                yield self.death(name, test, package)
            if test:
                package.tests[test] = GoLog()
        elif action in ("pause", "cont"):
            if test in package.tests:
                package.tests[test].paused = action == "pause"
        elif action in _OUTCOMES:
            if test:
                yield self.end(name, test, _OUTCOMES[action], event)
            else:
                yield from self.end_package(name, event)

    def build(self, action: str, event: Mapping[str, Any]) -> None:
        """Handle the output or the failure of a build; events of packages name the failed build."""
        path = _text(event, "ImportPath")
        output = _text(event, "Output")
        if action == "build-output" and not output.startswith("# "):  # the package, not the error
            self.builds.setdefault(path, GoLog()).add(output)
        elif action == "build-fail":
            self.unreported.add(path)

    def end(self, name: str, test: str, outcome: Outcome, event: Mapping[str, Any]) -> Result:
        package = self.packages[name]
        log = package.tests.pop(test, None) or GoLog()
        ending: Ending = "completed"
        if outcome == "failed":
            package.bad += 1
            ending = log.ending or ending_of_failure("", log.text)
        return self.result((name, test), outcome, ending, log.text, event.get("Elapsed"))

    def death(self, name: str, test: str, package: _Package) -> Result:
        """Return the result of a test that did not end; a paused test counts as cancelled."""
        log = package.tests.pop(test)
        package.bad += 1
        self.died += 1
        self.first_died = self.first_died or _unit(name, test)
        ending = "cancelled" if log.paused else log.ending or package.ending or "unknown"
        return self.result((name, test), "died", ending, log.text, None)

    def end_package(self, name: str, event: Mapping[str, Any]) -> Iterator[Result]:
        """Yield the results of open tests of a package that ended, and of its own failure."""
        package = self.packages.pop(name)
        has_failed = event["Action"] == "fail"
        for test in list(package.tests):
            # Since Go 1.20 a benchmark begins like a test, and never ends (golang/go#61767).
            if has_failed or not test.startswith("Benchmark"):
                yield self.death(name, test, package)
        if has_failed and not package.bad:
            build = _text(event, "FailedBuild")
            self.unreported.discard(build)
            log = self.builds.get(build, package)
            yield self.package_error(name, log, event.get("Elapsed"))

    def package_error(self, name: str, log: GoLog, elapsed: Any = None) -> Result:
        """Return the result of a package that failed without a failed test."""
        ending = log.ending or "completed"
        return self.result((name, ""), "errored", ending, log.text, elapsed)

    def result(
        self, names: tuple[str, str], outcome: Outcome, ending: Ending, text: str, elapsed: Any
    ) -> Result:
        """Return a result; a repeated name is a further try."""
        package, test = names
        unit = _unit(package, test)
        self.tries[unit] += 1
        is_number = isinstance(elapsed, int | float) and not isinstance(elapsed, bool)
        return Result(
            unit,
            outcome,
            ending=ending,
            wall_s=float(elapsed) if is_number and 0 <= elapsed <= MAX_S else None,
            try_number=self.tries[unit],
            message=truncate_message(text) if outcome != "passed" else None,
            classname=package if test and package else None,
            name=test or package,
        )

    def finish(self) -> Iterator[Result]:
        """Yield the results of open tests and failed builds at the end of the file."""
        for name, package in self.packages.items():
            for test in list(package.tests):
                yield self.death(name, test, package)
        for path in sorted(self.unreported):
            yield self.package_error(path.partition(" ")[0], self.builds.get(path, GoLog()))

    def check_end(self, where: str) -> None:
        """Raise InputError for a package without a result, or a test that died."""
        fix = "look at the log of its job: did a test end the process, or was it stopped?"
        started = [name for name, package in self.packages.items() if package.started]
        if started:
            more = f" and of {len(started) - 1:,} more" if len(started) > 1 else ""
            what = f"it ends before the result of the package {started[0]!r:.200}{more}"
            raise InputError(what, where=where, fix=fix)
        if self.died:
            what = f"its run did not come to its end: tests without an end: {self.died:,}"
            raise InputError(f"{what}, first {self.first_died:.300}", where=where, fix=fix)


def _unit(package: str, test: str) -> str:
    return ".".join(filter(None, (package, test))) or "unnamed"


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    if not isinstance(value, str):
        return ""
    # JSON can spell half of a surrogate pair, which no other file can hold.
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _parse(line: bytes, where: str) -> Mapping[str, Any]:
    """Parse an event; raise InputError for a damaged one."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError) as error:
        fix = "was its writer killed?"
        raise InputError(f"damaged event: {error}", where=where, fix=fix) from None
    return event  # type: ignore[no-any-return]  # it begins like an object, and is one


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in the order of their ends, also those that precede an error.

    A unit is `package.Test`; a package that failed without a failed test is a unit, too. Memory
    grows with the names of tests, which are needed to number tries: 0.13 KB a test.

    Raises:
        InputError: with the line: a damaged event or gzip, a line of 4 MiB; or, after all results,
            a package without a result, or a test that did not end.
    """
    reading = _Reading()
    where = source
    try:
        for where, line in read_lines(stream, source):
            # The last line may be truncated before it can be recognised as an event.
            if _EVENT.match(line) or (line.startswith(b"{") and not line.endswith(b"\n")):
                yield from reading.event(_parse(line, where))
            elif not_built := _NOT_BUILT.match(line):
                log = GoLog()
                log.add(line.decode("utf-8", "replace"))
                yield reading.package_error(not_built[1].decode("utf-8", "replace"), log)
    except InputError:
        yield from reading.finish()
        raise
    yield from reading.finish()
    reading.check_end(where)


def read_lines(stream: IO[bytes], source: str) -> Iterator[tuple[str, bytes]]:
    """Yield (`source:line`, line).

    Raises:
        InputError: a line of 4 MiB, a file of 4 GiB, damaged gzip.
    """
    number, read_bytes = 0, 0
    while True:
        number += 1
        where = f"{source}:{number}"
        try:
            line = stream.readline(MAX_LINE_BYTES)
        except GZIP_ERRORS as error:
            raise damaged_gzip(error, where) from error
        read_bytes += len(line)
        if len(line) == MAX_LINE_BYTES or read_bytes > MAX_BYTES:
            raise InputError("larger than any honest line or file", where=where, fix="split it")
        if not line:
            return
        yield where, line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
