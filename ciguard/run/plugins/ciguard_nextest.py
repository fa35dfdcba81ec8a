"""Launcher of cargo-nextest: `ciguard_nextest.py cargo nextest run OPTIONS`.

nextest runs one test at a time and reports starts and ends as libtest's JSON. It takes exit code 0
for a pass, even of a wrapper that runs nothing; so the launcher also requires libtest's closing
line in the output of each test. A custom harness (`harness = false` in Cargo.toml) need not print
that line. https://nexte.st/docs/machine-readable/libtest-json/
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    import ciguard_launcher as launcher

PASSED, NO_TESTS, FAILED = 0, 4, 100  # exit codes of nextest after a complete run
# Linux takes 128 KiB of one argument, and 2 MiB of all with the environment; macOS 1 MiB, Windows
# 32 KiB of all.
EXPRESSION_BYTES, EXPRESSIONS = (24 << 10, 1) if sys.platform == "win32" else (100 << 10, 5)
EXPERIMENTAL = {"NEXTEST_EXPERIMENTAL_LIBTEST_JSON": "1"}
RUN_OPTIONS = (
    *("--no-fail-fast", "--test-threads=1", "--color=never", "--status-level=pass"),
    *("--success-output=immediate", "--failure-output=immediate"),
    *("--message-format=libtest-json-plus", "--message-format-version=0.1"),
)
LISTED = b'{"rust-build-meta"'
ERROR_LINES = 20
FILTERSETS = ("-E", "--filterset", "--filter-expr")
# nextest does not escape quotes and backslashes in names: these lines are not always valid JSON.
TEST = re.compile(
    r'\{"type":"test","event":"(?P<event>\w+)","name":"(?P<binary>[^$"]*)\$(?P<test>.*?)"'
    r'(?:,"exec_time":(?P<wall_s>[\d.e+-]+)(?P<timeout>,"reason":"time limit exceeded")?'
    r'(?:,"stdout":(?P<output>".*"))?)?\}\s*$'
)
RETRY = re.compile(r"^ +TRY \d+ ", re.M)
STATUS = re.compile(rb" *[A-Z][A-Z\d -]* +\[[^\]]*s\]")
LIBTEST = re.compile(r"^ *running 1 test$", re.M)
CLOSED = re.compile(r"^ *test result: \w", re.M)
PROVEN = re.compile(r"^ *test result: ok\. 1 passed;", re.M)
TARGET = re.compile(r"^\[+(lib|bin|test|bench|example)\]+\s*$(.*?)(?=^\[|\Z)", re.M | re.S)
OWN_HARNESS = re.compile(r"^\s*harness\s*=\s*false\b", re.M)
TARGET_NAME = re.compile(r"^\s*name\s*=\s*[\"']([^\"']+)", re.M)
TIMEOUT_PASSED = re.compile(r"^ *\(test passed with timeout\)$", re.M)  # on-timeout = "pass"
NOT_PROVEN = "exit code 0 and no `test result: ok. 1 passed`"
ABORTED = re.compile(r"^ *\(test aborted with (.+)\)$", re.M)
EXITED = re.compile(r"^ *\(test failed with (.+)\)$", re.M)
NO_MEMORY = re.compile(r"^memory allocation of \d+ bytes failed", re.M)
PLACE = re.compile(r"panicked at (?:'.*?', )?([^/\s':][^:\n]*\.rs):(\d+)", re.S)


def binary_id(crate: str, name: str, kind: str) -> str:
    """Return nextest's id of a test binary: https://nexte.st/docs/glossary/#binary-id."""
    if kind in ("lib", "proc-macro"):
        return crate
    return f"{crate}::{name}" if kind == "test" else f"{crate}::{kind}/{name}"


def own_harnesses(cargo: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the binaries of the workspace whose Cargo.toml declares `harness = false`."""
    words = (*cargo, "metadata", "--no-deps", "--offline", "--format-version=1")
    done = subprocess.run(words, env=dict(environ), stdout=subprocess.PIPE, check=False)
    for package in json.loads(done.stdout or b"{}").get("packages", ()):
        with open(package["manifest_path"], encoding="utf-8") as file:
            targets = TARGET.findall(file.read())
        for kind, text in targets:
            name = TARGET_NAME.search(text)
            if OWN_HARNESS.search(text):
                yield binary_id(package["name"], name[1] if name else "", kind)


class NextestStream:
    """Parser of nextest's output.

    Args:
        units: the units to run.
        own_harnesses: binaries whose tests print no closing line of libtest.

    Attributes:
        running: the running unit; "" for none.
        begun: units that have begun.
        printed: lines outside of tests.
    """

    def __init__(self, units: Iterable[str], own_harnesses: Iterable[str]) -> None:
        self._units = frozenset(units)
        self._own_harnesses = frozenset(own_harnesses)
        self._binaries: dict[str, str] = {}  # ids, as tests name them: by crate and name
        self._log: list[str] = []
        self.running = ""
        self.begun: dict[str, None] = {}
        self.printed: list[str] = []

    def read(self, line: bytes) -> tuple[list[Line], bytes]:
        """Parse a line; return lines of the record, and nextest's normal output."""
        text = line.decode("utf-8", "replace")
        if text.startswith('{"type":"suite"'):
            suite = json.loads(text)
            nextest = suite.get("nextest", {})
            crate, name = str(nextest.get("crate")), str(nextest.get("test_binary"))
            self._binaries[f"{crate}::{name}"] = binary_id(crate, name, str(nextest.get("kind")))
            if suite.get("event") != "ok" or not self.running:
                return [], b""
            # nextest reports the start of an `#[ignore]`d test, and no end.
            unit, self.running = self.running, ""
            result = {"type": "result", "unit": unit, "outcome": "skipped"}
            return [{**result, "message": "#[ignore]"}, launcher.closed(unit)], b""
        event = TEST.match(text)
        if event is None:
            (self._log if self.running else self.printed).append(text)
            return [], b"" if self.running else line
        unit = f"{self._binaries.get(event['binary'], '')} {event['test']}"
        if event["event"] == "started" and unit in self._units:
            self.running, self._log = unit, []
            self.begun[unit] = None
            return [{"type": "start", "unit": unit}], b""
        of_running = re.fullmatch(f"{re.escape(self.running)}(?:#(\\d+))?", unit)
        if event["event"] in ("ok", "failed") and self.running and of_running:
            lines = self._end(event, int(of_running[1] or 1) - 1)
            return lines, self._shown(is_pass=lines[0]["outcome"] == "passed")
        return [], b""

    def _end(self, event: "re.Match[str]", reruns: int) -> list[Line]:
        unit, self.running = self.running, ""
        last = RETRY.split("".join(self._log))[-1]
        output = json.loads(event["output"]) if event["output"] else ""
        outcome, message = "passed" if event["event"] == "ok" else "failed", output
        line: Line = {"type": "result", "unit": unit, "wall_s": float(event["wall_s"])}
        aborted = ABORTED.search(last)
        is_cut = LIBTEST.search(last) and not CLOSED.search(last)
        if outcome == "passed" and unit.partition(" ")[0] not in self._own_harnesses:
            is_cut = not PROVEN.search(last)
        if event["timeout"] or TIMEOUT_PASSED.search(last):
            outcome, line["ending"], message = "died", "timeout", "over nextest's slow-timeout"
        elif aborted or is_cut:
            how = aborted or EXITED.search(last)
            why = how[1] if how else NOT_PROVEN if outcome == "passed" else "no result"
            line["ending"] = "out_of_memory" if NO_MEMORY.search(output) else "crash"
            outcome, message = "died", f"its process ended with {why}\n{output}".strip()
        line["outcome"] = outcome
        if outcome != "passed":
            line["message"] = launcher.truncated(message.strip("\n"))
            place = PLACE.search(message)
            line.update({"file": place[1], "line": int(place[2])} if place else {})
        if reruns > 0:
            line["reruns"] = reruns
        return [line, launcher.closed(unit)]

    def _shown(self, *, is_pass: bool) -> bytes:
        lines = [text.encode("utf-8") for text in self._log]
        return b"".join(line for line in lines if not is_pass or STATUS.match(line))

    def missing(self) -> Iterator[Line]:
        """Yield the events for units that nextest does not have."""
        return launcher.not_collected(sorted(self._units.difference(self.begun)))


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a command: the words before `run`, and the options after it."""
    index = words.index("run", words.index("nextest"))
    return list(words[:index]), list(words[index + 1 :])


def without_filtersets(options: Sequence[str]) -> list[str]:
    """Return the options without filtersets: nextest runs the union of several filtersets."""
    end = options.index("--") if "--" in options else len(options)
    words, kept = iter(options[:end]), []
    for word in words:
        if word in FILTERSETS:
            next(words, "")
        elif not word.startswith(("-E", "--filterset=", "--filter-expr=")):
            kept.append(word)
    return [*kept, *options[end:]]


def escaped(name: str) -> str:
    r"""Escape a name for a filterset: \u{} stands for any character."""
    return re.sub(r"[^\w:.#-]", lambda match: f"\\u{{{ord(match[0]):x}}}", name, flags=re.ASCII)


def filtersets(units: Iterable[str]) -> list[str]:
    """Return filtersets for exactly these units, each short enough for an argument."""
    expressions: list[str] = []
    binary, tests, size = "", [], 0  # type: tuple[str, list[str], int]

    def close() -> None:
        if tests:
            expressions.append(f"binary_id(={escaped(binary)}) & ({' | '.join(tests)})")

    for unit in sorted(units, key=lambda unit: unit.partition(" ")[0]):
        name, _, test = unit.partition(" ")
        text = f"test(={escaped(test)})"
        if name != binary or size + len(text) > EXPRESSION_BYTES:
            close()
            binary, tests, size = name, [], len(name)
        tests.append(text)
        size += len(text) + 3
    close()
    return expressions


def selections(units: Iterable[str]) -> Iterator[list[str]]:
    """Yield the filtersets of each `nextest run`, short enough together for an argument list."""
    chosen, size = [], 0  # type: tuple[list[str], int]
    for expression in filtersets(units):
        if chosen and size + len(expression) > EXPRESSIONS * EXPRESSION_BYTES:
            yield chosen
            chosen, size = [], 0
        chosen.append(expression)
        size += len(expression)
    if chosen:
        yield chosen


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write the listing: the tests that the options select, or why they cannot be built."""
    command, options = divided(words)
    printed: list[bytes] = []

    def take(line: bytes) -> bytes:
        printed.append(line)
        return b"" if line.startswith(LISTED) else line

    code = launcher.follow([*command, "list", "--message-format=json", *options], leg.environ, take)
    suites: Mapping[str, Any] = {}
    for line in printed:
        if line.startswith(LISTED):
            suites = json.loads(line)["rust-suites"]
    here = os.getcwd()
    units = [
        {"unit": f"{binary} {test}", "file": os.path.relpath(suite["cwd"], here).replace("\\", "/")}
        for binary, suite in suites.items()
        for test, facts in suite["testcases"].items()
        if facts["filter-match"]["status"] == "matches"
    ]
    message = b"".join(printed[-ERROR_LINES:]).decode("utf-8", "replace")
    errors = [{"error": "cargo nextest list", "message": message}] if code else []
    leg.answer(units, errors, here)
    return code


def run_tests(words: Sequence[str], leg: Leg) -> int:
    """Run the units, in as many calls of nextest as the length of their names requires."""
    command, options = divided(words)
    options = without_filtersets(options)
    harnesses = own_harnesses(command[: command.index("nextest")], leg.environ)
    stream, code, is_over = NextestStream(leg.units, harnesses), PASSED, False

    def take(line: bytes) -> bytes:
        nonlocal is_over
        lines, shown = stream.read(line)
        # After a request to stop, nextest is ended when it starts the next test.
        is_over = is_over or (any(line["type"] == "start" for line in lines) and leg.must_stop())
        if is_over:
            return b""
        leg.append(lines)
        return shown

    for expressions in selections(leg.units):
        if leg.must_stop():
            break
        begun, stream.printed = len(stream.begun), []
        argv = [*command, "run", *RUN_OPTIONS, *(f"-E={one}" for one in expressions), *options]
        ended = launcher.follow(argv, {**leg.environ, **EXPERIMENTAL}, take, lambda: is_over)
        if ended not in (PASSED, NO_TESTS, FAILED):
            if len(stream.begun) == begun and not leg.must_stop():
                detail = launcher.truncated("".join(stream.printed[-ERROR_LINES:]).strip())
                event = {"type": "event", "kind": "collection_error", "unit": "", "detail": detail}
                leg.append([event])
            return ended
        code = code or (ended if ended == FAILED else PASSED)
    if not leg.must_stop():
        leg.append(stream.missing())
    return code


if __name__ == "__main__":
    launcher.launch(sys.argv[1:], list_tests, run_tests)
