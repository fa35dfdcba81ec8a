"""Filters of GoogleTest: `--gtest_filter=Cart.*:Order.*-*.Slow`. Pure.

A filter lists patterns of full names, with `*` and `?`, between colons. Patterns after the first
`-` exclude tests, and may contain further dashes. Without a pattern before the `-`, all tests are
selected. Source: UnitTestFilter of googletest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ciguard.audit.filters.expression import And, Expression, Or, Selection, Term
from ciguard.audit.filters.words import option_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.audit.test_set import TestSet


def find_filter(words: Sequence[str]) -> str:
    """Return the value of the last `--gtest_filter`."""
    return option_value(words, "--gtest_filter", "-gtest_filter")


def parse(text: str, where: str) -> Expression:  # noqa: ARG001  # every text is a filter
    """Parse a filter; an empty filter selects every test."""
    start = len(text) - len(text.lstrip())
    if start == len(text):
        return And(())
    dash = text.find("-")
    end = len(text) if dash < 0 else dash
    selected = _terms(text, start, end, excludes=False)
    if dash < 0:
        return Or(selected)
    excluded = _terms(text, dash + 1, len(text), excludes=True)
    return And(((Or(selected) if end > start else And(())), *excluded))


def _terms(text: str, start: int, end: int, *, excludes: bool) -> tuple[Term, ...]:
    terms = []
    for pattern in text[start:end].split(":"):
        terms.append(Term(pattern, start, start + len(pattern), excludes=excludes))
        start += len(pattern) + 1
    return tuple(terms)


def lookup(term: Term, tests: TestSet) -> Selection:
    """Return the tests whose full name a pattern matches. O(length of all names)."""
    parts = re.split(r"([*?])", term.condition)
    wild = {"*": ".*", "?": "."}
    pattern = re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)
    selection = tests.where(lambda unit: pattern.fullmatch(unit.unit) is not None)
    return selection.complement(tests.everything) if term.excludes else selection
