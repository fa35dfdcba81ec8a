"""TRX, the results of Visual Studio and `dotnet test`: bytes -> results, streamed through expat.

A result names its test by an id; a definition, which `dotnet test` writes after all results, has
class and method. So the file is read twice: first for definitions, then for results. A unit is the
method with its class, as in `--filter FullyQualifiedName=`; rows of a theory are its cases.
https://github.com/microsoft/vstest, TrxLogger; docs/reference/result-files.md. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Final, NamedTuple

from ciguard.codec.results.base import truncate_message, xml_root
from ciguard.codec.results.xmlstream import MAX_S, MutableResult, XmlReader
from ciguard.codec.results.xmlstream import read as read_xml
from ciguard.errors import InputError
from ciguard.model import BAD_OUTCOMES, Ending, Outcome, Result
from ciguard.model.failure_texts import ending_of_failure

NAME: Final = "TRX"
_ROOT: Final = "TestRun"

# Every outcome of the format. A test that was stopped counts as died, as its result is not known.
_OUTCOMES: Final[Mapping[str, tuple[Outcome, Ending]]] = {
    "Passed": ("passed", "completed"),
    "Completed": ("passed", "completed"),
    "Warning": ("passed", "completed"),
    "PassedButRunAborted": ("passed", "completed"),
    "NotExecuted": ("skipped", "completed"),
    "Inconclusive": ("skipped", "completed"),
    "Failed": ("failed", "completed"),
    "Error": ("errored", "completed"),
    "NotRunnable": ("errored", "completed"),
    "Timeout": ("failed", "timeout"),
    "Aborted": ("died", "cancelled"),
    "Disconnected": ("died", "lost_runner"),
    "InProgress": ("died", "unknown"),
    "Pending": ("died", "unknown"),
}
_NO_OUTCOME: Final = "Error"  # the default, which the writer omits
_STOPPED: Final = ("PassedButRunAborted", "Aborted", "Disconnected", "InProgress", "Pending")
# Outcomes of a complete run; any other word, known or not, shows an incomplete run.
_ENDED: Final = frozenset(
    {"", "Completed", "Failed", "Inconclusive", "NotExecuted", "Passed", "Warning"}
)
# Messages of an incomplete run, errors or warnings of VSTest. Of the exit codes of
# Microsoft.Testing.Platform, only that of failed tests belongs to a complete run.
_ABORTED: Final = re.compile(
    r"test run was (aborted|cancell?ed)|(abort|cancell?)ing test run|test run (aborted|cancell?ed)|"
    r"test ?host process (crashed|exited)|catastrophic failure|"
    r"exit code indicates failure: '(?!2')",
    re.IGNORECASE,
)
# Elements that the first and the second reading skip.
_RESULTS: Final = frozenset({"Results", "TestEntries"})
_DEFINITIONS: Final = frozenset({"TestDefinitions", "TestEntries"})
_BAD_COUNTERS: Final = ("failed", "error", "timeout", "aborted", "notRunnable")
_GOOD_COUNTERS: Final[Mapping[Outcome, tuple[str, ...]]] = {
    "passed": ("passed", "warning", "completed"),
    "skipped": ("notExecuted", "inconclusive"),
}
_STOPPED_COUNTERS: Final = ("passedButRunAborted", "disconnected", "inProgress", "pending")
_TEXTS: Final = ("Message", "StackTrace", "Text")
_SPELLED: Final = {
    name.lower(): name
    for name in ("UnitTestResult", "RunInfo", "ResultSummary", "Counters", *_DEFINITIONS, *_TEXTS)
}
_FAILED_LINE: Final = re.compile(r"\[xUnit\.net [\d:.]+\].*\[FAIL\]\s*$", re.DOTALL)
MAX_BYTES: Final = 1 << 30  # unpacked; the whole file is read twice
_ROW: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)
_DURATION: Final = re.compile(r"(?:(\d{1,8})\.)?(\d{1,8}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")


def sniff(head: bytes) -> bool:
    """Recognise XML whose first element is TRX's."""
    return xml_root(head) == _ROOT


class _Definition(NamedTuple):
    """A test's class and method; each may be "" if the file does not name it."""

    classname: str = ""
    method: str = ""


@dataclass(slots=True)
class _OpenCase:
    """An open result.

    Attributes:
        cases_before, bad_before: numbers of results and of failures before it.
        texts: the first text of each of its elements.
    """

    attributes: dict[str, str]
    cases_before: int
    bad_before: int
    texts: dict[str, str] = field(default_factory=dict)


class _Defining(XmlReader):
    """Expat's handlers of the first reading, which gathers only the definitions."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.definitions: dict[str, _Definition] = {}
        self.test = ""
        self.texts: dict[str, str] = {}  # a class's name once, not a method

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin a test, or read its method."""
        if tag in _RESULTS:
            self.skip(_RESULTS)
        elif tag == "UnitTest":
            self.test = attributes.get("id", "")
        elif tag == "TestMethod" and self.test:
            # Old writers add the assembly: `Shop.CartTests, Shop.Tests, Version=1.0.0.0, ...`.
            classname = attributes.get("className", "").partition(",")[0].strip()
            classname = self.texts.setdefault(classname, classname)
            method = _without_class(_without_row(attributes.get("name", "")), classname)
            self.definitions[self.test.lower()] = _Definition(classname, method)

    def end(self, tag: str) -> None:
        if tag == "UnitTest":
            self.test = ""


class _Reading(XmlReader):
    """Expat's handlers of the second reading."""

    def __init__(self, source: str, definitions: Mapping[str, _Definition]) -> None:
        super().__init__(source)
        self.definitions = definitions
        self.open: list[_OpenCase] = []  # the last is the innermost
        self.outside = True
        self.results = 0
        self.bad = 0
        self.all_bad = 0  # including results with inner results
        self.good: Counter[str] = Counter()  # by outcome, including results with inner results
        self.counted_good: Counter[str] = Counter()
        self.stopped = ""  # outcome of a result that was stopped
        self.run_info: str | None = None  # outcome of the open message of the run
        self.total, self.counted_bad, self.counted_stopped, self.outcome = 0, 0, 0, ""
        self.aborted = ""  # message of an incomplete run
        self.error = ""  # first message that no failed case explains

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin a result, a text, or the summary of the run."""
        if tag in _DEFINITIONS:
            self.skip(_DEFINITIONS)
        elif _is_result(tag):
            self.open.append(_OpenCase(attributes, self.results, self.all_bad))
        elif tag in _TEXTS and (self.open or self.run_info is not None):
            self.begin_text(tag)
        elif tag == "RunInfo":
            self.run_info = attributes.get("outcome", "")
        elif tag == "ResultSummary":
            self.outcome = attributes.get("outcome", "")
        elif tag == "Counters":
            self.total += max(self.count(attributes, name) for name in ("total", "executed"))
            self.counted_bad += sum(self.count(attributes, name) for name in _BAD_COUNTERS)
            self.counted_stopped += sum(self.count(attributes, name) for name in _STOPPED_COUNTERS)
            for outcome, names in _GOOD_COUNTERS.items():
                self.counted_good[outcome] += sum(self.count(attributes, name) for name in names)
        elif self.outside:
            if tag != _ROOT:
                self.reject_root(tag, "TRX", _ROOT)
            self.outside = False
        else:
            self.check_spelling(tag, _SPELLED)

    def end(self, tag: str) -> None:
        if tag == self.text_element:
            self.end_text()
            text = self.text.strip()
            if self.open:
                self.open[-1].texts.setdefault(tag, self.text)
            elif _ABORTED.search(text):
                self.aborted = self.aborted or text
            elif self.run_info == "Error" and not _FAILED_LINE.match(text):
                self.error = self.error or text
        elif _is_result(tag):
            if self.open:
                self.finish_case(self.open.pop())
        elif tag == "RunInfo":
            self.run_info = None
        elif tag == _ROOT:
            self.check_counters()
            self.outside = True

    def finish_case(self, case: _OpenCase) -> None:
        """Report a result at its end, unless it is the sum of its inner results."""
        word = case.attributes.get("outcome") or _NO_OUTCOME
        outcome, ending = self.lookup("outcome", word, _OUTCOMES)
        self.stopped = self.stopped or (word if word in _STOPPED else "")
        is_bad = outcome in BAD_OUTCOMES
        has_inner = self.results > case.cases_before
        has_bad_inner = self.all_bad > case.bad_before
        self.results += 1
        self.all_bad += is_bad
        self.good[outcome] += 1
        if not has_inner or (is_bad and not has_bad_inner):
            self.found_results.append(self.result(case, outcome, ending))
            self.bad += is_bad

    def result(self, case: _OpenCase, outcome: Outcome, ending: Ending) -> Result:
        """Return the result of a case, whose definition names the unit.

        The texts of a failure replace the ending `completed`.
        """
        attributes, texts = case.attributes, case.texts
        classname, method = self.definitions.get(
            attributes.get("testId", "").lower(), _Definition()
        )
        name = _without_class(attributes.get("testName", ""), classname)
        unit = _qualified(classname, method or _without_row(name)) or "unnamed"
        full_name = _qualified(classname, name)
        message, stack = texts.get("Message", "").strip(), ""
        if outcome in BAD_OUTCOMES:
            stack = texts.get("StackTrace", "").rstrip()
            if ending == "completed":
                ending = ending_of_failure("", message)
        result = MutableResult(
            unit=unit,
            outcome=outcome,
            case=full_name if full_name not in ("", unit) else "",
            ending=ending,
            wall_s=_seconds(attributes.get("duration")),
            message=truncate_message(f"{message}\n{stack}"),
            classname=classname or None,
            name=name or None,
        )
        result.__class__ = Result
        return result  # type: ignore[no-any-return]

    def check_counters(self) -> None:
        """Compare the messages, the outcome and the counters of the run with the results."""
        why = self.aborted or self.stopped
        if not why and self.outcome not in _ENDED:
            why = f"its outcome is {self.outcome}"
        if not why and self.counted_stopped:
            why = f"its counters say so of {self.counted_stopped:,}"
        if why:
            self.set_incomplete(f"its run did not come to its end: {' '.join(why.split()):.300}")
        elif not self.bad and (self.error or self.outcome == "Failed"):
            why = f": {' '.join(self.error.split()):.300}" if self.error else ""
            self.set_incomplete(f"its run failed, and no case in it says so{why}")
        else:
            good = ((word, self.counted_good[word], self.good[word]) for word in _GOOD_COUNTERS)
            self.compare_counters(
                ("results", self.total, self.results),
                *good,
                ("failed", self.counted_bad, self.all_bad),
            )


def _is_result(tag: str) -> bool:
    return tag == "UnitTestResult" or tag.endswith("TestResult") or tag == "TestResultAggregation"


def _without_row(name: str) -> str:
    """Remove the row of parameters: `Adds(1, 2)` -> `Adds`."""
    return _ROW.sub("", name)


def _without_class(name: str, classname: str) -> str:
    """Remove the class: `Shop.CartTests.Adds` of the class `Shop.CartTests` -> `Adds`."""
    return name[len(classname) + 1 :] if classname and name.startswith(f"{classname}.") else name


def _qualified(classname: str, name: str) -> str:
    """Join class and name as in `--filter FullyQualifiedName=`; each may be ""."""
    return f"{classname}.{name}" if classname and name else name


def _seconds(text: str | None) -> float | None:
    """Parse `[days.]hh:mm:ss[.fffffff]` as seconds; None for another text."""
    match = _DURATION.fullmatch(text or "")
    if match is None:
        return None
    days, hours, minutes, seconds = match.groups()
    value = (int(days or 0) * 24 + int(hours)) * 3600.0 + int(minutes) * 60 + float(seconds)
    return round(value, 7) if value <= MAX_S else None


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, also those that precede an error.

    Memory grows only with the definitions: 0.3 KB a test. Measured by benchmarks/junit_read.py.

    Args:
        stream: can seek, and is at its start.

    Raises:
        InputError: as in `xmlstream.read`; an unknown outcome; or, after all results, a run that is
            incomplete, or counts more than the file holds.
    """
    defining = _Defining(source)
    try:
        for _ in read_xml(stream, source, lambda _: defining, MAX_BYTES):
            pass
    except InputError:
        pass  # the second reading raises it again, after the results that precede it
    stream.seek(0)
    yield from read_xml(
        stream, source, lambda name: _Reading(name, defining.definitions), MAX_BYTES
    )
