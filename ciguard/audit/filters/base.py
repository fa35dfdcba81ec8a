"""What a filter language is to the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.audit.filters.expression import Expression, Selection, Term
    from ciguard.audit.test_set import TestSet


class FilterLanguage(Protocol):
    """How a test tool selects tests: one module each, a row of `languages.LANGUAGES`."""

    def find_filter(self, words: Sequence[str]) -> str:
        """The filter in the words of a command that runs tests, as written; "" for none."""

    def parse(self, text: str, where: str) -> Expression:
        """The expression of a filter. Raises InputError where the tool would refuse it."""

    def lookup(self, term: Term, tests: TestSet) -> Selection:
        """The tests that a term selects."""

    def is_label(self, term: Term) -> bool:
        """Say whether a term selects by a category, marker or trait, not by a name."""
