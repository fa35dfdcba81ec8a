"""Filter expressions over sets of tests. Pure.

A set of tests is an integer with one bit a test, so that `&`, `|` and `bit_count` cost a
microsecond for 10,000 tests. What cannot be known is bounded from both sides: a `Selection` holds
the tests that are surely selected and those that may be.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence


class Selection(NamedTuple):
    """Two sets of tests: `sure` is a part of `possible`, and equal to it where all is known."""

    sure: int
    possible: int

    @property
    def is_known(self) -> bool:
        return self.sure == self.possible

    def intersect(self, other: Selection) -> Selection:
        return Selection(self.sure & other.sure, self.possible & other.possible)

    def unite(self, other: Selection) -> Selection:
        return Selection(self.sure | other.sure, self.possible | other.possible)

    def complement(self, everything: int) -> Selection:
        return Selection(everything & ~self.possible, everything & ~self.sure)


@dataclass(frozen=True, slots=True)
class Term:
    """A condition that stands alone.

    Attributes:
        condition: what its language looks up; equal conditions select the same tests.
        start, end: of its text in the filter.
        excludes: it names what is not to be selected, as `Category!=GPU`.
    """

    condition: Hashable
    start: int
    end: int
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class And:
    """Tests that all parts select; every test where there is no part."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Tests that a part selects; none where there is no part."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Tests that its part does not select."""

    part: Expression


Expression = Term | And | Or | Not


def select(
    expression: Expression, everything: int, lookup: Callable[[Term], Selection]
) -> Selection:
    """The tests that an expression selects. O(terms), each with a few operations on sets."""
    match expression:
        case Term():
            return lookup(expression)
        case Not(part):
            return select(part, everything, lookup).complement(everything)
        case And(parts):
            found = Selection(everything, everything)
            for part in parts:
                found = found.intersect(select(part, everything, lookup))
            return found
        case Or(parts):
            found = Selection(0, 0)
            for part in parts:
                found = found.unite(select(part, everything, lookup))
            return found


def terms(expression: Expression) -> Iterator[Term]:
    """Every term, from left to right."""
    match expression:
        case Term():
            yield expression
        case Not(part):
            yield from terms(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)


def without_exclusions(
    expression: Expression, is_dropped: Callable[[Term], bool], *, is_negated: bool = False
) -> Expression:
    """The expression, less restrictive: without the terms of `is_dropped` that leave tests out."""
    match expression:
        case Term():
            if expression.excludes == is_negated or not is_dropped(expression):
                return expression
            return Or(()) if is_negated else And(())
        case Not(part):
            return Not(without_exclusions(part, is_dropped, is_negated=not is_negated))
        case And(parts) | Or(parts):
            kept = (without_exclusions(part, is_dropped, is_negated=is_negated) for part in parts)
            return type(expression)(tuple(kept))


def set_of(positions: Iterable[int], size: int) -> int:
    """The set of the tests at these positions, of `size` tests."""
    digits = bytearray(b"0") * size
    for position in positions:
        digits[size - 1 - position] = 49  # "1"; int() of a power of two is linear
    return int(digits, 2) if size else 0


def positions_in(tests: int) -> Iterator[int]:
    """The positions of the tests in a set, ascending. O(size)."""
    digits = bin(tests)[:1:-1]
    place = digits.find("1")
    while place >= 0:
        yield place
        place = digits.find("1", place + 1)


class TextIndex:
    """One text for each test, searched as a whole and without case.

    A term is one scan over all texts (3 MB and 1 to 2 ms for 40,000 names), not a call for each.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        lines = [text.lower().replace("\n", "\r") for text in texts]
        self._joined = "\n".join(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines[:-1]), initial=0))
        self._places: dict[str, list[int]] = {}
        self._size = len(texts)
        self._lines = lines

    def containing(self, needle: str) -> int:
        """The set of the tests whose text contains this one."""
        needle = needle.lower().replace("\n", "\r")
        joined, starts = self._joined, self._starts
        found = []
        at = joined.find(needle) if self._size else -1
        while at >= 0:
            place = bisect_right(starts, at) - 1
            found.append(place)
            if place + 1 == self._size:
                break
            at = joined.find(needle, starts[place + 1])
        return set_of(found, self._size)

    def equal_to(self, text: str) -> int:
        """The set of the tests whose text is this one."""
        if not self._places:
            for place, line in enumerate(self._lines):
                self._places.setdefault(line, []).append(place)
        return set_of(self._places.get(text.lower().replace("\n", "\r"), ()), self._size)
