"""Filter expressions, and the sets of tests that they select. Pure.

A set of tests is an integer with one bit a test, so that `&`, `|` and `bit_count` cost a
microsecond for 10,000 tests. What cannot be known is bounded from both sides: a `Selection` holds
the tests that are surely selected and those that may be.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar, Final, NamedTuple

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

MAX_DEPTH: Final = 200  # of parentheses: no filter has them, and each costs a frame


class Selection(NamedTuple):
    """Two sets of tests, `sure` within `possible`; equal if the selection is known."""

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
        condition: hashable value for the language's `lookup`; equal ones select the same tests.
        start, end: of the term's text in the filter.
        excludes: the term names the tests that are not selected, as `Category!=GPU`.
        is_label: the term selects by a category, marker or trait, not by a name.
    """

    condition: Any
    start: int
    end: int
    excludes: bool = False
    is_label: bool = False


class Argument(NamedTuple):
    """The condition of an argument: its kind, "unknown" for an unknown option, and its value."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class And:
    """Tests that all parts select; every test if there is no part."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Tests that any part selects; none if there is no part."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Tests that the part does not select."""

    part: Expression


Expression = Term | And | Or | Not


def terms(expression: Expression) -> Iterator[Term]:
    """Yield every term, from left to right."""
    match expression:
        case Term():
            yield expression
        case Not(part):
            yield from terms(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms(part)


def without_exclusions(expression: Expression, *, is_negated: bool = False) -> Expression:
    """Return a less restrictive expression, without the terms that exclude by a label."""
    match expression:
        case Term():
            if expression.excludes == is_negated or not expression.is_label:
                return expression
            return Or(()) if is_negated else And(())
        case Not(part):
            return Not(without_exclusions(part, is_negated=not is_negated))
        case And(parts) | Or(parts):
            kept = (without_exclusions(part, is_negated=is_negated) for part in parts)
            return type(expression)(tuple(kept))


class ExpressionParser:
    """Recursive descent over tokens; `AND` binds before `OR`, and a subclass reads operands."""

    AND: ClassVar[str]
    OR: ClassVar[str]

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.index = 0

    def expression(self) -> Expression:
        expression = self.alternatives(0)
        if self.token:
            what = "no opening parenthesis" if self.token == ")" else "no operator"
            raise self.problem(f"{what} before {self.token!r:.60}")
        return expression

    @property
    def token(self) -> str:
        """The next token; "" at the end."""
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def skip(self, token: str) -> bool:
        is_next = self.token == token
        self.index += is_next
        return is_next

    def problem(self, what: str) -> InputError:
        raise NotImplementedError

    def term(self, depth: int) -> Expression:
        """Read an operand without parentheses, inside of `depth` of them."""
        raise NotImplementedError

    def operand(self, depth: int) -> Expression:
        """Read an operand inside of `depth` parentheses."""
        if depth > MAX_DEPTH:
            raise self.problem(f"more than {MAX_DEPTH} parentheses inside each other")
        if not self.skip("("):
            return self.term(depth)
        expression = self.alternatives(depth + 1)
        if not self.skip(")"):
            raise self.problem("no closing parenthesis")
        return expression

    def alternatives(self, depth: int) -> Expression:
        """Read conjunctions between `OR`."""
        parts = [self.conjunction(depth)]
        while self.skip(self.OR):
            parts.append(self.conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def conjunction(self, depth: int) -> Expression:
        """Read operands between `AND`."""
        parts = [self.operand(depth)]
        while self.skip(self.AND):
            parts.append(self.operand(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))


def set_of(positions: Iterable[int], size: int) -> int:
    """Return the set of the tests at these positions, of `size` tests."""
    digits = bytearray(b"0") * size
    for position in positions:
        digits[size - 1 - position] = 49  # "1"; int() of a power of two is linear
    return int(digits, 2) if size else 0


def positions_in(tests: int) -> Iterator[int]:
    """Yield the positions of the tests in a set, ascending. O(size)."""
    digits = bin(tests)[:1:-1]
    position = digits.find("1")
    while position >= 0:
        yield position
        position = digits.find("1", position + 1)


class TextIndex:
    """One text for each test, joined to one text that is searched without case.

    A term is one scan over all texts (3 MB and 1 to 2 ms for 40,000 names), not a call for each.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        lines = [_searched(text) for text in texts]
        self._joined = "\n".join(("", *lines, ""))
        # Positions of the line break before each text, and of the last one.
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))

    def containing(self, needle: str) -> int:
        """Return the set of the tests whose text contains `needle`."""
        return self._find(_searched(needle))

    def equal_to(self, text: str) -> int:
        return self._find(f"\n{_searched(text)}\n")

    def _find(self, needle: str) -> int:
        starts, positions = self._starts, []
        at = self._joined.find(needle)
        while 0 <= at < starts[-1]:
            positions.append(bisect_right(starts, at) - 1)
            at = self._joined.find(needle, starts[positions[-1] + 1])
        return set_of(positions, len(starts) - 1)


def _searched(text: str) -> str:
    return text.lower().replace("\n", "\r")


class TestSet:
    """Tests by position, indexed so that filters select sets of them.

    Attributes:
        units: as listed, each once.
        has_categories, has_traits: the list gives them, if only as an empty list. Otherwise, no
            filter by a category, or by another trait, can be evaluated.
        has_files: the list gives files. Otherwise, the tests below a folder are not known.
    """

    __test__ = False  # no class of tests

    def __init__(self, units: Sequence[InventoryUnit]) -> None:
        self.units = units
        self.has_traits = any(unit.traits is not None for unit in units)
        self.has_files = any(unit.file for unit in units)
        is_listed = any(unit.categories is not None for unit in units)
        self.has_categories = is_listed or "category" in self.traits
        self._indices: dict[Callable[[InventoryUnit], str], TextIndex] = {}
        self.everything = (1 << len(units)) - 1

    def index(self, text_of: Callable[[InventoryUnit], str]) -> TextIndex:
        """Return the index of a text of each test; it is built once."""
        if text_of not in self._indices:
            self._indices[text_of] = TextIndex([text_of(unit) for unit in self.units])
        return self._indices[text_of]

    @cached_property
    def traits(self) -> Mapping[str, Mapping[str, int]]:
        """Names and values of traits, lower case, each with its tests."""
        positions: dict[str, dict[str, list[int]]] = {}
        for position, unit in enumerate(self.units):
            pairs = [("category", value) for value in unit.categories or ()]
            for name, value in (*pairs, *(unit.traits or {}).items()):
                values = positions.setdefault(name.lower(), {})
                values.setdefault(value.lower(), []).append(position)
        size = len(self.units)
        return {
            name: {value: set_of(members, size) for value, members in values.items()}
            for name, values in positions.items()
        }

    def below(self, folder: str) -> int:
        """Return the tests whose file is, or may be, below a folder (`tests/Unit/`); all for ""."""
        if not (folder and self.has_files):
            return self.everything
        prefix = folder.rstrip("/") + "/"
        return self.where(lambda unit: (unit.file or "").startswith(prefix)).sure

    def where(self, matches: Callable[[InventoryUnit], bool]) -> Selection:
        """Return the tests that match, as surely selected."""
        positions = (position for position, unit in enumerate(self.units) if matches(unit))
        members = set_of(positions, len(self.units))
        return Selection(members, members)
