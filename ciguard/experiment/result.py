"""What an experiment comes to: rows, what a reader must know of them, and one verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ciguard.compare.wording import percent
from ciguard.experiment.loop import alpha_of, pairs_of, series_of
from ciguard.experiment.measurement import RUN_METRICS
from ciguard.experiment.paired_test import MIN_PAIRS, NEGLIGIBLE, evaluate_rows
from ciguard.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ciguard.experiment.loop import StopReason
    from ciguard.experiment.measurement import Measurement
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
GAINS: Final = ("faster", "less memory")
LOSSES: Final = ("slower", "more memory")


@dataclass(frozen=True, slots=True)
class Experiment:
    """The answer.

    Attributes:
        commands: by side.
        pairs: whole ones, by condition.
        why: with what it was over. failure: of the run with which it was, in words.
        level: of the false discoveries, at which the rows were judged.
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
    failure: str = ""
    notes: tuple[str, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    stopped_by: int = 0

    @property
    def is_complete(self) -> bool:
        """Say that it came to its end by itself."""
        return self.stopped_because in ("all runs", "clear")


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
    failure = next(
        (f"{design.step_text(one.step)}: {one.failure}" for one in done if one.failure), ""
    )
    verdict: Verdict = "not enough data" if failure else verdict_of(rows, pairs)
    return Experiment(
        verdict=verdict,
        rows=rows,
        commands=commands,
        design=design,
        pairs=pairs,
        stopped_because=why,
        level=level,
        wall_s=wall_s,
        failure=failure,
        notes=tuple(_notes(design, rows, done)),
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


def _notes(design: Design, rows: Sequence[Row], done: Sequence[Measurement]) -> Iterator[str]:
    for row in rows:
        name = f"{row.metric.text}{design.condition_suffix(row.condition)}"
        if row_verdict(row) in GAINS and _is_warm_only(row, rows):
            yield f"{name}: gained in warm iterations only, which is no headline."
        if row.order is not None and abs(row.order) >= NEGLIGIBLE:
            yield (
                f"{name}: the second run of a pair differs by {percent(row.order)} from the first, "
                "whichever side it is; that is taken out. More warm runs (--warm) may help."
            )
    for side, other in (("a", "b"), ("b", "a")):
        own = {metric.text for one in done if one.step.side == side for metric in one.values}
        other_metrics = {
            metric.text for one in done if one.step.side == other for metric in one.values
        }
        only = sorted(own - other_metrics)
        if only and other_metrics:
            named = ", ".join(only[:3]) + " and more" * (len(only) > 3)  # noqa: PLR2004
            yield f"Measured of {side} only, so not compared: {named}."


def coverage_text(experiment: Experiment) -> str:
    """ "10 runs of each, in 4 min 02 s", and why there are not more."""
    runs = experiment.pairs
    least, most = min(runs), max(runs)
    number = count_of(most, "run") if least == most else f"{least} to {most} runs"
    conditions = len(experiment.design.conditions)
    warm = (
        sum(one.step.is_warm and bool(one.values) for one in experiment.measurements)
        // 2
        // conditions
    )
    text = f"{number} of each side" + " in each condition" * (conditions > 1)
    text += f", {count_of(warm, 'warm run')} before" if warm else ""
    text += f", in {duration(experiment.wall_s)}"
    reasons = {
        "all runs": "",
        "clear": "; clear by then",
        "budget": "; then the budget was spent",
        "failed": "; ended by a run that failed",
        "interrupted": "; incomplete: interrupted",
    }
    return text + reasons[experiment.stopped_because]
