"""Launcher of GoogleTest programs: `ciguard_gtest.py PROGRAM... FLAGS`.

Programs run one after the other, each with a file that names its tests. If a test ends its program,
the tests that have not begun run in another start of the program.
https://google.github.io/googletest/
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins import ciguard_launcher as launcher
    from ciguard.run.plugins.ciguard_launcher import Leg, Line
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    import ciguard_launcher as launcher

PASSED, FAILED = 0, 1
# Variables that exclude or repeat tests, or change their output.
HIDDEN = (
    *("GTEST_BRIEF", "GTEST_COLOR", "GTEST_FAIL_FAST", "GTEST_FILTER", "GTEST_PRINT_TIME"),
    *("GTEST_REPEAT", "GTEST_TOTAL", "GTEST_SHARD"),
)
SHUFFLED = re.compile(r"Note: Randomizing tests' orders with a seed of (\d+) \.")
DISABLED = re.compile(r"(?:^|[./])DISABLED_")
ALSO_DISABLED = "gtest_also_run_disabled_tests"
# Characters with a meaning in a filter, and white space, which ends a line of a flag file.
SPECIAL = re.compile(r"[*?:\-\s]")
SUITE = re.compile(r"\[-{10}\] \d+ tests? from (.+?)(?:, where TypeParam = .*)?$")
SUITE_END = re.compile(r" \(\d+ ms total\)$")
RUN = re.compile(r"\[ RUN      \] (.+)$")
ENDS = {"[       OK ] ": "passed", "[  FAILED  ] ": "failed", "[  SKIPPED ] ": "skipped"}


class GTestStream:
    """Parser of the output of one program, which may be started several times.

    Only the running test can end, by its full name; output of the test without a line feed may
    precede that.

    The time of a suite's set-up counts for its first test: so does a set-up that hangs or dies.

    Args:
        units: name -> id of the tests to run, in the program's order.
        here: the working folder.

    Attributes:
        pending: the tests that have not begun.
        has_died: the last start of the program ended in a test.
    """

    def __init__(self, units: dict[str, str], here: str) -> None:
        self._units = units
        self._here = here
        self.pending = dict(units)
        self.has_died = self._is_in_test = False
        self._open: str | None = None
        self._log = self._suite_log = self._program_log = ""

    def begin(self) -> None:
        self._open, self._is_in_test, self.has_died = None, False, False
        self._log = self._suite_log = self._program_log = ""
        self._suite = ""

    @property
    def has_open_test(self) -> bool:
        """Return whether a test, or the set-up of its suite, is running."""
        return self._open is not None

    def read(self, line: bytes) -> list[Line]:
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if self._is_in_test:
            return self._read_in_test(text)
        run, suite = RUN.search(text), SUITE.search(text)
        if run:
            self._add_outside(text[: run.start()])
            return self._run(run[1])
        if suite and not SUITE_END.search(text):
            self._suite, self._suite_log = suite[1], ""
            first = next((name for name in self.pending if name.startswith(f"{suite[1]}.")), None)
            return self._start(first) if first else []
        self._add_outside(text + "\n")
        return []

    def _add_outside(self, text: str) -> None:
        if self._suite:
            self._suite_log = (self._suite_log + text)[-launcher.LOG_CHARACTERS :]
        else:
            self._program_log = (self._program_log + text)[-launcher.LOG_CHARACTERS :]

    def _start(self, name: str) -> list[Line]:
        del self.pending[name]
        self._open = name
        return [{"type": "start", "unit": self._units[name]}]

    def _run(self, name: str) -> list[Line]:
        self._log = ""
        self._is_in_test = True
        if name == self._open:
            return []
        lines: list[Line] = []
        if self._open is not None:  # the tests are shuffled
            unit = self._units[self._open]
            lines.append({"type": "event", "kind": "unit_paused", "unit": unit})
            self.pending[self._open] = unit
        self._open = name
        return lines + (self._start(name) if name in self.pending else [])

    def _read_in_test(self, text: str) -> list[Line]:
        for word, outcome in ENDS.items():
            before, match, after = text.partition(f"{word}{self._open}")
            if match and (not after or after.startswith((" (", ", where "))):
                self._log += before
                return self._end(outcome)
        self._log = (self._log + text + "\n")[-launcher.LOG_CHARACTERS :]
        return []

    def _end(self, outcome: str) -> list[Line]:
        name, self._open, self._is_in_test = self._open, None, False
        if name is None or name not in self._units:
            return []
        line: Line = {"type": "result", "unit": self._units[name], "outcome": outcome}
        # After a failed set-up, GoogleTest reports the tests as skipped.
        set_up = next(filter(launcher.FAILURE.search, (self._suite_log, self._program_log)), "")
        if outcome == "skipped" and set_up:
            line.update(outcome="errored", **launcher.describe_failure(set_up, self._here))
        elif outcome != "passed":
            line.update(launcher.describe_failure(self._log, self._here))
        return [line, launcher.closed(self._units[name])]

    def end(self, how: str) -> Iterable[Line]:
        """End a start of the program, which ended as `how` says: an open test has ended it."""
        name, self._open, self._is_in_test = self._open, None, False
        if name is not None and name in self._units:
            self.has_died = True
            log = self._log or self._suite_log
            yield launcher.death(self._units[name], f"its program ended with {how}", log)


def divided(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the programs by the prefix of their tests' ids ("" for a single one), and flags."""
    count = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    programs, flags = words[:count], list(words[count:])
    if len(programs) == 1:
        return {"": programs[0]}, flags
    return {f"[{os.path.basename(path)}] ": path for path in programs}, flags


def read_tests(program: str, flags: Sequence[str], folder: str, leg: Leg) -> list[dict[str, Any]]:
    """Return the tests of a program that its flags select, in its order.

    Raises:
        ValueError: the program wrote no list; has its output.
    """
    path = os.path.join(folder, "tests.json")
    argv = [program, *flags, "--gtest_list_tests", f"--gtest_output=json:{path}"]
    done = subprocess.run(
        argv, env=leg.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            suites = json.load(file)["testsuites"]
        os.unlink(path)
    except (OSError, ValueError, KeyError) as error:
        text = done.stdout.decode("utf-8", "replace").strip()
        why = f"ended with exit code {done.returncode} and no list of tests"
        raise ValueError(f"{why} (GoogleTest 1.10 or newer lists them)\n{text}") from error
    runs_disabled = any(ALSO_DISABLED in flag for flag in flags)
    runs_disabled = runs_disabled or ALSO_DISABLED.upper() in leg.environ
    return [
        {**test, "name": unescaped(f"{suite['name']}.{test['name']}")}
        for suite in suites
        for test in suite["testsuite"]
        if runs_disabled or not DISABLED.search(f"{suite['name']}.{test['name']}")
    ]


def unescaped(text: str) -> str:
    """Decode a text in which GoogleTest wrote each byte of an "ü" as one character."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def list_tests(words: Sequence[str], leg: Leg) -> int:
    programs, flags = divided(words)
    here = os.getcwd()
    units: list[Line] = []
    errors: list[Line] = []
    for prefix, program in programs.items():
        try:
            tests = read_tests(program, flags, os.path.dirname(leg.collect_file), leg)
        except ValueError as error:
            errors.append({"error": program, "message": str(error)})
            continue
        units += [
            {"unit": prefix + test["name"], "file": launcher.relative(test.get("file"), here)}
            for test in tests
        ]
    leg.answer(units, errors, here)
    return FAILED if errors else PASSED


def run_tests(words: Sequence[str], leg: Leg) -> int:
    programs, flags = divided(words)
    codes = [PASSED]
    for prefix, program in programs.items():
        asked = {unit[len(prefix) :]: unit for unit in leg.units if unit.startswith(prefix)}
        if not asked or leg.must_stop():
            continue
        try:
            tests = read_tests(program, flags, leg.private, leg)
        except ValueError as error:
            sys.stderr.write(f"ciguard: {program}: {error}\n")
            codes.append(FAILED)
            continue
        names = [test["name"] for test in tests if test["name"] in asked]
        leg.append(
            launcher.not_collected(unit for name, unit in asked.items() if name not in set(names))
        )
        stream = GTestStream({name: asked[name] for name in names}, os.getcwd())
        codes.extend(run_program([program, *flags], stream, leg))
    return next((code for code in codes if code not in (PASSED, FAILED)), max(codes))


def run_program(argv: Sequence[str], stream: GTestStream, leg: Leg) -> Iterator[int]:
    """Start a program until all its tests have begun, or no more begin; yield its exit codes.

    The exit code is 1 if a test explains it.
    """
    path = os.path.join(leg.private, "flags")
    more = [f"--gtest_flagfile={path}", "--gtest_color=no", "--gtest_print_time=1"]
    left = len(stream.pending) + 1
    while stream.pending and len(stream.pending) < left and not leg.must_stop():
        left = len(stream.pending)
        with open(path, "w", encoding="utf-8") as file:
            patterns = (SPECIAL.sub("?", name) for name in stream.pending)
            file.write(f"--gtest_filter={':'.join(patterns)}\n")

        def take(line: bytes) -> bytes:
            leg.append_timed(stream.read(line))
            seed = SHUFFLED.match(line.decode("utf-8", "replace"))
            if seed:
                words = f"--gtest_shuffle --gtest_random_seed={seed[1]}"
                leg.append([{"type": "event", "kind": "seed", "detail": words}])
            return b"" if line.startswith(b"Note: Google Test filter = ") else line

        def must_end() -> bool:
            return not stream.has_open_test and leg.must_stop()

        stream.begin()
        code = launcher.follow([*argv, *more], leg.environ, take, must_end)
        if must_end():
            return
        if not leg.is_interrupted:
            leg.append_timed(stream.end(how_ended(code)))
        yield FAILED if stream.has_died else code


def how_ended(code: int) -> str:
    """Return "exit code 11" for 11, and "signal 11 (SIGSEGV)" for -11."""
    if code >= 0:
        return f"exit code {code}"
    names = {int(member): member.name for member in signal.Signals}
    return f"signal {-code} ({names.get(-code, 'unknown')})"


if __name__ == "__main__":
    launcher.launch(sys.argv[1:], list_tests, run_tests, hidden=HIDDEN)
