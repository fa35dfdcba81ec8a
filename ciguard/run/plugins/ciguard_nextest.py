"""Runs cargo-nextest for a leg, or lists its tests: `ciguard_nextest.py cargo nextest run OPTIONS`.

One test at a time, of which nextest says as libtest's JSON when it starts and ends. That takes an
exit code of 0 for a pass, even of a wrapper that runs nothing: nextest shows the output of each
test, too, in which libtest's closing line is the evidence. A harness of the project's own,
`harness = false` in Cargo.toml, may print anything.
https://nexte.st/docs/machine-readable/libtest-json/
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins.ciguard_launcher import (
        Leg,
        Line,
        closed,
        follow,
        launch,
        not_collected,
        truncated,
    )
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_launcher import Leg, Line, closed, follow, launch, not_collected, truncated

PASSED, NO_TESTS, FAILED = 0, 4, 100  # what nextest exits with where it has run what there is
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
# nextest writes names as they are, quotes and backslashes too: no reader of JSON takes these lines.
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
    """What nextest calls a test binary: https://nexte.st/docs/glossary/#binary-id."""
    if kind in ("lib", "proc-macro"):
        return crate
    return f"{crate}::{name}" if kind == "test" else f"{crate}::{kind}/{name}"


def own_harnesses(cargo: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """The binaries of the workspace whose Cargo.toml declares a harness other than libtest."""
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
    """What nextest prints of the units that were asked for.

    Args:
        own_harnesses: binaries whose tests print no closing line of libtest.

    Attributes:
        running: the unit that is; "" for none.
        begun: units that have.
        printed: lines outside of every test.
    """

    def __init__(self, units: Iterable[str], own_harnesses: Iterable[str]) -> None:
        self._units = frozenset(units)
        self._own_harnesses = frozenset(own_harnesses)
        self._binaries: Dict[str, str] = {}  # ids, as tests name them: by crate and name
        self._log: List[str] = []
        self.running = ""
        self.begun: Dict[str, None] = {}
        self.printed: List[str] = []

    def read(self, line: bytes) -> Tuple[List[Line], bytes]:
        """What a line comes to, and what of it is shown: what nextest would print without us."""
        text = line.decode("utf-8", "replace")
        if text.startswith('{"type":"suite"'):
            suite = json.loads(text)
            nextest = suite.get("nextest", {})
            crate, name = str(nextest.get("crate")), str(nextest.get("test_binary"))
            self._binaries[f"{crate}::{name}"] = binary_id(crate, name, str(nextest.get("kind")))
            if suite.get("event") != "ok" or not self.running:
                return [], b""
            # nextest announces a test that is `#[ignore]`d, and tells nothing more of it.
            unit, self.running = self.running, ""
            result = {"type": "result", "unit": unit, "outcome": "skipped"}
            return [{**result, "message": "#[ignore]"}, closed(unit)], b""
        found = TEST.match(text)
        if found is None:
            (self._log if self.running else self.printed).append(text)
            return [], b"" if self.running else line
        unit = f"{self._binaries.get(found['binary'], '')} {found['test']}"
        if found["event"] == "started" and unit in self._units:
            self.running, self._log = unit, []
            self.begun[unit] = None
            return [{"type": "start", "unit": unit}], b""
        of_running = re.fullmatch(f"{re.escape(self.running)}(?:#(\\d+))?", unit)
        if found["event"] in ("ok", "failed") and self.running and of_running:
            lines = self._end(found, int(of_running[1] or 1) - 1)
            return lines, self._shown(is_pass=lines[0]["outcome"] == "passed")
        return [], b""

    def _end(self, found: "re.Match[str]", reruns: int) -> List[Line]:
        unit, self.running = self.running, ""
        last = RETRY.split("".join(self._log))[-1]
        output = json.loads(found["output"]) if found["output"] else ""
        outcome, message = "passed" if found["event"] == "ok" else "failed", output
        line: Line = {"type": "result", "unit": unit, "wall_s": float(found["wall_s"])}
        aborted = ABORTED.search(last)
        is_cut = LIBTEST.search(last) and not CLOSED.search(last)
        if outcome == "passed" and unit.partition(" ")[0] not in self._own_harnesses:
            is_cut = not PROVEN.search(last)
        if found["timeout"] or TIMEOUT_PASSED.search(last):
            outcome, line["ending"], message = "died", "timeout", "over nextest's slow-timeout"
        elif aborted or is_cut:
            how = aborted or EXITED.search(last)
            why = how[1] if how else NOT_PROVEN if outcome == "passed" else "no result"
            line["ending"] = "out_of_memory" if NO_MEMORY.search(output) else "crash"
            outcome, message = "died", f"its process ended with {why}\n{output}".strip()
        line["outcome"] = outcome
        if outcome != "passed":
            line["message"] = truncated(message.strip("\n"))
            place = PLACE.search(message)
            line.update({"file": place[1], "line": int(place[2])} if place else {})
        if reruns > 0:
            line["reruns"] = reruns
        return [line, closed(unit)]

    def _shown(self, *, is_pass: bool) -> bytes:
        lines = [one.encode("utf-8") for one in self._log]
        return b"".join(one for one in lines if not is_pass or STATUS.match(one))

    def missing(self) -> Iterator[Line]:
        """Of each unit that nextest does not have, that it does not."""
        return not_collected(sorted(self._units.difference(self.begun)))


def divided(words: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Split a command: what stands before the word `run`, and the options after it."""
    at = words.index("run", words.index("nextest"))
    return list(words[:at]), list(words[at + 1 :])


def without_filtersets(options: Sequence[str]) -> List[str]:
    """Options that select no test: nextest would run what any one of several filtersets names."""
    end = options.index("--") if "--" in options else len(options)
    words, kept = iter(options[:end]), []
    for word in words:
        if word in FILTERSETS:
            next(words, "")
        elif not word.startswith(("-E", "--filterset=", "--filter-expr=")):
            kept.append(word)
    return [*kept, *options[end:]]


def escaped(name: str) -> str:
    r"""A name in a filterset; \u{} says any character."""
    return re.sub(r"[^\w:.#-]", lambda found: f"\\u{{{ord(found[0]):x}}}", name, flags=re.ASCII)


def filtersets(units: Iterable[str]) -> List[str]:
    """Expressions for these units and no others, each short enough to be passed."""
    found: List[str] = []
    binary, tests, size = "", [], 0  # type: Tuple[str, List[str], int]

    def close() -> None:
        if tests:
            found.append(f"binary_id(={escaped(binary)}) & ({' | '.join(tests)})")

    for unit in sorted(units, key=lambda unit: unit.partition(" ")[0]):
        name, _, test = unit.partition(" ")
        text = f"test(={escaped(test)})"
        if name != binary or size + len(text) > EXPRESSION_BYTES:
            close()
            binary, tests, size = name, [], len(name)
        tests.append(text)
        size += len(text) + 3
    close()
    return found


def selections(units: Iterable[str]) -> Iterator[List[str]]:
    """The filtersets of each `nextest run`, all of which an argument list can hold."""
    found, size = [], 0  # type: Tuple[List[str], int]
    for one in filtersets(units):
        if found and size + len(one) > EXPRESSIONS * EXPRESSION_BYTES:
            yield found
            found, size = [], 0
        found.append(one)
        size += len(one)
    if found:
        yield found


def list_tests(words: Sequence[str], leg: Leg) -> int:
    """Write down the tests that the options select, or why they cannot be built."""
    command, options = divided(words)
    printed: List[bytes] = []

    def take(line: bytes) -> bytes:
        printed.append(line)
        return b"" if line.startswith(LISTED) else line

    code = follow([*command, "list", "--message-format=json", *options], leg.environ, take)
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
    """Run the units, in as many calls as their names need."""
    command, options = divided(words)
    options = without_filtersets(options)
    harnesses = own_harnesses(command[: command.index("nextest")], leg.environ)
    stream, code, is_over = NextestStream(leg.units, harnesses), PASSED, False

    def take(line: bytes) -> bytes:
        nonlocal is_over
        lines, shown = stream.read(line)
        # Asked to stop, we end nextest as it starts the next test: no result of that one counts.
        is_over = is_over or (any(one["type"] == "start" for one in lines) and leg.must_stop())
        if is_over:
            return b""
        leg.append(one for one in lines if not is_killed(one))
        return shown

    def is_killed(one: Line) -> bool:
        return leg.is_interrupted and one.get("outcome") == "died"

    for expressions in selections(leg.units):
        if leg.must_stop():
            break
        begun, stream.printed = len(stream.begun), []
        argv = [*command, "run", *RUN_OPTIONS, *(f"-E={one}" for one in expressions), *options]
        ended = follow(argv, {**leg.environ, **EXPERIMENTAL}, take, lambda: is_over)
        if ended not in (PASSED, NO_TESTS, FAILED):
            if len(stream.begun) == begun and not leg.must_stop():
                detail = truncated("".join(stream.printed[-ERROR_LINES:]).strip())
                event = {"type": "event", "kind": "collection_error", "unit": "", "detail": detail}
                leg.append([event])
            return ended
        code = code or (ended if ended == FAILED else PASSED)
    if not leg.must_stop():
        leg.append(stream.missing())
    return code


if __name__ == "__main__":
    launch(sys.argv[1:], list_tests, run_tests)
