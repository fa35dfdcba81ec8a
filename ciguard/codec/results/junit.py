"""JUnit XML, as many programs write it: bytes -> results, streamed through expat.

There is no standard. The common part of all writers is read: `testcase` with `classname`, `name`,
`time`, `file`, `line`, and in it `failure`, `error` or `skipped`; the counters of a suite; and the
earlier tries of Surefire. docs/reference/result-files.md has the table.
JUnit XML has no field for its producer. A producer that needs a special rule is recognised by an
element's attributes and their order, which a merge of files does not change. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import IO, Final, Literal, NamedTuple

from ciguard.codec.results.base import truncate_message, xml_root
from ciguard.codec.results.xmlstream import MutableResult, XmlReader, seconds
from ciguard.codec.results.xmlstream import read as read_xml
from ciguard.errors import InputError
from ciguard.model import BAD_OUTCOMES, Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "JUnit XML"
_ROOTS: Final = frozenset({"testsuites", "testsuite", "testcase"})
_OUTCOME: Final[dict[str, Outcome]] = {
    "failure": "failed",
    "error": "errored",
    "skipped": "skipped",
}
_BY_SEVERITY: Final = ("passed", "skipped", "failed", "errored")
# Earlier tries of a case that is reported once.
_TRIES: Final[dict[str, Outcome]] = {
    "flakyFailure": "failed",
    "flakyError": "errored",
    "rerunFailure": "failed",
    "rerunError": "errored",
}
# Elements without an outcome, which may be more frequent than cases.
_PROPERTIES: Final = "properties"
_OUTPUTS: Final = frozenset({"system-out", "system-err"})
_SPELLED: Final = {name.lower(): name for name in (*_ROOTS, *_OUTCOME, *_TRIES)}
# Outcomes of the attributes `status` and `result`, for a case without an element.
_STATUS_OUTCOMES: Final[dict[str, Outcome]] = {
    **dict.fromkeys(("", "run", "ran", "executed", "completed", "complete", "finished"), "passed"),
    **dict.fromkeys(("pass", "passed", "ok", "success", "succeeded", "successful"), "passed"),
    **dict.fromkeys(("fixed", "flaky", "warning", "true"), "passed"),
    **dict.fromkeys(("notrun", "disabled", "suppressed", "ignored", "skipped"), "skipped"),
    **dict.fromkeys(("skip", "pending", "todo", "untested", "notexecuted"), "skipped"),
    **dict.fromkeys(("fail", "failed", "failure"), "failed"),
    **dict.fromkeys(("error", "errored", "broken", "timeout", "timedout"), "errored"),
    **dict.fromkeys(("aborted", "canceled", "cancelled", "incomplete", "interrupted"), "errored"),
}

Producer = Literal["Vitest", "Playwright", "CTest", "libtest", "Node.js"]

_BY_ATTRIBUTES: Final[Mapping[str, Producer]] = {
    "testsuite name timestamp hostname tests failures errors skipped time": "Vitest",
    "testsuites id name tests failures skipped errors time": "Playwright",
    "testsuite name tests failures disabled skipped hostname time timestamp": "CTest",
    "testsuite name package id errors failures tests skipped": "libtest",
    "testsuite name time disabled errors tests failures skipped hostname": "Node.js",
}
# Files of `vitest --typecheck`, which are compiled, not run, and have no time.
_TYPE_TESTS: Final = re.compile(r"-d\.[cm]?[jt]sx?$")
_PLAYWRIGHT_SKIPS: Final = frozenset({"skip", "fixme"})


def sniff(head: bytes) -> bool:
    """Recognise XML whose first element is one of JUnit's."""
    return xml_root(head) in _ROOTS


class _Suite(NamedTuple):
    """An open suite: name, counters, and the numbers of cases and failures before it."""

    name: str
    file: str | None
    tests: int
    bad: int
    cases_before: int
    bad_before: int
    producer: Producer | None  # of this suite, else of the outer suite
    is_lost: bool  # a file of Vitest whose worker was killed


class _Reading(XmlReader):
    """Expat's handlers."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.suites: list[_Suite] = []
        self.cases = 0
        self.bad = 0  # elements of failures
        self.never_ran = 0  # cases of the innermost suite
        self.not_reached = 0  # cases of Playwright
        self.properties: list[str] = []  # of the open case, for Playwright
        self.case: dict[str, str] | None = None
        self.orphan = False  # the open case is the failure of a suite outside of cases
        self.outcome: Outcome = "passed"
        self.ending: Ending = "completed"
        self.kind = ""
        self.message: str | None = None
        self.tries: list[dict[str, str | None]] = []

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin a case, an outcome or a suite; skip everything else."""
        if tag == "testcase":
            if self.case is not None:  # a case inside a case: both are reported
                self.finish(self.case)
            self.begin(attributes)
        elif tag in _OUTCOME:
            self.start_outcome(tag, attributes)
        elif tag in _TRIES:
            self.bad += 1
            message = attributes.get("message") or attributes.get("type", "")
            ending = ending_of_failure(attributes.get("type", ""), message)
            words = {"outcome": _TRIES[tag], "ending": ending, "message": truncate_message(message)}
            self.tries.append(words)
        elif tag in _ROOTS:
            self.start_suite(tag, attributes)
        elif not self.suites and self.case is None:
            self.reject_root(tag, "JUnit", *sorted(_ROOTS))
        elif tag == _PROPERTIES:
            if self.producer != "Playwright":
                self.skip((_PROPERTIES,))
        elif tag == "property":
            self.properties.append(attributes.get("name", ""))
        elif tag not in _OUTPUTS:
            self.check_spelling(tag, _SPELLED)

    @property
    def producer(self) -> Producer | None:
        """The producer of the innermost suite; None for a producer without special rules."""
        return self.suites[-1].producer if self.suites else None

    def start_suite(self, tag: str, attributes: dict[str, str]) -> None:
        producer = _BY_ATTRIBUTES.get(" ".join((tag, *attributes))) or self.producer
        above = self.suites[-1].file if self.suites else None
        bad = self.count(attributes, "failures") + self.count(attributes, "errors")
        name, file = attributes.get("name", ""), attributes.get("file") or above
        tests = self.count(attributes, "tests")
        if producer == "libtest":  # it counts ignored tests without listing them
            tests -= self.count(attributes, "skipped")
        lost = is_lost_file(producer, attributes)
        self.suites.append(_Suite(name, file, tests, bad, self.cases, self.bad, producer, lost))
        self.never_ran = 0

    def end(self, tag: str) -> None:
        """End a case, an outcome or a suite."""
        if tag == "testcase":
            if self.case is not None:
                self.finish(self.case)
        elif tag == self.text_element:
            self.finish_outcome()
        elif tag in _ROOTS:
            self.check_counters(self.suites.pop())

    def end_skipped(self, tag: str) -> None:
        """End skipped properties; refuse an element of a case among them, which would be lost."""
        if tag == _PROPERTIES:
            super().end_skipped(tag)
        elif tag != "property" and tag.rpartition(":")[2].lower() in _SPELLED:
            what = f"<{tag:.80}> among <{_PROPERTIES}>, so what it says of which case is not known"
            raise InputError(what, where=self.position(), fix="let its writer put it beside them")

    def finish_open_case(self) -> None:
        """Report an open case that has failed: later elements cannot change that."""
        if self.case is not None and self.text_element is None and self.outcome in BAD_OUTCOMES:
            self.finish(self.case)

    def begin(self, attributes: dict[str, str], *, orphan: bool = False) -> None:
        """Begin a case; an orphan is a failure outside of cases."""
        self.case = attributes
        self.orphan = orphan
        self.outcome, self.ending = "passed", "completed"
        self.message = None
        self.properties = []

    def start_outcome(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin the outcome of the case, or of the suite outside of cases; the worst counts."""
        if self.case is None:
            # A failure of a whole suite belongs to no case, and must not be lost.
            self.begin({"name": self.suites[-1].name if self.suites else ""}, orphan=True)
        outcome = _OUTCOME[tag]
        self.bad += outcome != "skipped"
        if self.text_element is not None or _BY_SEVERITY.index(outcome) <= _BY_SEVERITY.index(
            self.outcome
        ):
            return
        self.outcome, self.kind = outcome, attributes.get("type", "")
        self.message = attributes.get("message", "")
        self.begin_text(tag)

    def finish_outcome(self) -> None:
        """End an outcome: conclude ending and message from its type, message and text."""
        message, text = self.message or "", self.text
        if self.outcome != "skipped":
            self.ending = ending_of_failure(self.kind, message)
            if self.ending == "completed":
                self.ending = ending_of_failure("", text)
        # Pages show the first line: the message comes first, as a trace begins with code.
        first = text.strip().partition("\n")[0]
        self.message = truncate_message(text if message.strip() in first else f"{message}\n{text}")
        self.end_text()
        if self.orphan and self.case is not None:
            self.finish(self.case)

    def finish(self, case: dict[str, str]) -> None:
        self.case = None
        self.cases += 1
        classname, name = case.get("classname"), case.get("name")
        if classname == "test" and self.producer == "Node.js":  # 24 names the suites, as here
            classname = ".".join(suite.name for suite in self.suites if suite.name) or classname
        if classname and name is None:
            what = f"a case of {classname!r:.120} has no name"
            raise InputError(what, where=self.position(), fix="let its writer name each case")
        if self.outcome == "passed" and ("status" in case or "result" in case):
            self.outcome = self.outcome_from_attributes(case)
        if self.outcome == "skipped":
            self.check_skip(case)
        is_lost = bool(self.suites) and self.suites[-1].is_lost
        if is_lost and self.outcome == "passed" and case.get("time") == "0":
            self.never_ran += 1
            return
        result = MutableResult(
            unit=f"{classname}::{name}" if classname else name or "unnamed",
            outcome=self.outcome,
            ending=self.ending,
            wall_s=seconds(case.get("time")),
            message=self.message,
            classname=classname,
            name=name,
            file=case.get("file") or (self.suites[-1].file if self.suites else None),
            line=_line(case["line"]) if "line" in case else None,
        )
        if self.tries:
            result.try_number = len(self.tries) + 1
        result.__class__ = Result
        if result.outcome not in BAD_OUTCOMES:  # the tries of a failed case are one result
            for number, words in enumerate(self.tries, 1):
                self.found_results.append(replace(result, **words, try_number=number, wall_s=None))
        self.tries = []
        self.found_results.append(result)

    def check_skip(self, case: dict[str, str]) -> None:
        """Correct the outcome of a skipped case: some producers skip a failed or lost test."""
        if is_failure_of_ctest(self.producer, case, self.message or ""):
            self.outcome = "failed"
        elif self.suites and was_not_reached(
            self.producer, case, self.suites[-1].name, self.properties
        ):
            self.not_reached += 1
            case.pop("time", None)  # some versions write 0
            self.outcome, self.ending = "died", "unknown"

    def outcome_from_attributes(self, case: dict[str, str]) -> Outcome:
        """Return the outcome of a case without an element by its attributes; the worse of two."""
        outcomes: list[Outcome] = []
        for key in ("status", "result"):
            word = case.get(key, "")
            if word.strip().lower() not in _STATUS_OUTCOMES:
                known = ", ".join(filter(None, _STATUS_OUTCOMES))
                what = f"{key}={word!r:.60} of a case is none that is known"
                raise InputError(what, where=self.position(), fix=f"there are: {known}")
            outcomes.append(_STATUS_OUTCOMES[word.strip().lower()])
        return max(outcomes, key=_BY_SEVERITY.index)

    def check_counters(self, suite: _Suite) -> None:
        """Set the file incomplete if a suite counts more than it holds, or cases never ran."""
        cases = self.cases - suite.cases_before
        if self.never_ran:
            killed = f"Vitest's worker of {suite.name:.120} was killed"
            self.set_incomplete(f"{killed}: no result for {self.never_ran:,} of {cases:,} tests")
            self.never_ran = 0
        if self.not_reached and not self.suites:
            self.set_incomplete(f"Playwright did not run {self.not_reached:,} of {cases:,} tests")
        bad = self.bad - suite.bad_before
        self.compare_counters(("tests", suite.tests, cases), ("failed", suite.bad, bad))


def _line(text: str) -> int | None:
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, in constant memory, also those that precede an error.

    A unit is `classname::name`, or `name` alone; failed tries before a passed one are separate
    results. Measured by benchmarks/junit_read.py.

    Raises:
        InputError: as in `xmlstream.read`; a root that is not JUnit's; or, after all results, a
            suite that counts more than the file holds.
    """
    return read_xml(stream, source, _Reading)


def is_lost_file(producer: Producer | None, suite: Mapping[str, str]) -> bool:
    """Return whether Vitest lost the worker of this file: only a file that ended has a time.

    Vitest writes a test that never ran as a passed test with `time="0"`. In a file that ended,
    `time="0"` is a test below the resolution of a browser's clock.
    """
    is_untimed = producer == "Vitest" and suite.get("time") == "0"
    return is_untimed and _TYPE_TESTS.search(suite.get("name", "")) is None


def is_failure_of_ctest(producer: Producer | None, case: Mapping[str, str], message: str) -> bool:
    """Return whether a `skipped` case is a test that CTest could not start, and counts as failed.

    The message is the reason ("Unable to find executable"). Real skips are `SKIP_*`, and a disabled
    test has no element.
    """
    is_not_run = producer == "CTest" and case.get("status") == "notrun"
    return is_not_run and bool(message) and not message.startswith("SKIP_")


def was_not_reached(
    producer: Producer | None, case: Mapping[str, str], suite: str, properties: Collection[str]
) -> bool:
    """Return whether a `skipped` case is a test that Playwright did not run ("did not run").

    Playwright stops at --max-failures, at --global-timeout, and after a failure in a group. A real
    skip has the property `skip` or `fixme`. Measured with 1.36, 1.40, 1.55, 1.60 and 1.65; 1.30 has
    no properties, and another class than the file.
    """
    is_of_file = producer == "Playwright" and case.get("classname") == suite
    return is_of_file and _PLAYWRIGHT_SKIPS.isdisjoint(properties)
