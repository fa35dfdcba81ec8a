"""The one sentence that a comparison begins with: the worst first. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ciguard.compare.comparison import KINDS, WORSE
from ciguard.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.compare.comparison import Comparison, Kind, State

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
    said = f"{WORDS[comparison.state]}: {'; '.join(_parts(comparison))}"
    return replace(comparison, headline=said)


def _parts(comparison: Comparison) -> Iterator[str]:
    yield from comparison.reasons
    kinds: tuple[Kind, ...] = (*WORSE, "no_longer_run", "fixed")
    for kind in kinds:
        found = len([one for one in comparison.transitions if one.kind == kind])
        if found:
            yield f"{found:,} {KINDS[kind]}"
    judgements = (comparison.memory, comparison.durations)
    told = [judgement.said for judgement in judgements if judgement.word != "not measured"]
    yield from told or ["no number was measured in both"]
    if comparison.base is None:
        yield f"{counted(comparison.candidate.cases, 'case')}, no base"
