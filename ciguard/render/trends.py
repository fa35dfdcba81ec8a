"""The measures of the default branch over its runs, each with the change that it had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import multimode
from typing import Final

from ciguard.render.change_point import find_change
from ciguard.render.charts import Trend
from ciguard.render.pages import RunRow

# By name, whose end is the unit: title, and the value of a run with its cells.
MEASURES: Final[Mapping[str, tuple[str, Callable[[RunRow], float | None]]]] = {
    "makespan_s": ("Makespan", lambda run: run.makespan_s),
    "bound_s": ("Lower bound", lambda run: run.bound_s),
    "tests_s": ("Time of all tests", lambda run: _known(run, "wall_s", sum)),
    "probe_s": ("Time of a CPU task", lambda run: (run.facts or {}).get("probe_s")),
    "peak_bytes": ("Largest peak", lambda run: _known(run, "peak_bytes", max)),
    "price_usd": ("Price", lambda run: run.price_usd),
}


def _known(run: RunRow, name: str, reduce: Callable[[list[float]], float]) -> float | None:
    values = [value for cell in run.cells if (value := getattr(cell, name)) is not None]
    return reduce(values) if values else None


def find_trends(runs: Sequence[RunRow]) -> tuple[Trend, ...]:
    lines = [(name, title, tuple(map(value, runs))) for name, (title, value) in MEASURES.items()]
    return tuple(Trend(*line, find_change(line[-1])) for line in lines)


def charted_runs(runs: Iterable[RunRow], from_ms: int) -> list[RunRow]:
    """Return the complete runs since a time, of the workflow with most of them, by age."""
    complete = [run for run in runs if run.is_complete and run.started_at_ms >= from_ms]
    workflow = multimode(run.workflow for run in complete)[:1]
    return sorted((run for run in complete if run.workflow in workflow), key=lambda run: run.key)
