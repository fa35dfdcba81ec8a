"""One test in several combinations of a matrix: shown as one, counted as many. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeVar

from ciguard.document import Link, Span, join
from ciguard.text import count_of, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ciguard.model import CaseKey, Suite, UnitKey
    from ciguard.render.links import Links

One = TypeVar("One")

MAX_NAMED: Final = 5  # combinations or shards; the rest is counted
_MARKS: Final = (
    (re.compile(r"(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\"()]+[\\/])+[^\s\\/:'\"(),]*"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "#"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\b(?:tmp|temp)[-_]?\w*\d\w*", re.IGNORECASE), "<temp>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)


def fingerprint(message: str) -> str:
    """A message without what differs between two failures of one cause."""
    for pattern, mark in _MARKS:
        message = pattern.sub(mark, message)
    return one_line(message, 120)


def group_variants(
    items: Iterable[One], key: Callable[[One], CaseKey | UnitKey], how: Callable[[One], object]
) -> list[tuple[One, ...]]:
    """Items of tests that differ in their variant only, in the order of the first of each.

    Args:
        how: what all items of a group have in common besides the test.
    """
    found: dict[object, list[One]] = {}
    for one in items:
        found.setdefault((key(one)._replace(variant=""), how(one)), []).append(one)
    return [tuple(members) for members in found.values()]


def name_combinations(keys: Sequence[CaseKey | UnitKey], suites: Mapping[str, Suite]) -> str:
    """ "in 2 of 15 combinations: a; b"; no names where it is all, "" for a single one.

    Args:
        suites: of the plan; without the suite the number of all is not known.
    """
    mine = list(dict.fromkeys(key.variant for key in keys))
    if len(mine) == 1:
        return ""
    suite = suites.get(keys[0].suite)
    variants = suite.variants if suite is not None else {}
    is_matrix = not variants or any(one.matrix is not None for one in variants.values())
    # A result of a variant that is not planned counts, too.
    every = {*variants, *mine}
    number = count_of(len(every), "combination" if is_matrix else "variant")
    # The name of a combination has commas of its own.
    names = "; ".join(map(one_line, mine[:MAX_NAMED]))
    more = f" and {len(mine) - MAX_NAMED:,} more" if len(mine) > MAX_NAMED else ""
    is_partial = suite is None or every - {*mine}
    count = f"{len(mine)} of {number}" if suite is not None else number
    return f"in {count}{f': {names}{more}' if is_partial else ''}"


def link_shards(shards: Sequence[str], links: Links) -> tuple[Span, ...]:
    """Links to the jobs of the first few, and how many more."""
    named = dict.fromkeys(shards)
    shown = join([Link(shard, links.job(shard)) for shard in list(named)[:MAX_NAMED]])
    more = len(named) - MAX_NAMED
    return (*shown, f" and {more:,} more") if more > 0 else shown
