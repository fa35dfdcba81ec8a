"""An experiment from its first run to its last. Pure: who measures is handed in.

It is over when all runs were made, when it is clear, when the next pair would not fit in what is
left of the budget, or when a run fails: a failing program does less, or other things.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.experiment.paired_test import Series, evaluate_rows
from ciguard.experiment.schedule import final_alpha, interim_analyses, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.schedule import Design, Side, Step

StopReason = Literal["all runs", "conclusive", "budget", "failed", "interrupted"]
Pair = dict["Side", "Measurement"]
TIME_MARGIN: Final = 1.1  # of the longest run so far: the next one may take a little longer


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
        left_s: what is left of the budget.
        looking: whether it may be over early because it is clear.
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
    pairs: dict[tuple[int, int], Pair] = {}
    for one in done:
        if not one.step.is_warm:
            pairs.setdefault((one.step.condition, one.step.pair), {})[one.step.side] = one
    cells: dict[tuple[int, Metric], list[tuple[float, float, bool]]] = {}
    order: dict[Metric, None] = {}
    for (condition, _), pair in sorted(pairs.items()):
        if len(pair) < 2:  # noqa: PLR2004  # a pair has two
            continue
        a, b = pair["a"], pair["b"]
        for metric in a.values:
            order[metric] = None
            if metric in b.values:
                value = (a.values[metric], b.values[metric], not a.step.is_second)
                cells.setdefault((condition, metric), []).append(value)
    place = {metric: at for at, metric in enumerate(order)}
    found = []
    for (condition, metric), values in sorted(
        cells.items(), key=lambda item: (item[0][0], place[item[0][1]])
    ):
        a_, b_, first = zip(*values, strict=True)
        found.append(Series(condition, metric, np.array(a_), np.array(b_), np.array(first)))
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
