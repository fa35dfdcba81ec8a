"""Filters of `dotnet test --filter`. Pure.

    expression = condition | (expression) | expression & expression | expression "|" expression
    condition  = [PROPERTY OPERATOR] VALUE;  OPERATOR is one of = != ~ !~

`&` binds before `|`; a word without an operator is part of the full name; case is ignored; `\\`
escapes each of `\\ ( ) & | = ! ~`. `=` and `~` hold for a property with several values if one value
equals or contains the text; `!=` and `!~` hold if none does, hence also for a property without a
value. Source: FilterExpression, Condition and FilterHelper of github.com/microsoft/vstest.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from ciguard.audit.filters.expression import (
    And,
    Expression,
    ExpressionParser,
    Selection,
    Term,
    TestSet,
)
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

FULL_NAME: Final = "fullyqualifiedname"
# xUnit and NUnit write one name, MSTest the other.
CATEGORIES: Final = frozenset({"category", "testcategory"})

# A token is an operator or all text before the next operator; a backslash escapes a character.
_TOKEN: Final = re.compile(r"[()&|]|(?:\\.|[^()&|\\]|\\$)+", re.DOTALL)
_PART: Final = re.compile(r"(?:\\.|[^=!~\\]|\\$)+|!=|!~|[=~!]", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_OPERATORS: Final = frozenset({"=", "!=", "~", "!~"})
# Options of `dotnet test` whose value is the next word.
WITH_VALUE: Final = frozenset(
    {"-a", "--arch", "--artifacts-path", "--blame-crash-dump-type", "--blame-hang-dump-type", "-c"}
    | {"--configuration", "--blame-hang-timeout", "--collect", "-d", "--diag", "-e", "-f", "-l"}
    | {"--environment", "--framework", "--filter", "--logger", "-o", "--output", "--os", "-r", "-s"}
    | {"--results-directory", "--runtime", "--settings", "--test-adapter-path", "-v", "--verbosity"}
)
_SPECIAL: Final = frozenset("\\()&|=!~")


class Condition(NamedTuple):
    """A property, and the value that it equals or contains, both lower case."""

    name: str
    contains: bool
    value: str


def find_filter(words: Sequence[str]) -> str:
    """Return the value of the last `--filter`."""
    value = ""
    for index, word in enumerate(words):
        option, equals, attached = word.partition("=")
        if option == "--filter":
            value = attached if equals else "".join(words[index + 1 : index + 2])
    return value


def find_project(words: Sequence[str]) -> str:
    """Return the folder whose tests run, as an argument or of the project file; "" for all."""
    previous = ""
    for word in words[words.index("test") + 1 :] if "test" in words else ():
        if word in ("--", "dotnet"):  # the program that receives a list of arguments, after it
            break
        if not word.startswith(("-", "/")) and previous not in WITH_VALUE:
            path = posixpath.normpath(word.replace("\\", "/"))
            if path.endswith(("proj", ".dll")):
                path = posixpath.dirname(path)
            return "" if path == "." or path.endswith((".sln", ".slnx", ".slnf")) else path
        previous = word
    return ""


def parse(text: str, where: str) -> Expression:
    """Parse a filter; an empty filter selects every test.

    Raises:
        InputError: `dotnet test` would refuse the filter; with the column.
    """
    parser = _Parser(text, where)
    return parser.expression() if parser.tokens else And(())


class _Parser(ExpressionParser):
    AND, OR = "&", "|"

    def __init__(self, text: str, where: str) -> None:
        matches = [match for match in _TOKEN.finditer(text) if match[0].strip()]
        super().__init__([match[0].strip() for match in matches])
        self._starts = [match.end() - len(match[0].lstrip()) for match in matches]
        self._end, self._where = len(text), where

    @property
    def start(self) -> int:
        """The position of the next token; the end of the text after the last token."""
        return [*self._starts, self._end][self.index]

    def problem(self, what: str) -> InputError:
        fix = "write it as `dotnet test --filter` takes it: A~x&(B=y|C!=z)"
        return InputError(f"{what} at column {self.start + 1}", where=self._where, fix=fix)

    def term(self, depth: int) -> Term:  # noqa: ARG002  # a condition has no parentheses
        if self.token in ")&|":
            raise self.problem("a condition is missing")
        term = self._term(self.token)
        self.index += 1
        return term

    def _term(self, token: str) -> Term:
        parts = _PART.findall(token)
        end = self.start + len(token)
        if len(parts) == 1:
            value = self._unescape(token)
            return Term(Condition(FULL_NAME, contains=True, value=value.lower()), self.start, end)
        name, operator, value = (part.strip() for part in (parts + [""] * 3)[:3])
        if parts[3:] or not name or not value or operator not in _OPERATORS:
            raise self.problem(f"no condition: {token!r:.60}")
        value = self._unescape(value).lower()
        condition = Condition(name.lower(), operator.endswith("~"), value)
        is_label = condition.name not in _TEXTS
        return Term(condition, self.start, end, operator.startswith("!"), is_label)

    def _unescape(self, text: str) -> str:
        def character(match: re.Match[str]) -> str:
            if match[1] not in _SPECIAL or not match[1]:
                raise self.problem(f"a backslash before {match[1]!r}, which needs none,")
            return match[1]

        return _ESCAPE.sub(character, text)


def lookup(term: Term, tests: TestSet) -> Selection:
    """Return the tests that a term selects.

    If the list of tests gives no categories, a term with a category selects nothing surely.
    """
    selection = _matching(term.condition, tests)
    return selection.complement(tests.everything) if term.excludes else selection


def _matching(condition: Condition, tests: TestSet) -> Selection:
    name, contains, value = condition
    if name in _TEXTS:
        index = tests.index(_TEXTS[name])
        matching = index.containing(value) if contains else index.equal_to(value)
        return Selection(matching, matching)
    if not (tests.has_categories if name in CATEGORIES else tests.has_traits):
        return Selection(0, tests.everything)
    matching = 0
    for text, members in tests.traits.get("category" if name in CATEGORIES else name, {}).items():
        if value in text if contains else value == text:
            matching |= members
    return Selection(matching, matching)


def _class_of(name: str) -> str:
    """Return the part of a name before its last dot; dots in arguments do not count."""
    return name.partition("(")[0].rpartition(".")[0]


def _last_name(unit: InventoryUnit) -> str:
    return unit.unit.removeprefix(f"{_class_of(unit.unit)}.")


_TEXTS: Final[Mapping[str, Callable[[InventoryUnit], str]]] = {
    "fullyqualifiedname": attrgetter("unit"),
    "classname": lambda unit: _class_of(unit.unit),
    "name": _last_name,
    "displayname": _last_name,
}
