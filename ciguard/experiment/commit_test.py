"""Tests that run again on two commits, base and head in turn: their plan, and the judgement. Pure.

A difference is confirmed by 5 alternating runs if a paired t-test finds it, with a rate of false
discoveries of 5 % over all times (and over all memory), and if the median changed by 5 % (memory: 3
% and 4 MiB). The scale of the t-test is moderated over all cases, because the spread of one case
over so few runs is too uncertain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec import plan_file as codec
from ciguard.compare.statistics import (
    OFFSET_BYTES,
    PRIOR,
    RESOLUTION_BYTES,
    Thresholds,
    benjamini_hochberg,
    moderated_scale,
)
from ciguard.document import first_line
from ciguard.experiment.measurement import Measurement, Metric
from ciguard.experiment.paired_test import Row, Series, keep_significant, with_interval
from ciguard.experiment.result import Exclusion, Experiment, blocks_of, row_verdict, series_of
from ciguard.model import (
    BAD_OUTCOMES,
    CaseKey,
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    Shard,
)
from ciguard.text import one_line

if TYPE_CHECKING:
    from ciguard.compare.statistics import Floats
    from ciguard.experiment.result import StopReason, Verdict
    from ciguard.experiment.schedule import Design
    from ciguard.model import Record, Suite, UnitKey

SHARD: Final = "1"
POOL: Final = "here"
MEASURES: Final = ("wall_s", "peak_delta_bytes")
REASON: Final = 100  # characters of the reason why a case is not judged
ALPHA: Final = 0.05
ARMS: Final = ("base", "head")
GAINS: Final = ("faster", "less memory")
LOSSES: Final = ("slower", "more memory")
MIN_PAIRS: Final = 3  # without so many there is no verdict
TIME_THRESHOLDS: Final = Thresholds(z=0.0, ratio=0.05, amount=0.0)
MEMORY_THRESHOLDS: Final = Thresholds(z=0.0, ratio=0.03, amount=4 * 1024 * 1024)
MIN_WALL_S: Final = 0.050  # a shorter test is no regression
RESOLUTION: Final = 0.001  # of a time


@dataclass(frozen=True, slots=True)
class Request:
    """The requested units, and the requested rows; None for all rows of these units."""

    units: tuple[UnitKey, ...]
    rows: frozenset[Metric] | None = None


def metric_of(key: CaseKey, measure: str) -> Metric:
    parts = tuple((name, value) for name, value in key._asdict().items())
    return Metric(measure, "s" if measure == "wall_s" else "bytes", parts)


def key_of(metric: Metric) -> CaseKey:
    return CaseKey(**dict(metric.key))


def request_of(suspects: Iterable[tuple[CaseKey, str]]) -> Request:
    """Request the units of cases, with a row for each case and measure."""
    rows = [metric_of(key, measure) for key, measure in suspects]
    units = dict.fromkeys(key_of(row).unit_key for row in rows)
    return Request(tuple(units), frozenset(rows))


def plan_of(units: Sequence[UnitKey], suites: Mapping[str, Suite]) -> bytes:
    """Encode a plan with one leg that runs these units in order, in one process for each suite."""
    shard = Shard(
        key=SHARD,
        pool=POOL,
        units=tuple(
            PlannedUnit(
                *(unit.unit, unit.suite, unit.variant),
                has_history=False,
                timeout_s=suites[unit.suite].timeout_s,
            )
            for unit in units
        ),
        predicted=Prediction(0.0, 0.0),
    )
    return codec.encode(
        Plan(
            id="",
            suites={name: suites[name] for name in sorted({unit.suite for unit in units})},
            pools={POOL: Pool(runs_on="")},
            policy=LegPolicy(),
            shards=(shard,),
            lower_bound_s=0.0,
            gap=0.0,
            inventory=InventorySummary(collected=len(units), files={}, hash=""),
        )
    )


def values_of(record: Record) -> dict[Metric, float]:
    """Return times and peak deltas of the cases that passed in every try."""
    failed_keys = {result.key for result in record.results if result.outcome in BAD_OUTCOMES}
    values: dict[Metric, float] = {}
    for result in record.results:
        if result.outcome != "passed" or result.key in failed_keys:
            continue
        for measure in MEASURES:
            value = getattr(result, measure)
            if value is not None:
                values[metric_of(result.key, measure)] = float(value)
    return values


def exclusions(record: Record, units: Iterable[UnitKey], arm: str) -> dict[CaseKey, Exclusion]:
    """Return why cases, or units without any case, are not judged."""
    reasons = {
        result.key: Exclusion(
            arm, result.outcome, one_line(first_line(result.message or ""), REASON)
        )
        for result in record.results
        if result.outcome != "passed"
    }
    reported_units = {result.key.unit_key for result in record.results}
    lost = {unit: CaseKey(*unit, unit.unit) for unit in units if unit not in reported_units}
    return {**reasons, **dict.fromkeys(lost.values(), Exclusion(arm))}


def failure_of(records: Collection[Record], output_text: str) -> str:
    """Return why a leg has no values; "" if it completed, even with failed tests."""
    lines = [one_line(line) for line in output_text.strip().splitlines()[-5:]]
    if not records:
        return "\n".join(["no record", *lines])
    record = next(iter(records))
    ending = record.end.ending if record.end is not None else "unknown"
    # Missing units make the leg incomplete, although it ended by itself.
    if ending != "completed" or record.damage or not record.results:
        return "\n".join([record.damage[0] if record.damage else f"ended: {ending}", *lines])
    return ""


def evaluate_rows(series: Sequence[Series]) -> tuple[Row, ...]:
    """Test each series; `differs` means confirmed, slower or faster.

    Times and memory are separate families: discoveries in one do not relax the test of the other.
    """
    families = [[each for each in series if each.metric.unit == unit] for unit in ("s", "bytes")]
    return tuple(
        row
        for family in families
        for row in keep_significant(_test_family(family), benjamini_hochberg, ALPHA)
    )


def _test_family(series: Sequence[Series]) -> list[Row]:
    """Test series without control of false discoveries: `differs` is any large enough change."""
    if not series:
        return []
    is_time = series[0].metric.unit == "s"
    offset, floor = (0.0, TIME_THRESHOLDS) if is_time else (float(OFFSET_BYTES), MEMORY_THRESHOLDS)
    pairs = max(len(each.baseline) for each in series)
    before, after = (np.full((len(series), pairs), np.nan) for _ in range(2))
    for index, each in enumerate(series):
        before[index, : len(each.baseline)] = each.baseline
        after[index, : len(each.candidate)] = each.candidate
    with np.errstate(divide="ignore", invalid="ignore"):
        logs_before, logs_after = (np.log(np.maximum(v, 0) + offset) for v in (before, after))
        differences = np.where(
            np.isfinite(logs_after - logs_before), logs_after - logs_before, np.nan
        )
    size = np.array([np.median(each.baseline) for each in series])
    least_scale = RESOLUTION if is_time else RESOLUTION_BYTES / (np.maximum(size, 0) + offset)
    scale = np.maximum(moderated_scale(differences, size), least_scale)
    return [
        _row(each, differences[index], float(scale[index]), floor, offset)
        for index, each in enumerate(series)
    ]


def _row(
    series: Series, differences: Floats, scale: float, floor: Thresholds, offset: float
) -> Row:
    measured = differences[~np.isnan(differences)]
    n = len(measured)
    before, after = (_typical(values, offset) for values in (series.baseline, series.candidate))
    row = Row(0, series.arm, series.metric, n, before, after)
    is_short = series.metric.unit == "s" and max(before, after) < MIN_WALL_S
    if n < MIN_PAIRS or is_short or not np.isfinite(scale):
        return row
    center = float(measured.mean())
    change = float(np.median(series.candidate - series.baseline))
    is_large = abs(change) >= max(floor.amount, floor.ratio * float(np.median(series.baseline)))
    tested = with_interval(
        row, center, scale, n - 1 + PRIOR, lambda value: _ratio(value, before, offset)
    )
    return replace(
        tested,
        noise=float(np.expm1(scale / np.sqrt(2))),
        differs=bool(is_large and np.sign(change) == np.sign(center)),
    )


def _typical(values: Floats, offset: float) -> float:
    """Return the mean by logarithms, so that shown values and shown change agree."""
    if not len(values) or (values + offset <= 0).any():
        return float(np.median(values)) if len(values) else float("nan")
    return float(np.exp(np.log(np.maximum(values, 0) + offset).mean()) - offset)


def _ratio(difference: float, before: float, offset: float) -> float | None:
    if before <= offset:  # too small: any change would be a large ratio
        return None
    return float(((before + offset) * np.exp(min(difference, 50.0)) - offset) / before - 1)


def conclude(
    design: Design,
    done: Sequence[Measurement],
    why: StopReason,
    *,
    commits: Mapping[str, str],
    request: Request,
    exclusions: Mapping[CaseKey, Exclusion],
    wall_s: float,
    stopped_by: int = 0,
) -> Experiment:
    """Judge the runs of two commits; rows that differ come first.

    Rows are of cases that passed in every run of both commits; other cases are not judged.
    """
    series = [
        each
        for each in series_of(done, design.arms)
        if key_of(each.metric) not in exclusions
        and (request.rows is None or each.metric in request.rows)
    ]
    rows = sorted(
        evaluate_rows(series), key=lambda row: (not row.differs, row.metric.name, row.metric)
    )
    blocks = blocks_of(done, design)
    failed = next((run for run in done if run.failure), None)
    has_enough = min(blocks) >= MIN_PAIRS and failed is None
    is_judged = has_enough and any(row.p is not None for row in rows)
    return Experiment(
        verdicts={ARMS[1]: verdict_of(rows) if is_judged else "not enough data"},
        rows=tuple(rows),
        arms=commits,
        design=design,
        blocks=blocks,
        stopped_because=why,
        level=ALPHA,
        wall_s=wall_s,
        is_complete=has_enough and not stopped_by,
        failed=failed,
        exclusions=dict(sorted(exclusions.items())),
        units=len(request.units),
        stopped_by=stopped_by,
    )


def verdict_of(rows: Sequence[Row]) -> Verdict:
    """Return the verdict over all tests: time before memory; a contradiction is "mixed"."""
    row_verdicts = {row_verdict(row) for row in rows if row.differs}
    if row_verdicts & {*GAINS} and row_verdicts & {*LOSSES}:
        return "mixed"
    words: tuple[Verdict, ...] = ("faster", "slower", "less memory", "more memory")
    return next((word for word in words if word in row_verdicts), "no significant difference")


def row_verdict_of(row: Row) -> str:
    """Return "slower", "too short", "not enough data", ...; "-" without a difference."""
    if row.p is None:
        return "too short" if row.n >= MIN_PAIRS else "not enough data"
    return row_verdict(row) if row.differs else "-"
