"""Filters of `dotnet test --filter`. Pure.

    expression = condition | (expression) | expression & expression | expression "|" expression
    condition  = [PROPERTY OPERATOR] VALUE;  OPERATOR is one of = != ~ !~

`&` binds before `|`; a word without an operator is part of the full name; case does not count;
`\\` takes its meaning from each of `\\ ( ) & | = ! ~`. A property with several values equals or
contains what one of them does, and `!=` and `!~` hold where none does, hence also where there is
none. Source: FilterExpression, Condition and FilterHelper of github.com/microsoft/vstest.
"""

from __future__ import annotations

import posixpath
import re
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from ciguard.audit.filters.expression import And, Expression, Or, Selection, Term
from ciguard.audit.test_set import TestSet, class_of
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ciguard.codec.inventory_file import InventoryUnit

FULL_NAME: Final = "fullyqualifiedname"
# xUnit and NUnit write one name, MSTest the other.
CATEGORIES: Final = frozenset({"category", "testcategory"})
MAX_DEPTH: Final = 200  # of parentheses: no filter has them, and each costs a frame

# A token is an operator, or all up to the next one; a backslash hides what follows it.
_TOKEN: Final = re.compile(r"[()&|]|(?:\\.|[^()&|\\]|\\$)+", re.DOTALL)
_PART: Final = re.compile(r"(?:\\.|[^=!~\\]|\\$)+|!=|!~|[=~!]", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_OPERATORS: Final = frozenset({"=", "!=", "~", "!~"})
# Options of `dotnet test` whose value is the next word.
_WITH_VALUE: Final = frozenset(
    {"-a", "--arch", "--artifacts-path", "--blame-crash-dump-type", "--blame-hang-dump-type", "-c"}
    | {"--configuration", "--blame-hang-timeout", "--collect", "-d", "--diag", "-e", "-f", "-l"}
    | {"--environment", "--framework", "--filter", "--logger", "-o", "--output", "--os", "-r", "-s"}
    | {"--results-directory", "--runtime", "--settings", "--test-adapter-path", "-v", "--verbosity"}
)
_SPECIAL: Final = frozenset("\\()&|=!~")


class Condition(NamedTuple):
    """A property with the value that it equals or contains, both lower case."""

    name: str
    contains: bool
    value: str


class _Token(NamedTuple):
    text: str
    start: int


def find_filter(words: Sequence[str]) -> str:
    """The value of the last `--filter`."""
    found = ""
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option == "--filter":
            found = value if equals else "".join(words[place + 1 : place + 2])
    return found


def find_project(words: Sequence[str]) -> str:
    """The folder whose tests run: the one that is named, or that of the project; "" for all."""
    value_of = ""
    for word in words[words.index("test") + 1 :] if "test" in words else ():
        if word in ("--", "dotnet"):  # what takes a list of arguments, after it
            break
        if not word.startswith(("-", "/")) and value_of not in _WITH_VALUE:
            path = posixpath.normpath(word.replace("\\", "/"))
            if path.endswith(("proj", ".dll")):
                path = posixpath.dirname(path)
            return "" if path == "." or path.endswith((".sln", ".slnx", ".slnf")) else path
        value_of = word
    return ""


def parse(text: str, where: str) -> Expression:
    """The expression of a filter; an empty one selects every test.

    Raises:
        InputError: `dotnet test` would refuse it; with the column.
    """
    tokens = [
        _Token(found[0].strip(), found.start() + len(found[0]) - len(found[0].lstrip()))
        for found in _TOKEN.finditer(text)
        if found[0].strip()
    ]
    if not tokens:
        return And(())
    parser = _Parser(text, tokens, where)
    expression = parser.alternatives(0)
    if parser.here is not None:
        what = "no opening parenthesis" if parser.here.text == ")" else "no operator"
        raise parser.problem(f"{what} before {parser.here.text!r:.60}")
    return expression


class _Parser:
    """Recursive descent over the tokens of one filter."""

    def __init__(self, text: str, tokens: list[_Token], where: str) -> None:
        self._text, self._tokens, self._where, self._at = text, tokens, where, 0

    @property
    def here(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def problem(self, what: str) -> InputError:
        column = (self.here.start if self.here else len(self._text)) + 1
        fix = "write it as `dotnet test --filter` takes it: A~x&(B=y|C!=z)"
        return InputError(f"{what} at column {column}", where=self._where, fix=fix)

    def alternatives(self, depth: int) -> Expression:
        parts = [self._conjunction(depth)]
        while self._skip("|"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self, depth: int) -> Expression:
        parts = [self._operand(depth)]
        while self._skip("&"):
            parts.append(self._operand(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _operand(self, depth: int) -> Expression:
        token = self.here
        if token is None or token.text in ")&|":
            raise self.problem("a condition is missing")
        if depth > MAX_DEPTH:
            raise self.problem(f"more than {MAX_DEPTH} parentheses inside each other")
        if token.text == "(":
            self._at += 1
            found = self.alternatives(depth + 1)
            if not self._skip(")"):
                raise self.problem("no closing parenthesis")
            return found
        found = self._term(token)
        self._at += 1
        return found

    def _skip(self, text: str) -> bool:
        if self.here is None or self.here.text != text:
            return False
        self._at += 1
        return True

    def _term(self, token: _Token) -> Term:
        parts = _PART.findall(token.text)
        end = token.start + len(token.text)
        if len(parts) == 1:
            value = self._unescaped(token.text)
            return Term(Condition(FULL_NAME, contains=True, value=value.lower()), token.start, end)
        name, operator, value = (part.strip() for part in (parts + [""] * 3)[:3])
        if parts[3:] or not name or not value or operator not in _OPERATORS:
            raise self.problem(f"no condition: {token.text!r:.60}")
        value = self._unescaped(value).lower()
        condition = Condition(name.lower(), operator.endswith("~"), value)
        return Term(condition, token.start, end, excludes=operator.startswith("!"))

    def _unescaped(self, text: str) -> str:
        def character(found: re.Match[str]) -> str:
            if found[1] not in _SPECIAL or not found[1]:
                raise self.problem(f"a backslash before {found[1]!r}, which needs none,")
            return found[1]

        return _ESCAPE.sub(character, text)


def lookup(term: Term, tests: TestSet) -> Selection:
    """The tests that a term selects.

    Where the list of tests gives no categories, a term that asks for one decides nothing.
    """
    condition = term.condition
    assert isinstance(condition, Condition)
    found = _matching(condition, tests)
    return found.complement(tests.everything) if term.excludes else found


def _matching(condition: Condition, tests: TestSet) -> Selection:
    name, contains, value = condition
    if name in _TEXTS:
        index = tests.index(_TEXTS[name])
        found = index.containing(value) if contains else index.equal_to(value)
        return Selection(found, found)
    if not (tests.has_categories if name in CATEGORIES else tests.has_traits):
        return Selection(0, tests.everything)
    found = 0
    for text, members in tests.traits.get("category" if name in CATEGORIES else name, {}).items():
        if value in text if contains else value == text:
            found |= members
    return Selection(found, found)


def _class_name(unit: InventoryUnit) -> str:
    return class_of(unit.unit)


def _last_name(unit: InventoryUnit) -> str:
    return unit.unit.removeprefix(f"{class_of(unit.unit)}.")


_TEXTS: Final[Mapping[str, Callable[[InventoryUnit], str]]] = {
    "fullyqualifiedname": attrgetter("unit"),
    "classname": _class_name,
    "name": _last_name,
    "displayname": _last_name,
}


def is_label(term: Term) -> bool:
    """Return whether it selects by a category or another trait, not by a name."""
    condition = term.condition
    assert isinstance(condition, Condition)
    return condition.name not in _TEXTS
