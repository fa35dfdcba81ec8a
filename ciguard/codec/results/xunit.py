"""xUnit.net XML, version 2 and the older 1: bytes -> results, streamed through expat. Pure.

A test names its class and method, so its unit is the same as in TRX. A failure outside of tests,
as of the clean-up of a fixture, is a separate case. https://xunit.net/docs/format-xml-v2
"""

from __future__ import annotations

from collections import Counter
from typing import IO, TYPE_CHECKING, Final

from ciguard.codec.results.base import xml_root
from ciguard.codec.results.dotnet import (
    CaseReader,
    Definition,
    OpenCase,
    case_result,
    group_error,
    qualified,
    without_class,
)
from ciguard.codec.results.xmlstream import read as read_xml
from ciguard.codec.results.xmlstream import seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ciguard.model import Ending, Outcome, Result


NAME: Final = "xUnit XML"
_ROOTS: Final = ("assemblies", "assembly")
_TEXTS: Final = frozenset({"message", "stack-trace", "reason"})
_GROUPS: Final = frozenset({"collection", "class"})  # of version 2 and 1
_SPELLED: Final = {name: name for name in (*_ROOTS, *_GROUPS, *_TEXTS, "test", "error", "failure")}
_OUTCOMES: Final[Mapping[str, Outcome]] = {
    "Pass": "passed",
    "Fail": "failed",
    "Skip": "skipped",
    "NotRun": "skipped",
}
_ERROR: Final[tuple[Outcome, Ending]] = ("errored", "completed")  # outside of tests


def sniff(head: bytes) -> bool:
    """Recognise XML whose first element is xUnit's; not manifests of .NET and Maven."""
    root = xml_root(head)
    return root == "assemblies" or (root == "assembly" and b"run-date" in head.replace(b"\0", b""))


class _Reading(CaseReader):
    """Expat's handlers."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.is_outside = True
        self.assembly: dict[str, str] = {}
        self.group = ""
        self.counts: Counter[str] = Counter()  # of the assembly, by outcome

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an assembly, a test, or a text of it."""
        if tag in _ROOTS:
            self.is_outside = False
            if tag == "assembly":
                self.assembly, self.group = attributes, ""
                self.counts.clear()
        elif self.is_outside:
            self.reject_root(tag, "xUnit", _ROOTS[0])
        elif tag in _GROUPS:
            self.group = attributes.get("name", "")
        elif tag == "test":
            outcome = self.lookup("result", attributes.get("result", ""), _OUTCOMES)
            self.open = [OpenCase(attributes, (outcome, "completed"))]
        elif tag == "error":
            self.open = [OpenCase(attributes, _ERROR)]
        elif tag == "failure":
            if not self.open:  # of a class, in version 1
                self.open = [OpenCase({"name": self.group}, _ERROR)]
            self.open[-1].kind = attributes.get("exception-type", "")
        elif tag in _TEXTS:
            if self.open:
                self.begin_text(tag)
        else:
            self.check_spelling(tag, _SPELLED)

    def end(self, tag: str) -> None:
        """End a text, a test, an error or an assembly."""
        if tag == self.text_element:
            self.end_text()
        elif tag in ("test", "error", "failure") and self.open:
            if tag != "failure" or self.open[-1].verdict == _ERROR:
                self.finish_case(self.open.pop())
        elif tag == "assembly":
            self.check_counters()

    def finish_case(self, case: OpenCase) -> None:
        """Report a case at its end."""
        self.counts[case.verdict[0]] += 1
        attributes, failure = case.attributes, case.failure()
        name = attributes.get("name", "")
        if case.verdict == _ERROR:
            name = name or self.assembly.get("name", "") or attributes.get("type", "")
            self.found_results.append(group_error(name, failure))
            return
        definition = Definition(attributes.get("type", ""), attributes.get("method", ""))
        row = without_class(name, definition.classname)
        self.found_results.append(
            case_result(
                definition,
                qualified(definition.classname, row),
                case.verdict,
                failure,
                seconds(attributes.get("time")),
            )
        )

    def check_counters(self) -> None:
        """Compare the counters of an assembly with its results."""
        counted = {
            name: self.count(self.assembly, name)
            for name in ("total", "passed", "failed", "skipped", "not-run", "errors")
        }
        tests = sum(self.counts[word] for word in ("passed", "failed", "skipped"))
        self.compare_counters(
            ("tests", counted["total"], tests),
            ("passed", counted["passed"], self.counts["passed"]),
            ("failed", counted["failed"], self.counts["failed"]),
            ("skipped", counted["skipped"] + counted["not-run"], self.counts["skipped"]),
            ("errors", counted["errors"], self.counts["errored"]),
        )


def read(stream: IO[bytes], source: str) -> Iterator[Result]:
    """Yield a file's results in its order, in constant memory, also those that precede an error.

    Raises:
        InputError: as in `xmlstream.read`; an unknown result; or, after all results, an assembly
            that counts more than the file holds.
    """
    return read_xml(stream, source, _Reading)
