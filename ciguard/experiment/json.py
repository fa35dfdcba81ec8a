"""Both answers of `ciguard experiment` for programs: schema 1 of `--format json`. Pure.

docs/experiment.schema.json describes them; every key is there, and null is what is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ciguard.experiment.commit_test import SIDES, key_of, row_verdict_of
from ciguard.experiment.result import row_verdict

if TYPE_CHECKING:
    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.paired_test import Row
    from ciguard.experiment.result import Experiment, Note

SCHEMA: Final = 1


def as_json(experiment: Experiment) -> dict[str, Any]:
    """Two commands."""
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "complete": experiment.is_complete,
        "stopped_because": experiment.stopped_because,
        "failure": _message(experiment.failed),
        "commands": dict(experiment.sides),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.pairs),
        "wall_s": experiment.wall_s,
        "alpha": experiment.level,
        "rows": [_row(row) for row in experiment.rows],
        "notes": [_note(note) for note in experiment.notes],
        "runs": [_run(one) for one in experiment.measurements],
    }


def commits_as_json(result: Experiment) -> dict[str, Any]:
    """Two commits."""
    numbers = ("n", "before", "after", "ratio", "low", "high", "p")
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "complete": result.is_complete,
        "stopped_because": result.stopped_because,
        "failure": _message(result.failed),
        "base": result.sides["a"],
        "head": result.sides["b"],
        "pairs": list(result.pairs),
        "wall_s": result.wall_s,
        "rows": [
            {
                "key": key_of(row.metric)._asdict(),
                "measure": row.metric.name,
                **{name: getattr(row, name) for name in numbers},
                "verdict": row_verdict_of(row),
            }
            for row in result.rows
        ],
        "excluded": [
            {
                "key": key._asdict(),
                "side": SIDES[one.side],
                "outcome": one.outcome,
                "message": one.message,
            }
            for key, one in result.exclusions.items()
        ],
    }


def _message(failed: Measurement | None) -> str | None:
    return failed.failure if failed is not None else None


def _row(row: Row) -> dict[str, Any]:
    numbers = ("n", "before", "after", "ratio", "low", "high", "p", "noise")
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


def _note(note: Note) -> dict[str, Any]:
    return {
        "kind": note.kind,
        "condition": note.condition,
        "metrics": [_metric(metric) for metric in note.metrics],
        "side": note.side,
    }


def _run(one: Measurement) -> dict[str, Any]:
    step = one.step
    return {
        "condition": step.condition,
        "side": step.side,
        "run": step.pair + 1,
        "is_warm": step.is_warm,
        "is_second": step.is_second,
        "failure": one.failure or None,
        "values": [{**_metric(metric), "value": value} for metric, value in one.values.items()],
    }
