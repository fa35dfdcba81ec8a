"""An experiment in words: for a terminal, in Markdown's table, for programs. Pure."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

from ciguard.compare.experiment.design import LEVEL
from ciguard.compare.experiment.measured import PEAK, WALL
from ciguard.compare.experiment.outcome import row_verdict, why_words
from ciguard.compare.words import NARROW, percent
from ciguard.text import duration, one_line, size, table

if TYPE_CHECKING:
    from ciguard.compare.experiment.measured import Measured, Metric
    from ciguard.compare.experiment.outcome import Experiment
    from ciguard.compare.experiment.paired import Row

SCHEMA: Final = 1
COLUMNS: Final = 80
MANY_TIMES: Final = 100.0  # of a: an interval up to there tells no more than one beyond
NAME: Final = 26  # characters of a row's name in the terminal's table
HEADER: Final = ("", "a", "b", "change", "95 % CI", "n", "")
SHOWN: Final = (WALL, PEAK)  # of each run, while it goes on
RIGHT: Final = frozenset({1, 2, 3, 4, 5})
RATE: Final = (
    f"Of 100 experiments without any difference at most {LEVEL * 100:.0f} tell of one, over all "
    "metrics, conditions and early looks together."
)


def value_words(metric: Metric, value: float) -> str:
    """ "12.1 s", "512 MiB", "0.25 tokens/s"."""
    if math.isnan(value):
        return "-"
    if metric.unit == "bytes":
        return size(value)
    if metric.unit == "s":
        return duration(value) if value >= 0.1 else f"{1000 * value:.1f} ms"  # noqa: PLR2004
    return f"{value:.4g} {metric.unit}".rstrip()


def interval_words(row: Row) -> str:
    """ "+8..+12", in percent of a."""
    if row.low is None or row.high is None:
        return "-"
    digits = 0 if row.high - row.low >= NARROW else 1
    ends = (
        f"{100 * end:+,.{digits}f}" if end < MANY_TIMES else "more" for end in (row.low, row.high)
    )
    return "..".join(ends)


def row_words(row: Row, width: int = 200) -> tuple[str, ...]:
    """The row's cells, by `HEADER`."""
    said = row_verdict(row)
    return (
        one_line(row.metric.words, width),
        value_words(row.metric, row.before),
        value_words(row.metric, row.after),
        "-" if row.ratio is None else percent(row.ratio),
        interval_words(row),
        str(row.n),
        "-" if said == "no significant difference" else said,
    )


def groups(experiment: Experiment) -> list[tuple[str, tuple[Row, ...]]]:
    """The rows by condition, each with its name: "" where nobody gave one."""
    design = experiment.design
    return [
        (design.condition_words(at), tuple(r for r in experiment.rows if r.condition == at))
        for at in range(len(design.conditions))
    ]


def run_words(one: Measured) -> str:
    """ "12.1 s, 204 MiB"; how it failed."""
    if one.is_cut:
        return "ended: the budget is spent"
    if one.failure:
        return f"failed: {one.failure.partition(chr(10))[0]}"
    seen = [value_words(metric, one.values[metric]) for metric in SHOWN if metric in one.values]
    return ", ".join(seen)


def as_text(experiment: Experiment) -> str:
    """80 columns; the last line is the verdict."""
    lines = [f"{side}  {one_line(said, 76)}" for side, said in experiment.commands.items()]
    lines += [_wrapped(why_words(experiment)), ""]
    for name, rows in groups(experiment):
        lines += [name] if name else []
        cells = [HEADER, *(row_words(row, NAME) for row in rows)]
        lines += [table(cells, right=RIGHT), ""] if rows else ["no pair of runs", ""]
    if experiment.failure:
        first, *rest = experiment.failure.splitlines()
        lines += [_wrapped(first), *(f"    {line}" for line in rest), ""]
    lines += [*map(_wrapped, experiment.notes), _wrapped(RATE), ""]
    return "\n".join([*lines, experiment.verdict]) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, COLUMNS, break_on_hyphens=False)


def as_json(experiment: Experiment) -> dict[str, Any]:
    """Every key is there; null is what is not known."""
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "complete": experiment.is_complete,
        "ended": experiment.why,
        "failure": experiment.failure or None,
        "commands": dict(experiment.commands),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.pairs),
        "wall_s": experiment.wall_s,
        "level": experiment.level,
        "rows": [_row(row) for row in experiment.rows],
        "notes": list(experiment.notes),
        "runs": [_run(one) for one in experiment.done],
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
        "iterations": metric.part or None,
    }


def _run(one: Measured) -> dict[str, Any]:
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
