"""A filter language, and the tests that its filters select: each term is searched once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ciguard.audit.filters.expression import Expression, Selection, Term, select

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from ciguard.audit.test_set import TestSet


class FilterLanguage(Protocol):
    """A test tool's way to select tests: one module each, a row of `languages.LANGUAGES`."""

    def find_filter(self, words: Sequence[str]) -> str:
        """The filter in the words of a command that runs tests, as written; "" for none."""

    def parse(self, text: str, where: str) -> Expression:
        """The expression of a filter. Raises InputError where the tool would refuse it."""

    def lookup(self, term: Term, tests: TestSet) -> Selection:
        """The tests that a term selects."""

    def is_label(self, term: Term) -> bool:
        """Return whether a term selects by a category, marker or trait, not by a name."""


class Evaluator:
    """Selects tests by expressions."""

    def __init__(self, tests: TestSet, language: FilterLanguage) -> None:
        self.tests = tests
        self.language = language
        self.everything = Selection(tests.everything, tests.everything)
        self._known: dict[tuple[Hashable, bool], Selection] = {}

    def term(self, term: Term) -> Selection:
        """The tests that a term selects. O(length of all names), and nothing the second time."""
        key = (term.condition, term.excludes)
        if key not in self._known:
            self._known[key] = self.language.lookup(term, self.tests)
        return self._known[key]

    def select(
        self, expression: Expression, lookup: Callable[[Term], Selection] | None = None
    ) -> Selection:
        """The tests that an expression selects; with other sets for some terms, by `lookup`."""
        return select(expression, self.tests.everything, lookup or self.term)
