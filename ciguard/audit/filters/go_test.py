"""Filters by arguments of `go test`: packages, `-run`, `-skip`. Pure.

`-run 'TestCart/adds|TestOrder'` is divided at `|` and then at `/`, outside of brackets; each
element is an RE2 expression for one level of a test's name. `-skip` excludes a test whose levels
the first matching alternative matches to the end. Source: `testing/match.go`.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections import deque
from typing import TYPE_CHECKING, Final

import re2

from ciguard.audit.filters.expression import (
    And,
    Argument,
    Expression,
    Not,
    Or,
    Selection,
    Term,
    set_of,
)
from ciguard.audit.filters.words import words
from ciguard.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.audit.test_set import TestSet
    from ciguard.codec.inventory_file import InventoryUnit

_FLAGS: Final = frozenset(
    {"-v", "-race", "-cover", "-json", "-failfast", "-short", "-a", "-n", "-x", "-msan", "-asan"}
    | {"-trimpath", "-work", "-fullpath", "-benchmem", "-i", "-linkshared", "-modcacherw"}
)
_WITH_VALUE: Final = frozenset(
    {"-count", "-timeout", "-parallel", "-p", "-cpu", "-coverprofile", "-covermode", "-coverpkg"}
    | {"-tags", "-mod", "-modfile", "-ldflags", "-gcflags", "-shuffle", "-o", "-exec", "-vet", "-C"}
    | {"-bench", "-benchtime", "-cpuprofile", "-memprofile", "-blockprofile", "-mutexprofile"}
    | {"-outputdir", "-trace", "-asmflags", "-buildmode", "-buildvcs", "-compiler", "-fuzztime"}
)
# Options of gotestsum without a value.
_GOTESTSUM_FLAGS: Final = frozenset(
    {"--debug", "--format-hide-empty-pkg", "--no-color", "--junitfile-hide-empty-pkg"}
    | {"--junitfile-hide-skipped-tests", "--watch", "--watch-chdir", "--watch-clear"}
    | {"--rerun-fails", "--rerun-fails-run-root-test", "--rerun-fails-abort-on-data-race"}
)
_SELECTING: Final = {"-run": "run", "-skip": "skip"}
# A test's package, and its name with those of subtests.
_NAME: Final = re.compile(r"(?P<package>.*?)\.(?P<test>(?:Test|Example|Fuzz)[^./]*(?:/.*)?)")


def find_filter(words: Sequence[str]) -> str:
    """Return the arguments of `go test`, also of the one that gotestsum starts."""
    programs = [word.rpartition("/")[2] for word in words]
    for index in range(len(words) - 1):
        if programs[index] == "go" and words[index + 1] == "test":
            return shlex.join(words[index + 2 :])
    if "gotestsum" in programs:
        return shlex.join(_words_of_gotestsum(words[programs.index("gotestsum") + 1 :]))
    return ""


def _words_of_gotestsum(arguments: Sequence[str]) -> Sequence[str]:
    """Return the packages of `--packages`, and the arguments from `--` or the first non-option.

    `--raw-command` starts another program, whose arguments are not known.
    """
    packages: list[str] = []
    queue = deque(arguments)
    while queue and queue[0].startswith("-"):
        option, equals, value = queue.popleft().partition("=")
        if option == "--":
            break
        if option == "--raw-command":
            return [option]
        # `--` is no value: an option that is not in the table may be a flag.
        if not equals and option not in _GOTESTSUM_FLAGS and queue and queue[0] != "--":
            value = queue.popleft()
        packages += value.split() if option == "--packages" else []
    return [*packages, *queue]


def parse(text: str, where: str) -> Expression:
    """Parse the arguments of a command; without a package, every package is selected.

    Raises:
        InputError: an expression that RE2 refuses.
    """
    packages: list[Expression] = []
    patterns: dict[str, Expression] = {}
    arguments = words(text)
    for word in arguments:
        option, equals, value = word.text.partition("=")
        option = "-" + option.lstrip("-").removeprefix("test.") if option[:1] == "-" else option
        if option == "-args":
            break
        if option[:1] != "-":
            packages.append(Term(Argument("package", word.text), word.start, word.end))
        elif option in _SELECTING:
            attached = word._replace(text=value)
            pattern = attached if equals else next(arguments, word._replace(text=""))
            kind = _SELECTING[option]
            _check(pattern.text, kind, where)
            term = Term(Argument(kind, pattern.text), pattern.start, pattern.end)
            patterns[option] = Not(term) if kind == "skip" else term
            if not pattern.text:  # an empty pattern has no effect
                del patterns[option]
        elif option in _WITH_VALUE:
            if not equals:
                next(arguments, None)
        elif option not in _FLAGS:  # the next word may be its value, or a package
            return Term(Argument("unknown", word.text), word.start, word.end)
    return And((*([Or(tuple(packages))] if packages else []), *patterns.values()))


def _check(pattern: str, option: str, where: str) -> None:
    for elements in split_pattern(pattern):
        for element in elements:
            try:
                _compile(element)
            except re2.error as error:
                reason = error.args[0] if error.args else ""
                reason = reason.decode() if isinstance(reason, bytes) else str(reason)
                what = f"-{option} {element!r:.100}: {reason}"
                raise InputError(what, where=where, fix="write an expression of RE2") from None


def _compile(element: str) -> re2._Regexp:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(element.replace(" ", "_"), options)


def split_pattern(pattern: str) -> Iterator[tuple[str, ...]]:
    """Yield the alternatives of an expression, each with its elements by level."""
    elements, start, brackets, parentheses, at = [], 0, 0, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "[":
            brackets += 1
        elif char == "]":
            brackets = max(0, brackets - 1)
        elif char in "()" and not brackets:
            parentheses += 1 if char == "(" else -1
        elif char == "\\":
            at += 1
        elif char in "/|" and not brackets and not parentheses:
            elements.append(pattern[start:at])
            start = at + 1
            if char == "|":
                yield tuple(elements)
                elements = []
        at += 1
    yield (*elements, pattern[start:])


def lookup(term: Term, tests: TestSet) -> Selection:
    """Return the tests that a term selects; for `-skip`, the excluded tests."""
    kind, value = term.condition
    if kind == "unknown":
        return Selection(0, tests.everything)
    if kind == "package":
        packages = [_split(unit.unit)[0] for unit in tests.units]
        return _packages(value, packages, tests.everything)
    alternatives = [
        tuple(_compile(element) for element in elements) for elements in split_pattern(value)
    ]

    def is_matched(unit: InventoryUnit) -> bool:
        name = _split(unit.unit)[1]
        matched = _first_match(alternatives, name)
        return matched is not None and (kind == "run" or matched <= len(name))

    return tests.where(is_matched)


def _split(unit: str) -> tuple[str, list[str]]:
    match = _NAME.fullmatch(unit)
    return (match["package"], match["test"].split("/")) if match else ("", unit.split("/"))


def _first_match(alternatives: Sequence[Sequence[re2._Regexp]], name: Sequence[str]) -> int | None:
    """Return the number of levels of the first alternative that matches the levels of a name."""
    for elements in alternatives:
        if all(element.search(part) for element, part in zip(elements, name, strict=False)):
            return len(elements)
    return None


def _packages(value: str, packages: Sequence[str], everything: int) -> Selection:
    """Return the tests in a package; a relative package may be below any possible root.

    The name of the module is not in the list of tests: it is a common prefix of all packages.
    """

    def members_of(pattern: str) -> int:
        return set_of((at for at, name in enumerate(packages) if _in(name, pattern)), len(packages))

    if value in (".", "./..."):
        value = value.removeprefix("./")
    if value in ("...", "all"):
        return Selection(everything, everything)
    if not value.startswith(("./", "../")) and value != ".":
        members = members_of(value)
        return Selection(members, members)
    common = posixpath.commonprefix([package.split("/") for package in {*packages}])
    candidates = []
    for length in range(1, len(common) + 1):
        path = "/".join((*common[:length], *value.removeprefix("./").split("/")))
        if members := members_of(path.removesuffix("/.").rstrip("/")):
            candidates.append(members)
    sure, possible = everything if candidates else 0, 0
    for members in candidates:
        sure, possible = sure & members, possible | members
    return Selection(sure, possible)


def _in(package: str, pattern: str) -> bool:
    if pattern.endswith("/..."):
        root = pattern.removesuffix("/...")
        return package == root or package.startswith(f"{root}/")
    return package == pattern
