"""The grouping of one test in several combinations of a matrix, which is shown once. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ciguard.document import Link, Span, join
from ciguard.model import CaseKey, Suite, UnitKey
from ciguard.render.links import Links
from ciguard.text import MAX_NAMED, count_of, name_some, one_line

Item = TypeVar("Item")

_MARKS: Final = (
    (re.compile(r"(?:[A-Za-z]:)?[\\/](?:[^\s\\/:'\"()]+[\\/])+[^\s\\/:'\"(),]*"), "<path>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "#"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "#"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\b(?:tmp|temp)[-_]?\w*\d\w*", re.IGNORECASE), "<temp>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "#"),
)


def fingerprint(message: str) -> str:
    """Return a message without the parts that differ between failures of one cause."""
    for pattern, mark in _MARKS:
        message = pattern.sub(mark, message)
    return one_line(message, 120)


def group_variants(
    items: Iterable[Item],
    key: Callable[[Item], CaseKey | UnitKey],
    common: Callable[[Item], object],
) -> list[tuple[Item, ...]]:
    """Group items of tests that differ in their variant only, in the order of the first of each.

    Args:
        common: returns the value that all items of a group share besides the test.
    """
    groups: dict[object, list[Item]] = {}
    for item in items:
        groups.setdefault((key(item)._replace(variant=""), common(item)), []).append(item)
    return [tuple(members) for members in groups.values()]


def name_combinations(keys: Sequence[CaseKey | UnitKey], suites: Mapping[str, Suite]) -> str:
    """Return "in 2 of 15 combinations: a; b"; without names for all, "" for a single one.

    Args:
        suites: those of the plan; without the suite the number of all is unknown.
    """
    variants_of_test = list(dict.fromkeys(key.variant for key in keys))
    if len(variants_of_test) == 1:
        return ""
    suite = suites.get(keys[0].suite)
    variants = suite.variants if suite is not None else {}
    is_matrix = not variants or any(variant.matrix is not None for variant in variants.values())
    # An unplanned variant with a result counts as well. Of result files, "" has the other tests.
    every = {*filter(None, variants), *variants_of_test}
    number = count_of(len(every), "combination" if is_matrix else "variant")
    # The name of a combination has commas of its own.
    names = name_some(variants_of_test, one_line, separator="; ")
    is_partial = suite is None or every - {*variants_of_test}
    count = f"{len(variants_of_test)} of {number}" if suite is not None else number
    return f"in {count}{f': {names}' if is_partial else ''}"


def link_shards(shards: Sequence[str], links: Links) -> tuple[Span, ...]:
    """Return links to the jobs of the first few shards, and the number of the others."""
    named = [Link(shard, links.job(shard)) for shard in dict.fromkeys(shards)]
    return join(named, most=MAX_NAMED)
