"""NUnit 3 XML: bytes -> results, streamed through expat. Pure.

A case names its class and method, so its unit is the same as in TRX. A failure of a suite without a
failed case in it, as of the tear-down, is a case with the name of the suite.
https://docs.nunit.org/articles/nunit/technical-notes/usage/Test-Result-XML-Format.html
"""

from __future__ import annotations

from collections import Counter
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.base import truncate_message, xml_root
from ciguard.codec.results.dotnet import (
    CaseReader,
    Definition,
    OpenCase,
    case_result,
    qualified,
)
from ciguard.codec.results.xmlstream import read as read_xml
from ciguard.codec.results.xmlstream import seconds
from ciguard.model import BAD_OUTCOMES, Ending, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


NAME: Final = "NUnit XML"
_CASE: Final = "test-case"
_ROOTS: Final = ("test-run", "test-suite")  # a suite alone: of one assembly, by other writers
_OPENED: Final = frozenset({*_ROOTS, _CASE})
_TEXTS: Final = frozenset({"message", "stack-trace"})
_SPELLED: Final = {name: name for name in (*_OPENED, *_TEXTS)}

_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "Passed": "passed",
    "Warning": "passed",
    "Skipped": "skipped",
    "Inconclusive": "skipped",
    "Failed": "failed",
}
_CANCELLED: Final = "Cancelled"
# Labels of `Failed` with another outcome; another label may be the reason of the failure.
_LABELS: Final[Mapping[str, tuple[Outcome, Ending]]] = {
    _CANCELLED: ("died", "cancelled"),
    "Invalid": ("errored", "completed"),
}
_NO_REASONS: Final = ("Error", "Child", *_LABELS)


def sniff(head: bytes) -> bool:
    """Recognise XML whose first element is one of NUnit's."""
    return xml_root(head) in _ROOTS


class _Reading(CaseReader):
    """Expat's handlers."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.cases: Counter[str] = Counter()  # by outcome
        self.bad = 0  # cases, and suites that stand for themselves
        self.is_cancelled = False

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin a suite, a case, or a text of it."""
        if tag in _OPENED and (self.open or tag in _ROOTS):
            verdict, label = self.verdict(tag, attributes)
            self.is_cancelled = self.is_cancelled or verdict == _LABELS[_CANCELLED]
            case = OpenCase(attributes, verdict, tag != _CASE, label, bad_before=self.bad)
            self.open.append(case)
        elif not self.open:
            self.reject_root(tag, "NUnit", _ROOTS[0])
        elif tag in _TEXTS:
            self.begin_text(tag)
        else:
            self.check_spelling(tag, _SPELLED)

    def end(self, tag: str) -> None:
        """End a text, a case or a suite."""
        if tag == self.text_element:
            self.end_text()
        elif tag in _OPENED:
            element = self.open.pop()
            if tag == _CASE:
                self.finish_case(element)
            elif tag == "test-suite":
                self.finish_suite(element)
            if not self.open:
                self.check_counters(element)

    def verdict(self, tag: str, attributes: dict[str, str]) -> tuple[tuple[Outcome, Ending], str]:
        """Return (outcome, ending) of an element, and its label if that may be a reason.

        The only text may be the label: "Test exceeded Timeout value 1ms.".

        Raises:
            InputError: the result of a case is not known.
        """
        # Unity writes result and label in one: `Failed(Child)`.
        word, _, label = attributes.get("result", "").partition("(")
        label = attributes.get("label", "") or label.removesuffix(")")
        outcome = _OUTCOMES.get(word, "passed")
        if tag == _CASE:
            outcome = self.lookup("result", word, _OUTCOMES)
        verdict = _LABELS.get(label) if outcome == "failed" else None
        reason = "" if label in _NO_REASONS else label
        return verdict or (outcome, "completed"), reason

    def finish_case(self, case: OpenCase) -> None:
        """Report a case at its end."""
        attributes = case.attributes
        classname = attributes.get("classname", "")
        definition = Definition(classname, attributes.get("methodname", "") if classname else "")
        full_name = attributes.get("fullname") or qualified(classname, attributes.get("name", ""))
        wall_s = seconds(attributes.get("duration", attributes.get("time")))
        result = case_result(definition, full_name, case.verdict, case.failure(), wall_s)
        self.found_results.append(result)
        self.cases[result.outcome] += 1
        self.bad += result.outcome in BAD_OUTCOMES

    def finish_suite(self, element: OpenCase) -> None:
        """Report a suite that failed by itself, not by its cases or suites.

        After a failed set-up, each case of the suite has failed, but not after a failed tear-down.
        """
        attributes = element.attributes
        is_explained = self.bad > element.bad_before and attributes.get("site") != "TearDown"
        if element.verdict[0] not in BAD_OUTCOMES or is_explained:
            return
        self.bad += 1
        name = attributes.get("fullname") or attributes.get("name") or None
        failure = element.failure()
        message = truncate_message(f"{failure.message.strip()}\n{failure.stack.rstrip()}")
        self.found_results.append(Result(name or "unnamed", "errored", message=message, name=name))

    def check_counters(self, element: OpenCase) -> None:
        """Compare the counters of the outermost element with the results."""
        if self.is_cancelled:
            self.set_incomplete("its run did not come to its end: it was cancelled")
        elif element.verdict[0] in BAD_OUTCOMES and not self.bad:
            self.set_incomplete("its run failed, and no case in it says so")
        else:
            counted = {
                name: self.count(element.attributes, name)
                for name in ("total", "passed", "warnings", "skipped", "inconclusive", "failed")
            }
            cases = self.cases
            self.compare_counters(
                ("tests", counted["total"], sum(cases.values())),
                ("passed", counted["passed"] + counted["warnings"], cases["passed"]),
                ("skipped", counted["skipped"] + counted["inconclusive"], cases["skipped"]),
                ("failed", counted["failed"], sum(cases[outcome] for outcome in BAD_OUTCOMES)),
            )


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, in constant memory, also those that precede an error.

    Raises:
        InputError: as in `xmlstream.read`; an unknown result; or, after all results, a run that was
            cancelled, failed without a failed case, or counts more than the file holds.
    """
    return read_xml(stream, source, _Reading)
