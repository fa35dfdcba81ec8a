"""Parser of a GoogleTest program's output: takes a line, returns lines of the record. Pure.

Only the running test can end, by its full name; output of the test without a line feed may precede
that. https://google.github.io/googletest/
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Dict, Iterable, List, Optional

if TYPE_CHECKING:  # the same file by the name that a checker finds it under
    from ciguard.run.plugins.ciguard_launcher import LOG_CHARACTERS, Line, closed, death, last_part
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # which -I leaves out
    from ciguard_launcher import LOG_CHARACTERS, Line, closed, death, last_part

SUITE = re.compile(r"\[-{10}\] \d+ tests? from (.+?)(?:, where TypeParam = .*)?$")
SUITE_END = re.compile(r" \(\d+ ms total\)$")
RUN = re.compile(r"\[ RUN      \] (.+)$")
ENDS = {"[       OK ] ": "passed", "[  FAILED  ] ": "failed", "[  SKIPPED ] ": "skipped"}
WHERE = re.compile(r"^(?P<file>.+?)[:(](?P<line>\d+)\)?: (?:Failure$|error: )", re.M)
FAILURE = re.compile(r"^(?:unknown file|.+?[:(]\d+\)?): (?:Failure$|error: )", re.M)
# Lines of GoogleTest around tests.
FRAME = re.compile(
    r"^(?:Running main\(\) from .*|Note: Google Test filter = .*| *\d+ FAILED TESTS?"
    r"|\[(?:=+|-+| RUN     | {6} OK|  FAILED |  PASSED |  SKIPPED) ?\].*)\n?",
    re.M,
)


def describe_failure(log: str, here: str) -> Line:
    """Return the message, and the position of the first failure if known, for a test's output.

    Args:
        here: the working folder: a file outside of it does not belong to the project.
    """
    text = FRAME.sub("", log).strip("\n")
    failure, position = FAILURE.search(text), WHERE.search(text)
    fields: Line = {"message": last_part(text)}
    if failure and text.startswith(failure[0]):
        fields["message"] = last_part(text[failure.end() :])
    if position:
        path = os.path.relpath(position["file"], here) if os.path.isabs(position["file"]) else ""
        if path and not path.startswith(".."):
            fields.update(file=path.replace(os.sep, "/"), line=int(position["line"]))
    return fields


class GTestStream:
    """Parser of one program, which may be started several times.

    The time of a suite's set-up counts for its first test: so does a set-up that hangs or dies.

    Args:
        units: name -> id of the tests to run, in the program's order.
        here: the working folder.

    Attributes:
        pending: the tests that have not begun.
        has_died: the last start of the program ended in a test.
    """

    def __init__(self, units: Dict[str, str], here: str) -> None:
        self._units = units
        self._here = here
        self.pending = dict(units)
        self.has_died = self._is_in_test = False
        self._open: Optional[str] = None
        self._log = self._suite_log = self._program_log = ""

    def begin(self) -> None:
        """Begin a start of the program."""
        self._open, self._is_in_test, self.has_died = None, False, False
        self._log = self._suite_log = self._program_log = ""
        self._suite = ""

    @property
    def has_open_test(self) -> bool:
        """Whether a test, or the set-up of its suite, is running."""
        return self._open is not None

    def read(self, line: bytes) -> List[Line]:
        """Parse a line of output."""
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
            self._suite_log = (self._suite_log + text)[-LOG_CHARACTERS:]
        else:
            self._program_log = (self._program_log + text)[-LOG_CHARACTERS:]

    def _start(self, name: str) -> List[Line]:
        del self.pending[name]
        self._open = name
        return [{"type": "start", "unit": self._units[name]}]

    def _run(self, name: str) -> List[Line]:
        self._log = ""
        self._is_in_test = True
        if name == self._open:
            return []
        lines: List[Line] = []
        if self._open is not None:  # the tests are shuffled
            unit = self._units[self._open]
            lines.append({"type": "event", "kind": "unit_paused", "unit": unit})
            self.pending[self._open] = unit
        self._open = name
        return lines + (self._start(name) if name in self.pending else [])

    def _read_in_test(self, text: str) -> List[Line]:
        for word, outcome in ENDS.items():
            before, match, after = text.partition(f"{word}{self._open}")
            if match and (not after or after.startswith((" (", ", where "))):
                self._log += before
                return self._end(outcome)
        self._log = (self._log + text + "\n")[-LOG_CHARACTERS:]
        return []

    def _end(self, outcome: str) -> List[Line]:
        name, self._open, self._is_in_test = self._open, None, False
        if name is None or name not in self._units:
            return []
        line: Line = {"type": "result", "unit": self._units[name], "outcome": outcome}
        # After a failed set-up, GoogleTest reports the tests as skipped.
        set_up = next(filter(FAILURE.search, (self._suite_log, self._program_log)), "")
        if outcome == "skipped" and set_up:
            line.update(outcome="errored", **describe_failure(set_up, self._here))
        elif outcome != "passed":
            line.update(describe_failure(self._log, self._here))
        return [line, closed(self._units[name])]

    def end(self, how: str) -> Iterable[Line]:
        """End a start of the program: an open test has ended it.

        Args:
            how: how the program ended, in words.
        """
        name, self._open, self._is_in_test = self._open, None, False
        if name is not None and name in self._units:
            self.has_died = True
            log = self._log or self._suite_log
            yield death(self._units[name], f"its program ended with {how}", log)
