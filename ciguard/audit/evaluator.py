"""Filters of one language over the tests that exist; each distinct term is searched once. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.audit.filters.expression import Selection, select

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ciguard.audit.filters.base import FilterLanguage
    from ciguard.audit.filters.expression import Expression, Term
    from ciguard.audit.test_set import TestSet


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
