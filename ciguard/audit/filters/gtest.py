"""Filters of GoogleTest: `--gtest_filter=Cart.*:Order.*-*.Slow`. Pure.

Patterns of full names between colons, `*` and `?` in them; after the first `-`, patterns of what is
left out, of which further dashes are a part. Without a pattern before it, everything is meant.
Source: UnitTestFilter of googletest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ciguard.audit.filters.expression import And, Expression, Or, Selection, Term, set_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.audit.test_set import TestSet


def find_filter(words: Sequence[str]) -> str:
    """The value of the last `--gtest_filter`."""
    found = ""
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in ("--gtest_filter", "-gtest_filter"):
            found = value if equals else "".join(words[place + 1 : place + 2])
    return found


def parse(text: str, where: str) -> Expression:  # noqa: ARG001  # every text is a filter
    """The expression of a filter; an empty one selects every test."""
    if not text:
        return And(())
    dash = text.find("-")
    end = len(text) if dash < 0 else dash
    selected = _terms(text, 0, end, excludes=False)
    if dash < 0:
        return Or(selected)
    left_out = _terms(text, dash + 1, len(text), excludes=True)
    return And(((Or(selected) if end else And(())), *left_out))


def _terms(text: str, start: int, end: int, *, excludes: bool) -> tuple[Term, ...]:
    found = []
    for pattern in text[start:end].split(":"):
        found.append(Term(pattern, start, start + len(pattern), excludes=excludes))
        start += len(pattern) + 1
    return tuple(found)


def lookup(term: Term, tests: TestSet) -> Selection:
    """The tests whose full name a pattern matches. O(length of all names)."""
    parts = re.split(r"([*?])", str(term.condition))
    wild = {"*": ".*", "?": "."}
    pattern = re.compile("".join(wild.get(part, re.escape(part)) for part in parts), re.DOTALL)
    matching = set_of(
        (at for at, unit in enumerate(tests.units) if pattern.fullmatch(unit.unit)),
        len(tests.units),
    )
    found = Selection(matching, matching)
    return found.complement(tests.everything) if term.excludes else found


def is_label(term: Term) -> bool:  # noqa: ARG001  # there are none
    """No pattern selects by a label."""
    return False
