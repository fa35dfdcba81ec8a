"""Filters by arguments of pytest: paths, node ids, `-k`, `-m`, `--deselect`. Pure.

The rules are those of pytest 8 and 9 (`_pytest/mark`, `_pytest/main.py`). Settings in files of the
project, as `addopts` and `testpaths`, are not read. An option that is not in the tables below may
select tests: the selection is not known then.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ciguard.audit.filters.expression import (
    And,
    Argument,
    Expression,
    ExpressionParser,
    Not,
    Or,
    Selection,
    Term,
    TestSet,
)
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

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
_SELECTING: Final[Mapping[str, str]] = {
    "-k": "keyword",
    "-m": "mark",
    "--ignore": "ignore",
    "--deselect": "deselect",
}
_TOKEN: Final = re.compile(r"\s*(?:([()])|((?::?\w|[:+.\[\]\\/-])+))")
_PROGRAMS: Final = ("pytest", "py.test")
_WORD: Final = re.compile(r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\])+", re.DOTALL)


def find_filter(words: Sequence[str]) -> str:
    indices = [index for index, word in enumerate(words) if word.rpartition("/")[2] in _PROGRAMS]
    return shlex.join(words[indices[-1] + 1 :]) if indices else ""


def parse(text: str, where: str) -> Expression:
    """Parse the arguments of a command; without arguments, every test is selected.

    Raises:
        InputError: pytest would refuse `-k` or `-m`.
    """
    paths: list[Expression] = []
    parts: dict[str, Expression] = {}
    exclusions: list[Expression] = []
    for kind, word in _arguments(text):
        term = Term(Argument(kind, word.text), word.start, word.end)
        if kind == "path":
            paths.append(term)
        elif kind in ("keyword", "mark"):
            # The last one counts; an empty one is no filter.
            is_empty = not word.text.strip()
            parts[kind] = And(()) if is_empty else _Parser(kind, word, where).expression()
        elif kind == "unknown":  # the next word may be its value, or a path
            return term
        else:
            exclusions.append(Not(term))
    return And((*([Or(tuple(paths))] if paths else []), *parts.values(), *exclusions))


class Word(NamedTuple):
    """A word without its quotes; `start` and `end` include the quotes."""

    text: str
    start: int
    end: int


def _words(text: str) -> Iterator[Word]:
    """Yield the words as a shell reads them; variables stay as they are."""
    for match in _WORD.finditer(text):
        try:
            plain = "".join(shlex.split(match[0]))
        except ValueError:  # an open quote
            plain = match[0]
        yield Word(plain, match.start(), match.end())


def _arguments(text: str) -> Iterator[tuple[str, Word]]:
    queue = deque(_words(text))
    while queue:
        word = queue.popleft()
        option, equals, value = word.text.partition("=")
        short = next((name for name in ("-k", "-m") if word.text.startswith(name)), "")
        kind = _SELECTING.get(option) or _SELECTING.get(short)
        if not word.text.startswith("-"):
            yield "path", word
        elif kind is not None:
            is_long = equals and option in _SELECTING
            attached = value if is_long else word.text[len(short or option) :]
            if attached:
                yield kind, word._replace(text=attached)
            else:
                yield kind, queue.popleft() if queue else word._replace(text="")
        elif option in WITH_VALUE | OPTIONAL_VALUE:
            has_next = bool(queue) and not equals
            if has_next and (option in WITH_VALUE or not queue[0].text.startswith("-")):
                queue.popleft()
        elif option not in FLAGS and not _SHORT.fullmatch(word.text):
            yield "unknown", word


class _Parser(ExpressionParser):
    """Parser of the expression of `-k` or `-m`."""

    AND, OR = "and", "or"

    def __init__(self, kind: str, word: Word, where: str) -> None:
        self._kind, self._word, self._where = kind, word, where
        tokens: list[str] = []
        at, text = 0, word.text.rstrip()
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token is None:
                raise self.problem(f"unexpected {text[at:].lstrip()[:1]!r}")
            tokens.append(token[1] or token[2])
            at = token.end()
        super().__init__(tokens)

    def problem(self, what: str) -> InputError:
        option = "-k" if self._kind == "keyword" else "-m"
        fix = "write it as pytest takes it: name and not (other or third)"
        return InputError(f"{option} {self._word.text!r:.100}: {what}", where=self._where, fix=fix)

    def term(self, depth: int) -> Expression:
        token = self.token
        self.index += 1
        if token == "not":
            return Not(self.operand(depth + 1))
        if token in ("", "and", "or", ")"):
            before = f" before {token!r}" if token else ""
            raise self.problem(f"a name is missing{before}")
        argument, is_label = Argument(self._kind, token), self._kind == "mark"
        return Term(argument, self._word.start, self._word.end, is_label=is_label)


def lookup(term: Term, tests: TestSet) -> Selection:
    """Return the tests that a term selects.

    If the list of tests gives no markers, `-m` selects nothing surely. `-k` also matches names of
    markers, so it may then select more tests than those whose names match.
    """
    kind, value = term.condition
    if kind == "unknown":
        return Selection(0, tests.everything)
    if kind == "keyword":
        members = tests.index(_keywords).containing(value)
        return Selection(members, members if tests.has_categories else tests.everything)
    if kind == "mark" and not tests.has_categories:
        return Selection(0, tests.everything)
    return tests.where(lambda unit: _matches(kind, value, unit))


def _keywords(unit: InventoryUnit) -> str:
    """Join the names that `-k` matches: folders, file, classes, function, markers."""
    path, *names = _parts(unit.unit)
    return "\0".join((*path.split("/"), *names, *(unit.categories or ())))


def _parts(unit: str) -> list[str]:
    """Split a node id into path, classes and function; `::` in brackets is part of a name."""
    head, bracket, parameters = unit.partition("[")
    parts = head.split("::")
    parts[-1] += bracket + parameters
    return parts


def _matches(kind: str, value: str, unit: InventoryUnit) -> bool:
    path = unit.unit.partition("::")[0]
    if kind == "mark":
        return value in (unit.categories or ())
    if kind == "deselect":
        return unit.unit.startswith(value)
    if kind == "ignore":
        return _is_below(path, value)
    wanted, names = _parts(value), _parts(unit.unit)
    if not _is_below(path, wanted[0]):
        return False
    if len(wanted) == 1:
        return True
    *classes, last = names[1 : len(wanted)] or [""]
    return [*classes, last if "[" in wanted[-1] else last.partition("[")[0]] == wanted[1:]


def _is_below(path: str, folder: str) -> bool:
    folder = posixpath.normpath(folder)
    return folder in (".", path) or path.startswith(f"{folder}/")
