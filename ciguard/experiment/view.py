"""An experiment in words: for a terminal, in Markdown's table, for programs. Pure."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.wording import NARROW_INTERVAL, percent
from ciguard.experiment.measurement import PEAK, WALL
from ciguard.experiment.result import coverage_text, row_verdict
from ciguard.experiment.schedule import ALPHA
from ciguard.text import duration, one_line, size, table

if TYPE_CHECKING:
    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.result import Experiment

SCHEMA: Final = 1
COLUMNS: Final = 80
MAX_SHOWN_RATIO: Final = 100.0  # of a: an interval up to there tells no more than one beyond
NAME: Final = 26  # characters of a row's name in the terminal's table
HEADER: Final = ("", "a", "b", "change", "95 % CI", "n", "")
SHOWN_METRICS: Final = (WALL, PEAK)  # of each run, while it goes on
RIGHT: Final = frozenset({1, 2, 3, 4, 5})
ERROR_RATE_NOTE: Final = (
    f"Of 100 experiments without any difference at most {ALPHA * 100:.0f} tell of one, over all "
    "metrics, conditions and early looks together."
)


def value_text(metric: Metric, value: float) -> str:
    """ "12.1 s", "512 MiB", "0.25 tokens/s"."""
    if math.isnan(value):
        return "-"
    if metric.unit == "bytes":
        return size(value)
    if metric.unit == "s":
        return duration(value) if value >= 0.1 else f"{1000 * value:.1f} ms"  # noqa: PLR2004
    return f"{value:.4g} {metric.unit}".rstrip()


def interval_text(row: Row) -> str:
    """ "+8..+12", in percent of a."""
    if row.low is None or row.high is None:
        return "-"
    digits = 0 if row.high - row.low >= NARROW_INTERVAL else 1
    ends = (
        f"{100 * end:+,.{digits}f}" if end < MAX_SHOWN_RATIO else "more"
        for end in (row.low, row.high)
    )
    return "..".join(ends)


def row_cells(row: Row, width: int = 200) -> tuple[str, ...]:
    """The row's cells, by `HEADER`."""
    verdict = row_verdict(row)
    return (
        one_line(row.metric.text, width),
        value_text(row.metric, row.before),
        value_text(row.metric, row.after),
        "-" if row.ratio is None else percent(row.ratio),
        interval_text(row),
        str(row.n),
        "-" if verdict == "no significant difference" else verdict,
    )


def groups(experiment: Experiment) -> list[tuple[str, tuple[Row, ...]]]:
    """The rows by condition, each with its name: "" where nobody gave one."""
    design = experiment.design
    return [
        (design.condition_text(at), tuple(r for r in experiment.rows if r.condition == at))
        for at in range(len(design.conditions))
    ]


def measurement_text(one: Measurement) -> str:
    """ "12.1 s, 204 MiB"; how it failed."""
    if one.hit_budget:
        return "ended: the budget is spent"
    if one.failure:
        return f"failed: {one.failure.partition(chr(10))[0]}"
    seen = [
        value_text(metric, one.values[metric]) for metric in SHOWN_METRICS if metric in one.values
    ]
    return ", ".join(seen)


def as_text(experiment: Experiment) -> str:
    """80 columns; the last line is the verdict."""
    lines = [f"{side}  {one_line(command, 76)}" for side, command in experiment.commands.items()]
    lines += [_wrapped(coverage_text(experiment)), ""]
    for name, rows in groups(experiment):
        lines += [name] if name else []
        cells = [HEADER, *(row_cells(row, NAME) for row in rows)]
        lines += [table(cells, right=RIGHT), ""] if rows else ["no pair of runs", ""]
    if experiment.failure:
        first, *rest = experiment.failure.splitlines()
        lines += [_wrapped(first), *(f"    {line}" for line in rest), ""]
    lines += [*map(_wrapped, experiment.notes), _wrapped(ERROR_RATE_NOTE), ""]
    return "\n".join([*lines, experiment.verdict]) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False)


def as_json(experiment: Experiment) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "complete": experiment.is_complete,
        "ended": experiment.stopped_because,
        "failure": experiment.failure or None,
        "commands": dict(experiment.commands),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.pairs),
        "wall_s": experiment.wall_s,
        "level": experiment.level,
        "rows": [_row(row) for row in experiment.rows],
        "notes": list(experiment.notes),
        "runs": [_run(one) for one in experiment.measurements],
    }


def _row(row: Row) -> dict[str, Any]:
    numbers = ("n", "before", "after", "ratio", "low", "high", "p", "noise", "order")
    return {
        "condition": row.condition,
        **_metric(row.metric),
        **{name: getattr(row, name) for name in numbers},
        "verdict": row_verdict(row),
    }


def _metric(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "key": dict(metric.key),
        "iterations": metric.iteration_kind or None,
    }


def _run(one: Measurement) -> dict[str, Any]:
    step = one.step
    return {
        "condition": step.condition,
        "side": step.side,
        "run": step.pair + 1,
        "warm": step.is_warm,
        "second": step.is_second,
        "failure": one.failure or None,
        "values": [{**_metric(metric), "value": value} for metric, value in one.values.items()],
    }
