"""The JSON of experiments with commands and with commits: schema 1 of `--format json`. Pure.

experiment.schema.json describes both; every key is present, and null means unknown.
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
    return {
        "schema": SCHEMA,
        "verdict": experiment.verdict,
        "verdicts": dict(experiment.verdicts),
        "baseline": experiment.design.arms[0],
        "complete": experiment.is_complete,
        "stopped_because": experiment.stopped_because,
        "failure": experiment.failed and experiment.failed.failure,
        "commands": dict(experiment.arms),
        "conditions": [dict(condition) for condition in experiment.design.conditions],
        "planned_runs": experiment.design.runs,
        "pairs": list(experiment.blocks),
        "wall_s": experiment.wall_s,
        "alpha": experiment.level,
        "rows": [_row(row, experiment.row_verdict(row)) for row in experiment.rows],
        "unpaired": [
            {
                "arm": unpaired.arm,
                "missing_on": unpaired.missing_on,
                "metrics": [_metric(metric) for metric in unpaired.metrics],
            }
            for unpaired in experiment.unpaired
        ],
        "cpu_time": [
            {
                "condition": answer.cpu.condition,
                "arm": answer.cpu.arm,
                "external_cpu_ratio": answer.external_cpu_ratio,
                **{name: getattr(answer.cpu, name) for name in ("n", "ratio", "low", "high", "p")},
                "verdict": row_verdict(answer.cpu),
            }
            for answer in experiment.cpu_answers
        ],
        "runs": [_run(run) for run in experiment.measurements],
    }


def commits_as_json(result: Experiment) -> dict[str, Any]:
    numbers = ("n", "before", "after", "ratio", "low", "high", "p")
    return {
        "schema": SCHEMA,
        "verdict": result.verdict,
        "complete": result.is_complete,
        "stopped_because": result.stopped_because,
        "failure": result.failed and result.failed.failure,
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
            {"key": key._asdict(), **asdict(exclusion)}
            for key, exclusion in result.exclusions.items()
        ],
    }


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


def _run(run: Measurement) -> dict[str, Any]:
    step, use = run.step, run.machine
    return {
        "condition": step.condition,
        "arm": step.arm,
        "run": step.block + 1,
        "position": step.position + 1,
        "is_warm": step.is_warm,
        "failure": run.failure or None,
        "machine": {
            "least_available_bytes": use.least_available and use.least_available.size_bytes,
            "swap_growth_bytes": use.swap_growth and use.swap_growth.size_bytes,
            "stalled_s": use.stalls and use.stalls.stalled_s,
            "external_cpu_ratio": run.external_cpu_ratio,
        },
        "invalid_metrics": list(run.invalid_metrics),
        "values": [{**_metric(metric), "value": value} for metric, value in run.values.items()],
    }
