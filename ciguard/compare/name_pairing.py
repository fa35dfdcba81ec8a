"""Names of two runs that mean the same thing: equal ones, and those that differ in what each run
has anew: a commit, a version, a date, the number of the run. Pure.

A name that both runs have is never paired with another one: `python-3.11` and `python-3.12` of a
matrix stay apart. Where a name stands for more things in one run than in the other, only the
counts are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

T = TypeVar("T")

COMMIT: Final = "<commit>"
_HEX: Final = re.compile(r"(?<![0-9A-Za-z])(?:git|g)?([0-9a-f]{7,40})(?![0-9A-Za-z])")
_FULL_COMMIT: Final = 40
# In this order: a version may look like a date. Commits go first, as one may look like a version.
_MARKS: Final = (
    (
        re.compile(
            r"(?:(?<![0-9A-Za-z])v[0-9]+(?:\.[0-9]+)*|(?<![0-9.])[0-9]+(?:\.[0-9]+)+)"
            # PEP 440, SemVer, `git describe`. What follows "+", such as "cpu", tells builds apart.
            r"(?:[-._]?(?:(?:alpha|beta|rc|preview|pre|dev|post|nightly|SNAPSHOT)[-._]?[0-9]*"
            r"|[abc][0-9]+)(?![0-9A-Za-z]))*"
            rf"(?:-[0-9]+(?=-{COMMIT}))?"
        ),
        "<version>",
    ),
    (
        re.compile(
            r"(?<![0-9])20[0-9]{2}[-_]?(?:0[1-9]|1[0-2])[-_]?(?:0[1-9]|[12][0-9]|3[01])"
            r"(?:[T_-]?[0-9]{2}[-:_]?[0-9]{2}(?:[-:_]?[0-9]{2})?Z?)?(?![0-9])"
        ),
        "<date>",
    ),
    (re.compile(r"(?<![0-9])[0-9]{9,}(?![0-9])"), "<run>"),  # of GitHub's ids, all since 2020
)
_DIGITS: Final = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class NameCount:
    """A name of which one run has more than the other: which belong together is not known."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Paired(Generic[T]):
    """Items of two runs: pairs, those that only one of them has, and counts."""

    pairs: tuple[tuple[T, T], ...]
    only_before: tuple[T, ...]
    only_after: tuple[T, ...]
    counts: tuple[NameCount, ...]


def normalize_name(name: str, own: Collection[str] = ()) -> str:
    """A name without what differs from run to run: `wheel-<version>+cpu-<commit>`.

    Args:
        own: commits of the runs. A start of one is a commit even without a letter or a digit, which
            other texts need to be one.
    """

    def without_commit(match: re.Match[str]) -> str:
        digits = match[1]
        is_mixed = not digits.isdigit() and not digits.isalpha()
        is_own = any(commit.startswith(digits) for commit in own)
        return COMMIT if is_mixed or is_own or len(digits) == _FULL_COMMIT else match[0]

    name = _HEX.sub(without_commit, name)
    for pattern, mark in _MARKS:
        name = pattern.sub(mark, name)
    return name


def pair_by_name(
    before: Sequence[tuple[str, T]], after: Sequence[tuple[str, T]], own: Collection[str] = ()
) -> Paired[T]:
    """Pair named items of two runs: equal names first, then those that are equal normalized.

    Items of one name are paired in their order, and those of one normalized name in the natural
    order of their names.
    """
    exact = _pair(_grouped(before, lambda name: name), _grouped(after, lambda name: name))
    rest = [
        _grouped(sorted(found, key=lambda one: _natural(one[0])), lambda n: normalize_name(n, own))
        for found in (exact.only_before, exact.only_after)
    ]
    alike = _pair(*rest)
    return Paired(
        tuple((old[1], new[1]) for old, new in (*exact.pairs, *alike.pairs)),
        tuple(one[1] for one in alike.only_before),
        tuple(one[1] for one in alike.only_after),
        (*exact.counts, *alike.counts),
    )


def _grouped(
    items: Sequence[tuple[str, T]], key: Callable[[str], str]
) -> dict[str, list[tuple[str, T]]]:
    found: dict[str, list[tuple[str, T]]] = {}
    for one in items:
        found.setdefault(key(one[0]), []).append(one)
    return found


def _pair(before: Mapping[str, list[T]], after: Mapping[str, list[T]]) -> Paired[T]:
    pairs: list[tuple[T, T]] = []
    only: tuple[list[T], list[T]] = [], []
    counts: list[NameCount] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name, []), after.get(name, [])
        if len(old) == len(new):
            pairs += zip(old, new, strict=True)
        elif old and new:
            counts.append(NameCount(name, len(old), len(new)))
        else:
            only[0].extend(old)
            only[1].extend(new)
    return Paired(tuple(pairs), tuple(only[0]), tuple(only[1]), tuple(counts))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts `py3.9` before `py3.10`."""
    parts = [
        part.lstrip("0") if place % 2 else part for place, part in enumerate(_DIGITS.split(name))
    ]
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)]
