"""The one sentence that a comparison begins with: the worst first. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.compare.comparison import KINDS, WORSE
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.compare.comparison import Comparison, Kind, Lost, State

WORDS: Final[dict[State, str]] = {
    "incomplete": "INCOMPLETE",
    "worse": "WORSE",
    "mixed": "MIXED",
    "better": "BETTER",
    "suspect": "SUSPECT",
    "same": "NO SIGNIFICANT DIFFERENCE",
    "inconclusive": "INCONCLUSIVE",
}


def headline(comparison: Comparison) -> Comparison:
    """The comparison with its sentence."""
    parts = [*_parts(comparison), *_numbers(comparison)] or [
        comparison.unjudged or _untold(comparison)
    ]
    return replace(comparison, headline=f"{WORDS[comparison.state]}: {'; '.join(parts)}")


def _parts(comparison: Comparison) -> Iterator[str]:
    yield from comparison.reasons
    yield from _lost(comparison.lost)
    unblocked = sum(one.word == "unblocked" for one in comparison.jobs)
    if unblocked:
        yield f"{counted(unblocked, 'job')} unblocked"
    cancelled = sum(one.word == "newly cancelled" for one in comparison.jobs)
    if cancelled:
        yield f"{counted(cancelled, 'job')} newly cancelled"
    kinds: tuple[Kind, ...] = (*WORSE, "no_longer_run", "fixed")
    for kind in kinds:
        found = len(comparison.of_kind(kind))
        if found:
            yield f"{found:,} {KINDS[kind]}"


def _lost(lost: Sequence[Lost]) -> Iterator[str]:
    sure = [one for one in lost if one.sure]
    if len(sure) == 1:
        yield sure[0].words
    elif sure:
        units = sum(len(one.units) for one in sure)
        yield f"{counted(units, 'unit')} lost with {len(sure):,} shards"
    for one in lost:
        if not one.sure:
            yield f"{counted(len(one.units), 'unit')} of the base without a result"


def _numbers(comparison: Comparison) -> Iterator[str]:
    """The verdicts; without any, only what has numbers to show."""
    for leak in comparison.leaks[:1]:
        more = len(comparison.leaks) - 1
        yield leak.words + (f", and {more} more" if more else "")
    if comparison.pace.word in ("slower", "maybe slower", "faster"):
        yield comparison.pace.said
    for judgement in comparison.judgements:
        if judgement.word != "not measured":
            yield judgement.said


def _untold(comparison: Comparison) -> str:
    if comparison.base is None:
        return f"{counted(comparison.candidate.cases, 'case')}, no base"
    return f"{comparison.memory.said}; {comparison.durations.said}"
