"""What test tools print when they list their tests -> the tests. Pure.

A listing is recognised by what its tool alone writes. To add one: its function and its line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ciguard.codec.inventory_file import InventoryUnit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_DOTNET_HEAD: Final = "The following Tests are available:"
_PYTEST_COUNT: Final = re.compile(r"^(?:=+ )?\d+(?:/\d+)? tests? collected", re.MULTILINE)
_GO_PACKAGE: Final = re.compile(r"^(?:ok|\?|FAIL) +\t(\S+)", re.MULTILINE)
_GO_TEST: Final = re.compile(r"(?:Test|Example|Fuzz)\w*\Z")
_GTEST_SUITE: Final = re.compile(r"^[\w/]+\.(?:  # .*)?$", re.MULTILINE)
_GTEST_DISABLED: Final = re.compile(r"(?:^|[./])DISABLED_")


def read_listing(text: str) -> tuple[InventoryUnit, ...] | None:
    """The tests of a listing in the tool's own order; None of a text that no tool printed."""
    for recognise, read in LISTINGS.values():
        if recognise(text):
            return tuple(read(text))
    return None


def _dotnet(text: str) -> Iterator[InventoryUnit]:
    """`dotnet test --list-tests`: indented names below a heading, for each project."""
    listed = False
    for line in text.splitlines():
        if line.startswith(_DOTNET_HEAD):
            listed = True
        elif listed and line.startswith("    ") and line.strip():
            yield InventoryUnit(line.strip())
        elif line.strip():
            listed = False


def _pytest(text: str) -> Iterator[InventoryUnit]:
    """`pytest --collect-only -q`: a node id a line, until a blank one."""
    for line in text.splitlines():
        if not line.strip():
            return
        path, separator, _ = line.partition("::")
        if separator:
            yield InventoryUnit(line, file=path)


def _go(text: str) -> Iterator[InventoryUnit]:
    """`go test -list .`: names, then the line of their package. Benchmarks are no tests."""
    names: list[str] = []
    for line in text.splitlines():
        package = _GO_PACKAGE.match(line)
        if package is None:
            names.append(line)
            continue
        for name in names:
            if _GO_TEST.match(name):
                yield InventoryUnit(f"{package[1]}.{name}")
        names = []


def _gtest(text: str) -> Iterator[InventoryUnit]:
    """`--gtest_list_tests`: a suite with a dot, its tests below; disabled ones do not run."""
    suite = ""
    for line in text.splitlines():
        name = line.partition("  # ")[0].rstrip()
        if line.startswith("  ") and suite:
            unit = suite + name.strip()
            if not _GTEST_DISABLED.search(unit):
                yield InventoryUnit(unit)
        else:
            suite = name if name.endswith(".") else ""


def _jest(text: str) -> Iterator[InventoryUnit]:
    """`jest --listTests`: the path of a file a line."""
    for line in text.splitlines():
        if line.strip():
            yield InventoryUnit(line.strip(), file=line.strip())


def _is_jest(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip()]
    paths = re.compile(r"(?:/|[A-Za-z]:\\).*\.[cm]?[jt]sx?\Z")
    return bool(lines) and all(map(paths.match, lines))


LISTINGS: Final[
    Mapping[str, tuple[Callable[[str], object], Callable[[str], Iterator[InventoryUnit]]]]
] = {
    "dotnet test --list-tests": (lambda text: _DOTNET_HEAD in text, _dotnet),
    "pytest --collect-only -q": (_PYTEST_COUNT.search, _pytest),
    "go test -list": (_GO_PACKAGE.search, _go),
    "--gtest_list_tests": (_GTEST_SUITE.search, _gtest),
    "jest --listTests": (_is_jest, _jest),
}
