"""The confirmation of suspects by an experiment on both commits: its JSON, and its effect. Pure.

The author of the change ran the experiment, so its result is foreign data: it can only make
suspects of this comparison confirmed or not confirmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ciguard.compare.comparison import Comparison, Note, with_state
from ciguard.compare.json import read_document
from ciguard.compare.measure_changes import MeasureVerdict, classify_measure
from ciguard.compare.statistics import Tier
from ciguard.errors import InputError
from ciguard.model import CaseKey
from ciguard.text import one_line

MAX_BYTES: Final = 1 << 24  # 80 suspects take a few KiB
REGRESSION_VERDICTS: Final = ("slower", "more memory")
TIER_ORDER: Final[tuple[Tier, ...]] = ("confirmed", "suspect", "not confirmed", "unjudged")
FIX: Final = (
    "make it with `ciguard experiment --base --head --units suspects --format json -o FILE`"
)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The result of an experiment.

    Attributes:
        tiers: by case and measure, the tier of each judged suspect.
        runs: number of runs of each commit.
        head: the judged commit.
        failure: why no suspect was judged, otherwise "".
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


def tier_of(verdict: str) -> Tier:
    """Return the tier of a judged suspect by the verdict on its row."""
    return "confirmed" if verdict in REGRESSION_VERDICTS else "not confirmed"


def read_confirmation(content: bytes, source: str) -> Confirmation:
    """Read the answer of `ciguard experiment --base --head --format json`.

    Raises:
        InputError: the content is another document, or of a newer schema.
    """
    if len(content) > MAX_BYTES:
        raise InputError(f"{len(content):,} bytes, at most {MAX_BYTES:,}", where=source, fix=FIX)
    answer = read_document(content, source, _Answer.model_validate, noun="confirmation", fix=FIX)
    tiers: dict[tuple[CaseKey, str], Tier] = {}
    for row in answer.rows:
        if row.p is not None:
            tiers[row.key, row.measure] = tier_of(row.verdict)
    failure = "" if answer.complete else one_line(answer.failure or answer.stopped_because, 200)
    return Confirmation(tiers if answer.complete else {}, min(answer.pairs), answer.head, failure)


def apply_confirmation(comparison: Comparison, confirmed: Confirmation) -> Comparison:
    """Return the comparison with judged suspects confirmed or not; others stay suspects."""
    candidate = comparison.candidate.sha
    if confirmed.head and candidate and confirmed.head != candidate:
        note = Note("confirmation_of_other_commit", detail=one_line(confirmed.head, 12))
        return replace(comparison, notes=(*comparison.notes, note))
    if confirmed.failure:
        note = Note("confirmation_failed", detail=confirmed.failure)
        return replace(comparison, notes=(*comparison.notes, note))
    tiers = confirmed.tiers
    cases = [(suspect.key, suspect.measure) for suspect in comparison.suspects]
    known = [tiers[case] for case in cases if case in tiers]
    memory = _apply_to_verdict(comparison.memory, tiers)
    durations = _apply_to_verdict(comparison.durations, tiers)
    note = Note("confirmation", known.count("confirmed"), len(known), runs=confirmed.runs)
    return with_state(
        replace(comparison, memory=memory, durations=durations, notes=(*comparison.notes, note))
    )


def _apply_to_verdict(
    verdict: MeasureVerdict, tiers: Mapping[tuple[CaseKey, str], Tier]
) -> MeasureVerdict:
    losses = tuple(
        replace(loss, tier=tiers.get((loss.key, loss.measure), loss.tier))
        if loss.tier == "suspect"
        else loss
        for loss in verdict.losses
    )
    if losses == verdict.losses:
        return verdict
    losses = tuple(sorted(losses, key=lambda loss: TIER_ORDER.index(loss.tier)))
    judged = sum(loss.tier == "suspect" for loss in verdict.losses)
    suspects = verdict.suspects - judged + sum(loss.tier == "suspect" for loss in losses)
    state = classify_measure(verdict.judged_tests, verdict.judged_tests, losses, verdict.gains)
    return replace(verdict, losses=losses, suspects=suspects, verdict=state)
