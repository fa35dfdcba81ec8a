"""The protocol and the table of filter languages, and the evaluation of their filters. Pure.

To add a language, write its module and its line in `LANGUAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import reduce
from typing import Final, Protocol

from ciguard.audit.filters import pytest_selection, vstest
from ciguard.audit.filters.expression import And, Expression, Not, Or, Selection, Term, TestSet


class FilterLanguage(Protocol):
    """The syntax by which a test tool selects tests: one module and one row of `LANGUAGES` each."""

    def find_filter(self, words: Sequence[str]) -> str:
        """Return the filter in the words of a test command, as written; "" for none."""

    def parse(self, text: str, where: str) -> Expression:
        """Parse a filter. Raises InputError if the tool would refuse it."""

    def lookup(self, term: Term, tests: TestSet) -> Selection:
        """Return the tests that a term selects."""


# Keys: frameworks of workflow/test_commands.py.
LANGUAGES: Final[Mapping[str, FilterLanguage]] = {
    "dotnet test": vstest,
    "pytest": pytest_selection,
}


class Evaluator:
    """Selection of tests by expressions; each term is searched once."""

    def __init__(self, tests: TestSet, language: FilterLanguage) -> None:
        self.tests = tests
        self.language = language
        self.everything = Selection(tests.everything, tests.everything)
        self._selections: dict[tuple[Hashable, bool], Selection] = {}

    def term(self, term: Term) -> Selection:
        """Return the tests that a term selects. O(length of all names); O(1) the second time."""
        key = (term.condition, term.excludes)
        if key not in self._selections:
            self._selections[key] = self.language.lookup(term, self.tests)
        return self._selections[key]

    def select(
        self, expression: Expression, lookup: Callable[[Term], Selection] | None = None
    ) -> Selection:
        """Return the tests that an expression selects; `lookup` overrides the sets of terms.

        O(terms), each with a few set operations.
        """
        match expression:
            case Term():
                return (lookup or self.term)(expression)
            case Not(part):
                return self.select(part, lookup).complement(self.tests.everything)
            case And(parts):
                selections = (self.select(part, lookup) for part in parts)
                return reduce(Selection.intersect, selections, self.everything)
            case Or(parts):
                selections = (self.select(part, lookup) for part in parts)
                return reduce(Selection.unite, selections, Selection(0, 0))
