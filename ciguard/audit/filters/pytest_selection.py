"""The selection by arguments of pytest: paths, node ids, `-k`, `-m`, `--deselect`. Pure.

The rules are those of pytest 8 and 9 (`_pytest/mark`, `_pytest/main.py`). Settings in the project's
own files, as `addopts` and `testpaths`, are not read. An option that is not in the tables below may
select tests: what it leaves is not known.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ciguard.audit.filters.expression import (
    And,
    Expression,
    Not,
    Or,
    Selection,
    Term,
    set_of,
)
from ciguard.audit.filters.words import Word, words
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.audit.test_set import TestSet
    from ciguard.codec.inventory_file import InventoryUnit

Kind = Literal["path", "keyword", "mark", "ignore", "ignore_glob", "deselect", "unknown"]

# Options that select nothing, and whether the next word is their value.
FLAGS: Final = frozenset(
    {"-x", "-s", "-l", "--verbose", "--quiet", "--exitfirst", "--showlocals", "--strict"}
    | {"--strict-markers", "--strict-config", "--no-header", "--no-summary"}
    | {"--disable-warnings", "--runxfail", "--failed-first", "--ff", "--new-first", "--nf"}
    | {"--cache-clear", "--setup-show", "--full-trace", "--no-cov", "--no-cov-on-fail"}
    | {"--cov-append", "--cov-branch", "--forked", "--instafail"}
)
WITH_VALUE: Final = frozenset(
    {"-n", "--numprocesses", "--maxfail", "-p", "-c", "--config-file", "--rootdir"}
    | {"--confcutdir", "--junitxml", "--junit-xml", "--junit-prefix", "-o", "--override-ini"}
    | {"-W", "--pythonwarnings", "--timeout", "--timeout-method", "--durations"}
    | {"--durations-min", "--tb", "--capture", "--basetemp", "--log-level", "--log-cli-level"}
    | {"--log-file", "--cov-report", "--cov-config", "--cov-fail-under", "--dist", "--tx"}
    | {"--import-mode", "--reruns", "--reruns-delay", "--only-rerun", "--color", "--html"}
    | {"--assert", "--verbosity", "--retries", "--show-capture", "--maxprocesses"}
)
OPTIONAL_VALUE: Final = frozenset({"--cov"})
_SHORT: Final = re.compile(r"-[vqxsl]+|-r\w+|-[nWpo]\S+")
_SELECTING: Final[Mapping[str, Kind]] = {
    "-k": "keyword",
    "-m": "mark",
    "--ignore": "ignore",
    "--ignore-glob": "ignore_glob",
    "--deselect": "deselect",
}
_TOKEN: Final = re.compile(r"\s*(?:([()])|((?::?\w|[:+.\[\]\\/-])+))")
_PROGRAMS: Final = ("pytest", "py.test")
MAX_DEPTH: Final = 200  # of parentheses and `not`


class Condition(NamedTuple):
    """The request of one argument or one word of an expression."""

    kind: Kind
    value: str


def find_filter(words: Sequence[str]) -> str:
    """All that follows the program's name."""
    names = [at for at, word in enumerate(words) if posixpath.basename(word) in _PROGRAMS]
    return shlex.join(words[names[-1] + 1 :]) if names else ""


def parse(text: str, where: str) -> Expression:
    """The expression of a command's arguments; none select every test.

    Raises:
        InputError: pytest would refuse `-k` or `-m`.
    """
    paths: list[Expression] = []
    parts: dict[str, Expression] = {}
    left_out: list[Expression] = []
    for kind, word in _arguments(text):
        term = Term(Condition(kind, word.text), word.start, word.end)
        if kind == "path":
            paths.append(term)
        elif kind in ("keyword", "mark"):
            parts[kind] = _expression(kind, word, where)  # the last one counts
        elif kind == "unknown":  # the next word may be its value, or a path
            return term
        else:
            left_out.append(Not(term))
    return And((*([Or(tuple(paths))] if paths else []), *parts.values(), *left_out))


def _arguments(text: str) -> Iterator[tuple[Kind, Word]]:
    given = deque(words(text))
    while given:
        word = given.popleft()
        option, equals, value = word.text.partition("=")
        short = next((name for name in ("-k", "-m") if word.text.startswith(name)), "")
        kind = _SELECTING.get(option) or _SELECTING.get(short)
        if not word.text.startswith("-"):
            yield "path", word
        elif kind is not None:
            attached = (
                value if equals and option in _SELECTING else word.text[len(short or option) :]
            )
            if attached:
                yield kind, word._replace(text=attached)
            else:
                yield kind, given.popleft() if given else word._replace(text="")
        elif option in WITH_VALUE | OPTIONAL_VALUE:
            is_value = bool(given) and not equals
            if is_value and (option in WITH_VALUE or not given[0].text.startswith("-")):
                given.popleft()
        elif option not in FLAGS and not _SHORT.fullmatch(word.text):
            yield "unknown", word


def _expression(kind: Kind, word: Word, where: str) -> Expression:
    if not word.text.strip():
        return And(())  # no filter
    return _Parser(kind, word, where).whole()


class _Parser:
    """Recursive descent over the expression of `-k` or `-m`."""

    def __init__(self, kind: Kind, word: Word, where: str) -> None:
        self._kind, self._word, self._where = kind, word, where
        self._tokens: list[str] = []
        at, text = 0, word.text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._problem(f"unexpected {text[at:].lstrip()[:1]!r}")
            self._tokens.append(found[1] or found[2])
            at = found.end()
        self._at = 0

    def _problem(self, what: str) -> InputError:
        option = "-k" if self._kind == "keyword" else "-m"
        fix = "write it as pytest takes it: name and not (other or third)"
        return InputError(f"{option} {self._word.text!r:.100}: {what}", where=self._where, fix=fix)

    def whole(self) -> Expression:
        found = self._alternatives(0)
        if self._at < len(self._tokens):
            raise self._problem(f"unexpected {self._tokens[self._at]!r:.60}")
        return found

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _alternatives(self, depth: int) -> Expression:
        parts = [self._conjunction(depth)]
        while self._next() == "or":
            self._at += 1
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self, depth: int) -> Expression:
        parts = [self._operand(depth)]
        while self._next() == "and":
            self._at += 1
            parts.append(self._operand(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _operand(self, depth: int) -> Expression:
        token = self._next()
        self._at += 1
        if depth > MAX_DEPTH:
            raise self._problem(f"more than {MAX_DEPTH} parentheses inside each other")
        if token == "not":
            part = self._operand(depth + 1)
            return Not(part)
        if token == "(":
            found = self._alternatives(depth + 1)
            if self._next() != ")":
                raise self._problem("no closing parenthesis")
            self._at += 1
            return found
        if token in ("", "and", "or", ")"):
            raise self._problem(
                f"a name is missing before {token!r}" if token else "a name is missing"
            )
        return Term(Condition(self._kind, token), self._word.start, self._word.end)


def lookup(term: Term, tests: TestSet) -> Selection:
    """The tests that a term selects.

    Where the list of tests gives no markers, `-m` decides nothing, and `-k` nothing more than names
    do: it looks at the names of markers too.
    """
    condition = term.condition
    assert isinstance(condition, Condition)
    kind, value = condition
    if kind == "unknown":
        return Selection(0, tests.everything)
    if kind == "keyword":
        found = tests.index(_keywords).containing(value)
        return Selection(found, found if tests.has_categories else tests.everything)
    if kind == "mark" and not tests.has_categories:
        return Selection(0, tests.everything)
    matching = set_of(
        (at for at, unit in enumerate(tests.units) if _matches(kind, value, unit)),
        len(tests.units),
    )
    return Selection(matching, matching)


def _keywords(unit: InventoryUnit) -> str:
    """Names that `-k` looks at: folders, file, classes, function, markers; each apart."""
    path, *names = _parts(unit.unit)
    return "\0".join((*path.split("/"), *names, *(unit.categories or ())))


def _parts(unit: str) -> list[str]:
    """Path, classes and function of a node id; `::` in brackets is part of a name."""
    head, bracket, rest = unit.partition("[")
    parts = head.split("::")
    parts[-1] += bracket + rest
    return parts


def _matches(kind: Kind, value: str, unit: InventoryUnit) -> bool:
    path = unit.unit.partition("::")[0]
    if kind == "mark":
        return value in (unit.categories or ())
    if kind == "deselect":
        return unit.unit.startswith(value)
    if kind == "ignore":
        return _is_below(path, value)
    if kind == "ignore_glob":
        return any(fnmatch.fnmatch(one, posixpath.normpath(value)) for one in _with_folders(path))
    wanted, names = _parts(value), _parts(unit.unit)
    if not _is_below(path, wanted[0]):
        return False
    if len(wanted) == 1:
        return True
    *inner, last = names[1 : len(wanted)] or [""]
    given = [*inner, last if "[" in wanted[-1] else last.partition("[")[0]]
    return given == wanted[1:]


def _is_below(path: str, folder: str) -> bool:
    folder = posixpath.normpath(folder)
    return folder in (".", path) or path.startswith(f"{folder}/")


def _with_folders(path: str) -> Iterator[str]:
    while path:
        yield path
        path = posixpath.dirname(path)


def is_label(term: Term) -> bool:
    """Return whether it selects by a marker."""
    condition = term.condition
    assert isinstance(condition, Condition)
    return condition.kind == "mark"
