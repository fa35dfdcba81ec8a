"""Both answers of `ciguard experiment` for programs: schema 1 of `--format json`. Pure.

experiment.schema.json describes them; every key is there, and null is what is not known.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ciguard.experiment.commit_test import key_of, row_verdict_of
from ciguard.experiment.result import Experiment, RowVerdict, row_verdict

if TYPE_CHECKING:
    from ciguard.experiment.measurement import Measurement, Metric
    from ciguard.experiment.paired_test import Row

SCHEMA: Final = 1


def as_json(experiment: Experiment) -> dict[str, Any]:
    """Two commands or more."""
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "verdicts": dict(experiment.verdicts),
        "baseline": experiment.design.arms[0],
        "complete": experiment.is_complete,
        "stopped_because": experiment.stopped_because,
        "failure": _message(experiment.failed),
        "commands": dict(experiment.arms),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.blocks),
        "wall_s": experiment.wall_s,
        "alpha": experiment.level,
        "rows": [_row(row, experiment.row_verdict(row)) for row in experiment.rows],
        "unpaired": [
            {
                "arm": one.arm,
                "missing_on": one.missing_on,
                "metrics": [_metric(metric) for metric in one.metrics],
            }
            for one in experiment.unpaired
        ],
        "cpu_time": [
            {
                "condition": one.cpu.condition,
                "arm": one.cpu.arm,
                "external_cpu_ratio": one.external_cpu_ratio,
                **{name: getattr(one.cpu, name) for name in ("n", "ratio", "low", "high", "p")},
                "verdict": row_verdict(one.cpu),
            }
            for one in experiment.cpu_answers
        ],
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
        "base": result.arms["base"],
        "head": result.arms["head"],
        "pairs": list(result.blocks),
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
                "arm": one.arm,
                "outcome": one.outcome,
                "message": one.message,
            }
            for key, one in result.exclusions.items()
        ],
    }


def _message(failed: Measurement | None) -> str | None:
    return failed.failure if failed is not None else None


def _row(row: Row, verdict: RowVerdict) -> dict[str, Any]:
    numbers = ("n", "before", "after", "ratio", "low", "high", "p", "noise")
    return {
        "condition": row.condition,
        "arm": row.arm,
        **_metric(row.metric),
        **{name: getattr(row, name) for name in numbers},
        "verdict": verdict,
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
        "arm": step.arm,
        "run": step.block + 1,
        "position": step.position + 1,
        "is_warm": step.is_warm,
        "failure": one.failure or None,
        "machine": asdict(one.machine),
        "invalid_metrics": list(one.invalid_metrics),
        "values": [{**_metric(metric), "value": value} for metric, value in one.values.items()],
    }
