"""What running suspects again on both commits said: read from its JSON, put into a comparison.

Whoever proposed the change ran them, so it is data: it makes suspects of this comparison confirmed
or not, and can do nothing else. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ciguard.compare.comparison import Comparison, Note, with_state
from ciguard.compare.json import read_document
from ciguard.compare.measure_changes import MeasureVerdict, classify_measure
from ciguard.errors import InputError
from ciguard.model import CaseKey
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.compare.statistics import Tier

MAX_BYTES: Final = 1 << 24  # of 80 suspects some KiB
REGRESSION_VERDICTS: Final = ("slower", "more memory")
TIER_ORDER: Final[tuple[Tier, ...]] = ("confirmed", "suspect", "not confirmed", "unjudged")
FIX: Final = (
    "make it with `ciguard experiment --base --head --units suspects --format json -o FILE`"
)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What came out: of each suspect that was judged its tier, by case and measure.

    `head` is the commit that was judged; `failure` says why nothing was.
    """

    tiers: Mapping[tuple[CaseKey, str], Tier]
    runs: int
    head: str = ""
    failure: str = ""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Row(_Read):
    key: CaseKey
    measure: Literal["wall_s", "peak_delta_bytes"]
    p: float | None
    verdict: str


class _Answer(_Read):
    complete: bool
    stopped_because: str
    failure: str | None
    head: str
    pairs: Annotated[tuple[Annotated[int, Field(ge=0, le=1000)], ...], Field(min_length=1)]
    rows: tuple[_Row, ...]


def read_confirmation(content: bytes, source: str) -> Confirmation:
    """Read the answer of `ciguard experiment --base --head --format json`.

    Raises:
        InputError: it is that not, or of a newer schema.
    """
    if len(content) > MAX_BYTES:
        raise InputError(f"{len(content):,} bytes, at most {MAX_BYTES:,}", where=source, fix=FIX)
    found = read_document(content, source, _Answer.model_validate, noun="confirmation", fix=FIX)
    tiers: dict[tuple[CaseKey, str], Tier] = {}
    for row in found.rows:
        if row.p is not None:
            tiers[row.key, row.measure] = (
                "confirmed" if row.verdict in REGRESSION_VERDICTS else "not confirmed"
            )
    why = "" if found.complete else one_line(found.failure or found.stopped_because, 200)
    return Confirmation(tiers if found.complete else {}, min(found.pairs), found.head, why)


def apply_confirmation(comparison: Comparison, confirmed: Confirmation) -> Comparison:
    """The comparison with its suspects confirmed, or not; what was not judged stays a suspect."""
    candidate = comparison.candidate.sha
    if confirmed.head and candidate and confirmed.head != candidate:
        note = Note("confirmation_of_other_commit", detail=one_line(confirmed.head, 12))
        return replace(comparison, notes=(*comparison.notes, note))
    if confirmed.failure:
        note = Note("confirmation_failed", detail=confirmed.failure)
        return replace(comparison, notes=(*comparison.notes, note))
    tiers = confirmed.tiers
    known = [
        tiers[one.key, one.measure]
        for one in comparison.suspects
        if (one.key, one.measure) in tiers
    ]
    memory, durations = (
        _apply_to_verdict(one, tiers) for one in (comparison.memory, comparison.durations)
    )
    note = Note("confirmation", known.count("confirmed"), len(known), runs=confirmed.runs)
    return with_state(
        replace(comparison, memory=memory, durations=durations, notes=(*comparison.notes, note))
    )


def _apply_to_verdict(
    verdict: MeasureVerdict, tiers: Mapping[tuple[CaseKey, str], Tier]
) -> MeasureVerdict:
    losses = tuple(
        replace(one, tier=tiers.get((one.key, one.measure), one.tier))
        if one.tier == "suspect"
        else one
        for one in verdict.losses
    )
    if losses == verdict.losses:
        return verdict
    losses = tuple(sorted(losses, key=lambda one: TIER_ORDER.index(one.tier)))
    over = sum(one.tier == "suspect" for one in verdict.losses)
    suspects = verdict.suspects - over + sum(one.tier == "suspect" for one in losses)
    word = classify_measure(verdict.judged_tests, verdict.judged_tests, losses, verdict.gains)
    return replace(verdict, losses=losses, suspects=suspects, verdict=word)
