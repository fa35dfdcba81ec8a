"""What an experiment comes to: rows, notes on them, and one verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.experiment.loop import alpha_of, pairs_of, series_of
from ciguard.experiment.measurement import RUN_METRICS
from ciguard.experiment.paired_test import MIN_PAIRS, NEGLIGIBLE, evaluate_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.experiment.loop import StopReason
    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.schedule import Design, Side

Verdict = Literal[
    "faster",
    "slower",
    "less memory",
    "more memory",
    "no significant difference",
    "not enough data",
    "too noisy",
    "mixed",
]
NoteKind = Literal["warm_only", "order_effect", "one_side_only"]
GAINS: Final = ("faster", "less memory")
LOSSES: Final = ("slower", "more memory")


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader must know of a row, or of metrics that have none.

    Attributes:
        condition: of the row; 0 where only one side has the metrics.
        side: that has them.
        ratio: of an order effect: the second run of a pair beside the first.
    """

    kind: NoteKind
    metrics: tuple[Metric, ...]
    condition: int = 0
    side: Side | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """The answer.

    Attributes:
        commands: by side.
        pairs: whole ones, by condition.
        level: of the false discoveries, at which the rows were judged.
        failed: the run that stopped it.
        stopped_by: the signal that interrupted it; 0 if none did.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    commands: Mapping[Side, str]
    design: Design
    pairs: tuple[int, ...]
    stopped_because: StopReason
    level: float
    wall_s: float
    failed: Measurement | None = None
    notes: tuple[Note, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    stopped_by: int = 0

    @property
    def is_complete(self) -> bool:
        """Say that it came to its end by itself."""
        return self.stopped_because in ("all runs", "conclusive")


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commands: Mapping[Side, str],
    wall_s: float = 0.0,
    stopped_by: int = 0,
) -> Experiment:
    """Judge what was measured."""
    level = alpha_of(design, why, done)
    rows = evaluate_rows(series_of(done), level)
    pairs = pairs_of(done, len(design.conditions))
    failed = next((one for one in done if one.failure), None)
    verdict: Verdict = "not enough data" if failed is not None else verdict_of(rows, pairs)
    return Experiment(
        verdict=verdict,
        rows=rows,
        commands=commands,
        design=design,
        pairs=pairs,
        stopped_because=why,
        level=level,
        wall_s=wall_s,
        failed=failed,
        notes=tuple(_notes(rows, done)),
        measurements=tuple(done),
        stopped_by=stopped_by,
    )


def row_verdict(row: Row) -> str:
    """What one row says: one of the verdicts, or "higher", "lower" of a number that is neither."""
    if row.n < MIN_PAIRS:
        return "not enough data"
    if not row.differs:
        return (
            "too noisy" if row.is_noisy and not row.is_equivalent else "no significant difference"
        )
    less = (row.ratio or row.after - row.before) < 0
    if row.is_time:
        return "faster" if less else "slower"
    if row.is_memory:
        return "less memory" if less else "more memory"
    return "lower" if less else "higher"


def verdict_of(rows: Sequence[Row], pairs: Sequence[int]) -> Verdict:
    """One verdict over all rows: time is named before memory, and a contradiction is "mixed".

    A gain that only warm iterations have is none: whoever starts the program does not see it.
    """
    row_verdicts = [(row, row_verdict(row)) for row in rows]
    losses = [word for _, word in row_verdicts if word in LOSSES]
    gains = [word for row, word in row_verdicts if word in GAINS and not _is_warm_only(row, rows)]
    if losses and any(word in GAINS for _, word in row_verdicts):
        return "mixed"
    for word in ("faster", "slower", "less memory", "more memory"):
        if word in (*gains, *losses):
            return word
    if not rows or min(pairs, default=0) < MIN_PAIRS:
        return "not enough data"
    if any(word == "too noisy" and row.metric in RUN_METRICS for row, word in row_verdicts):
        return "too noisy"
    return "no significant difference"


def _is_warm_only(row: Row, rows: Sequence[Row]) -> bool:
    """Say that no other row of the condition, cold or of the whole run, has gained as well."""
    if row.metric.iteration_kind != "warm":
        return False
    word = row_verdict(row)
    other_rows = (
        one
        for one in rows
        if one.condition == row.condition and one.metric.iteration_kind != "warm"
    )
    return not any(row_verdict(one) == word for one in other_rows)


def _notes(rows: Sequence[Row], done: Sequence[Measurement]) -> Iterator[Note]:
    for row in rows:
        if row_verdict(row) in GAINS and _is_warm_only(row, rows):
            yield Note("warm_only", (row.metric,), row.condition)
        if row.order_effect is not None and abs(row.order_effect) >= NEGLIGIBLE:
            yield Note("order_effect", (row.metric,), row.condition, ratio=row.order_effect)
    by_side: dict[Side, set[Metric]] = {"a": set(), "b": set()}
    for one in done:
        by_side[one.step.side].update(one.values)
    sides: tuple[tuple[Side, Side], ...] = (("a", "b"), ("b", "a"))
    for side, other in sides:
        only = by_side[side] - by_side[other]
        if only and by_side[other]:
            yield Note("one_side_only", tuple(sorted(only)), side=side)
