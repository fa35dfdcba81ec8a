"""Listings that test tools print, or inventory files -> the tests. Pure.

A listing is recognised by a text that only its tool prints. To add a tool, write its function and
its line in `LISTINGS`.
"""

from __future__ import annotations

import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from ciguard.codec import inventory_file
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.unpack_limits import gunzip, read_limited
from ciguard.errors import InputError
from ciguard.model import UnitKey

_DOTNET_HEAD: Final = "The following Tests are available:"
_PYTEST_COUNT: Final = re.compile(
    r"^(?:=+ )?(?:no tests|(\d{1,9})(?:/\d+)? tests?) collected\b", re.MULTILINE
)
_PYTEST_FILE_COUNT: Final = re.compile(r"^\S.*\.py: \d+(?=\r?$)", re.MULTILINE)
_PYTEST_HEADING: Final = re.compile(r"=+ (?:ERRORS|warnings summary) =")
_GO_PACKAGE: Final = re.compile(r"^(?:ok|\?|FAIL) +\t(\S+)", re.MULTILINE)
_GO_TEST: Final = re.compile(r"(?:Test|Example|Fuzz)\w*\Z")
_GTEST_SUITE: Final = re.compile(r"^[\w/]+\.(?:  # .*)?$", re.MULTILINE)
_GTEST_DISABLED: Final = re.compile(r"(?:^|[./])DISABLED_")


def read_tests(content: bytes, source: str, folder: str = "") -> tuple[InventoryUnit, ...]:
    """Read the tests from the listing of a test tool, otherwise from an inventory file.

    Args:
        folder: absolute; paths below it become relative to it, as in result files.

    Raises:
        InputError: no test, a test twice, or a damaged listing.
    """
    unpacked = gunzip(io.BytesIO(content), source)
    text = _as_utf8(read_limited(unpacked, source, inventory_file.MAX_BYTES), source)
    try:
        units = read_listing(text.decode("utf-8-sig", "replace"))
    except InputError as error:
        raise InputError(error.what, where=source, fix=error.fix) from error
    repeated: tuple[UnitKey, ...] = ()
    if units is None:
        inventory = inventory_file.read(io.BytesIO(text), source)
        units, repeated = inventory.units, inventory.repeated
    if not units:
        raise InputError("no test in it", where=source, fix="list the tests, one a line")
    units = relative_to(units, folder)
    counts = Counter(unit.unit for unit in units)
    twice = [name for name in counts if counts[name] > 1] + [key.unit for key in repeated]
    if twice:
        tests = f"{len(twice):,} tests" if twice[1:] else "1 test"
        what = f"{tests} listed more than once: {twice[0]!r:.120}"
        raise InputError(what, where=source, fix="list each test once")
    return units


def _as_utf8(content: bytes, source: str) -> bytes:
    """Convert UTF-16 with a byte order mark, as `>` of Windows PowerShell writes it, to UTF-8."""
    if not content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content
    try:
        return content.decode("utf-16").encode()
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-16: {error}", where=source, fix="write UTF-8") from None


def read_listing(text: str) -> tuple[InventoryUnit, ...] | None:
    """Return the tests of a listing in its order; None for a text that no tool printed.

    Raises:
        InputError: the listing has counts instead of tests, or fewer tests than were collected.
    """
    for recognise, read in LISTINGS.values():
        if recognise(text):
            return tuple(read(text))
    return None


def relative_to(units: Iterable[InventoryUnit], folder: str) -> tuple[InventoryUnit, ...]:
    """Make absolute paths below a folder (with "/" as separator) relative to it."""
    prefix = folder.rstrip("/") + "/"
    return tuple(_relative_to(unit, prefix) for unit in units)


def _relative_to(unit: InventoryUnit, prefix: str) -> InventoryUnit:
    is_windows = unit.unit[1:3] == ":\\"
    path = unit.unit.replace("\\", "/") if is_windows else unit.unit
    if not path.startswith(prefix):
        return unit
    inside = path.removeprefix(prefix)
    return replace(unit, unit=inside, file=inside if unit.file == unit.unit else unit.file)


def _dotnet(text: str) -> Iterator[InventoryUnit]:
    """Read `dotnet test --list-tests`: indented names below a heading, by project and framework.

    A project with several target frameworks lists each test once for each framework; a filter
    selects the test in all of them.
    """
    names: dict[str, None] = {}
    listed = False
    for line in text.splitlines():
        if line.startswith(_DOTNET_HEAD):
            listed = True
        elif listed and line.startswith("    ") and line.strip():
            names[line.strip()] = None
        elif line.strip():
            listed = False
    yield from map(InventoryUnit, names)


def _pytest_counts(text: str) -> Iterator[InventoryUnit]:
    """Refuse `pytest --collect-only -qq`: a file and the number of its tests a line."""
    line = _PYTEST_FILE_COUNT.search(text)
    what = f"numbers of tests, not their names: {line[0] if line else ''!r:.120}"
    fix = "list with one -q: pytest -o addopts= --collect-only -q"
    raise InputError(what, fix=fix)


def _pytest(text: str) -> Iterator[InventoryUnit]:
    """Read `pytest --collect-only -q` of one run or several: ids, a blank line, notes, the count.

    Raises:
        InputError: the counts of the runs do not add up to the tests.
    """
    units: list[InventoryUnit] = []
    counts: list[int] = []
    in_ids, has_ids = True, False
    # str.splitlines would also split at characters that may be part of an id.
    for line in (line.removesuffix("\r") for line in text.split("\n")):
        if count := _PYTEST_COUNT.match(line):
            counts.append(int(count[1] or 0))
            in_ids, has_ids = True, False  # of the next run
        elif _PYTEST_HEADING.match(line) or (has_ids and not line.strip()):
            in_ids = False
        elif in_ids and "::" in line:
            units.append(InventoryUnit(line, file=line.partition("::")[0]))
            has_ids = True
    if sum(counts) != len(units):
        what = f"listed tests: {len(units):,}, collected tests: {sum(counts):,}"
        fix = "write all that each `pytest --collect-only -q` prints into the file"
        raise InputError(what, fix=fix)
    return iter(units)


def _go(text: str) -> Iterator[InventoryUnit]:
    """Read `go test -list .`: names, then the line of their package. Benchmarks are no tests."""
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
    """Read `--gtest_list_tests`: a suite with a dot, its tests below, disabled ones excepted."""
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
    """Read `jest --listTests`: the path of a file a line."""
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
    # Before `-q`: otherwise a listing by -qq after one by -q in the same file would be ignored.
    "pytest --collect-only -qq": (_PYTEST_FILE_COUNT.search, _pytest_counts),
    "pytest --collect-only -q": (_PYTEST_COUNT.search, _pytest),
    "go test -list": (_GO_PACKAGE.search, _go),
    "--gtest_list_tests": (_GTEST_SUITE.search, _gtest),
    "jest --listTests": (_is_jest, _jest),
}
