"""An experiment from its first run to its verdict. Pure: who measures is handed in.

It is over when all runs were made, when it is clear, when the next pair would not fit in what is
left of the budget, or when a run fails: a failing program does less, or other things.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.experiment.measurement import RUN_METRICS
from ciguard.experiment.paired_test import MIN_PAIRS, Series, evaluate_rows
from ciguard.experiment.schedule import final_alpha, interim_analyses, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.schedule import Design, Side, Step
    from ciguard.model import CaseKey, Outcome

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
NoteKind = Literal["warm_only", "one_side_only"]
StopReason = Literal["all runs", "conclusive", "budget", "failed", "interrupted"]
TIME_MARGIN: Final = 1.1  # of the longest run so far: the next one may take a little longer
GAINS: Final = ("faster", "less memory")
LOSSES: Final = ("slower", "more memory")


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader must know of a row, or of metrics that have none.

    Attributes:
        condition: of the row; 0 where only one side has the metrics.
        side: that has them.
    """

    kind: NoteKind
    metrics: tuple[Metric, ...]
    condition: int = 0
    side: Side | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a case has no numbers: how it ended on a side; None without a result."""

    side: Side
    outcome: Outcome | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """The answer.

    Attributes:
        sides: the command, or the commit, of each.
        pairs: whole ones, by condition.
        level: of the false discoveries, at which the rows were judged.
        is_complete: of commands, it came to its end by itself; of commits, nothing stopped it, and
            enough was run to judge by.
        failed: the run that stopped it.
        notes, measurements: of commands.
        exclusions: of commits, why a case has no row.
        units: of commits, how many were asked for.
        stopped_by: the signal that interrupted it; 0 if none did.
    """

    verdict: Verdict
    rows: tuple[Row, ...]
    sides: Mapping[Side, str]
    design: Design
    pairs: tuple[int, ...]
    stopped_because: StopReason
    level: float
    wall_s: float
    is_complete: bool
    failed: Measurement | None = None
    notes: tuple[Note, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    exclusions: Mapping[CaseKey, Exclusion] = field(default_factory=dict)
    units: int = 0
    stopped_by: int = 0


def run_design(
    design: Design,
    done: list[Measurement],
    measure: Callable[[Step], Measurement],
    remaining_s: Callable[[], float],
    *,
    may_stop_early: bool = True,
) -> StopReason:
    """Make one run after the other.

    Args:
        done: takes in what was measured, and has it whatever `measure` raises.
        remaining_s: what is left of the budget.
        may_stop_early: whether it may be over early because it is clear.
    """
    levels = interim_analyses(design.runs) if may_stop_early else {}
    for step in steps(design):
        if not step.is_second and _next_pair_s(done, step.condition) > remaining_s():
            return "budget"
        begins_round = not (step.is_second or step.condition or step.is_warm)
        if begins_round and step.pair in levels and is_conclusive(done, levels[step.pair]):
            return "conclusive"
        measured = measure(step)
        done.append(measured)
        if measured.hit_budget:
            return "budget"
        if measured.failure:
            return "failed"
    return "all runs"


def alpha_of(design: Design, why: StopReason, done: Sequence[Measurement]) -> float:
    """The level at which the rows are judged when it is over."""
    levels = interim_analyses(design.runs)
    if why != "conclusive":
        return final_alpha(design.runs)
    return levels[max(one.step.pair for one in done if not one.step.is_warm) + 1]


def is_conclusive(done: Sequence[Measurement], level: float) -> bool:
    """Say that every row differs, or does not differ by anything that matters."""
    rows = evaluate_rows(series_of(done), level)
    return bool(rows) and all(row.differs or row.is_equivalent for row in rows)


def series_of(done: Iterable[Measurement]) -> list[Series]:
    """The rows: each metric of each condition, from the pairs in which both sides have it."""
    pairs: dict[tuple[int, int], dict[Side, Measurement]] = {}
    for one in done:
        if not one.step.is_warm:
            pairs.setdefault((one.step.condition, one.step.pair), {})[one.step.side] = one
    cells: dict[tuple[int, Metric], list[tuple[float, float]]] = {}
    order: dict[Metric, None] = {}
    for (condition, _), pair in sorted(pairs.items()):
        if len(pair) < 2:  # noqa: PLR2004  # a pair has two
            continue
        a, b = pair["a"], pair["b"]
        for metric in a.values:
            order[metric] = None
            if metric in b.values:
                value = (a.values[metric], b.values[metric])
                cells.setdefault((condition, metric), []).append(value)
    place = {metric: at for at, metric in enumerate(order)}
    found = []
    for (condition, metric), values in sorted(
        cells.items(), key=lambda item: (item[0][0], place[item[0][1]])
    ):
        a_, b_ = np.array(values).T
        found.append(Series(condition, metric, a_, b_))
    return found


def pairs_of(done: Iterable[Measurement], conditions: int) -> tuple[int, ...]:
    """How many whole pairs each condition has."""
    sides = [0] * conditions
    for one in done:
        if not one.step.is_warm and one.values:
            sides[one.step.condition] += 1
    return tuple(number // 2 for number in sides)


def _next_pair_s(done: Sequence[Measurement], condition: int) -> float:
    longest: dict[Side, float] = {}
    for one in done:
        if one.step.condition == condition:
            longest[one.step.side] = max(one.duration_s, longest.get(one.step.side, 0.0))
    return TIME_MARGIN * sum(longest.values())


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
        sides=commands,
        design=design,
        pairs=pairs,
        stopped_because=why,
        level=level,
        wall_s=wall_s,
        is_complete=why in ("all runs", "conclusive"),
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
    by_side: dict[Side, set[Metric]] = {"a": set(), "b": set()}
    for one in done:
        by_side[one.step.side].update(one.values)
    sides: tuple[tuple[Side, Side], ...] = (("a", "b"), ("b", "a"))
    for side, other in sides:
        only = by_side[side] - by_side[other]
        if only and by_side[other]:
            yield Note("one_side_only", tuple(sorted(only)), side=side)
