"""Cases of .NET tests: a unit is the method with its class, rows of parameters are its cases. Pure.

So the same case has the same name in TRX and NUnit files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from ciguard.codec.results.base import truncate_message
from ciguard.codec.results.xmlstream import MutableResult, XmlReader
from ciguard.model import BAD_OUTCOMES, Result
from ciguard.model.failure_texts import ending_of_failure

if TYPE_CHECKING:
    from ciguard.model import Ending, Outcome

_ROW: Final = re.compile(r"\s*[\[(].*$", re.DOTALL)


class Definition(NamedTuple):
    """A test's class and method; each may be "" if the file does not name it."""

    classname: str
    method: str


class Failure(NamedTuple):
    """The texts of a failed case."""

    message: str = ""
    stack: str = ""


@dataclass(slots=True)
class OpenCase:
    """An open case, or an open suite (`is_group`).

    Attributes:
        verdict: outcome and ending; where only the end tells it, not set.
        label: stands for a missing message.
        cases_before, bad_before: numbers of cases and of failures before it.
        texts: the first text of each of its elements.
    """

    attributes: dict[str, str]
    verdict: tuple[Outcome, Ending] = ("passed", "completed")
    is_group: bool = False
    label: str = ""
    cases_before: int = 0
    bad_before: int = 0
    texts: dict[str, str] = field(default_factory=dict)

    def failure(self) -> Failure:
        """Return the texts of the failure, or of the reason of a skip."""
        return Failure(self.texts.get("message") or self.label, self.texts.get("stack-trace", ""))


class CaseReader(XmlReader):
    """Expat's handlers of a format of .NET; the last of `open` is the innermost case."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.open: list[OpenCase] = []

    def end_text(self) -> None:
        """Give the text of the element to the innermost open case."""
        if self.open and self.text_element is not None:
            self.open[-1].texts.setdefault(self.text_element, self.text)
        super().end_text()

    def finish_open_case(self) -> None:
        """Report an open case that has failed: later elements cannot change that."""
        case = self.open[-1] if self.open else None
        if case is not None and not case.is_group and case.verdict[0] in BAD_OUTCOMES:
            self.finish_case(case)

    def finish_case(self, case: OpenCase) -> None:
        """Report a case at its end."""
        raise NotImplementedError


def without_row(name: str) -> str:
    """Remove the row of parameters: `Adds(1, 2)` -> `Adds`."""
    return _ROW.sub("", name)


def without_class(name: str, classname: str) -> str:
    """Remove the class: `Shop.CartTests.Adds` of the class `Shop.CartTests` -> `Adds`."""
    return name[len(classname) + 1 :] if classname and name.startswith(f"{classname}.") else name


def qualified(classname: str, name: str) -> str:
    """Join class and name as in `--filter FullyQualifiedName=`; each may be ""."""
    return f"{classname}.{name}" if classname and name else name


def case_result(
    definition: Definition,
    full_name: str,
    verdict: tuple[Outcome, Ending],
    failure: Failure,
    wall_s: float | None,
) -> Result:
    """Return the result of a case.

    Args:
        definition: of the case's method.
        full_name: with class and row.
        verdict: outcome and ending; the texts of a failure replace the ending `completed`.
    """
    classname, method = definition
    name = without_class(full_name, classname)
    unit = qualified(classname, method or without_row(name)) or "unnamed"
    outcome, ending = verdict
    message, stack = failure.message.strip(), ""
    if outcome in BAD_OUTCOMES:
        stack = failure.stack.rstrip()
        if ending == "completed":
            ending = ending_of_failure("", message)
    result = MutableResult(
        unit=unit,
        outcome=outcome,
        case=full_name if full_name not in ("", unit) else "",
        ending=ending,
        wall_s=wall_s,
        message=truncate_message(f"{message}\n{stack}"),
        classname=classname or None,
        name=name or None,
    )
    result.__class__ = Result
    return result  # type: ignore[no-any-return]
