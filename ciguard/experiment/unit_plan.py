"""Units that are run on two commits: the plan of their leg, and what that came to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec import plan_file as codec
from ciguard.document import first_line
from ciguard.experiment.measurement import Metric
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
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ciguard.experiment.schedule import Side
    from ciguard.model import Outcome, Record, Suite, UnitKey

SHARD: Final = "1"
POOL: Final = "here"
MEASURES: Final = ("wall_s", "peak_delta_bytes")
REASON: Final = 100  # characters of why a case is not judged


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked: which units, and which rows of them; None: all that they give."""

    units: tuple[UnitKey, ...]
    rows: frozenset[Metric] | None = None


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Why a case has no numbers: how it ended on a side; None without a result."""

    side: Side
    outcome: Outcome | None = None
    message: str = ""


def metric_of(key: CaseKey, measure: str) -> Metric:
    """The row of a case."""
    parts = tuple((name, value) for name, value in key._asdict().items())
    return Metric(measure, "s" if measure == "wall_s" else "bytes", parts)


def key_of(metric: Metric) -> CaseKey:
    """The case of such a row."""
    return CaseKey(**dict(metric.key))


def request_of(suspects: Iterable[tuple[CaseKey, str]]) -> Request:
    """The units of some cases, and a row for each case and measure of it."""
    found = [metric_of(key, measure) for key, measure in suspects]
    units = dict.fromkeys(key_of(metric).unit_key for metric in found)
    return Request(tuple(units), frozenset(found))


def plan_of(units: Sequence[UnitKey], suites: Mapping[str, Suite]) -> bytes:
    """The plan of one leg that runs these units in one process a suite, in their order."""
    shard = Shard(
        key=SHARD,
        pool=POOL,
        units=tuple(
            PlannedUnit(unit.unit, unit.suite, unit.variant, has_history=False) for unit in units
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
    """Times and peak deltas of the cases that passed, and went wrong in no try."""
    failed_keys = {result.key for result in record.results if result.outcome in BAD_OUTCOMES}
    found: dict[Metric, float] = {}
    for result in record.results:
        if result.outcome != "passed" or result.key in failed_keys:
            continue
        for measure in MEASURES:
            value = getattr(result, measure)
            if value is not None:
                found[metric_of(result.key, measure)] = float(value)
    return found


def exclusions(record: Record, units: Iterable[UnitKey], side: Side) -> dict[CaseKey, Exclusion]:
    """Why a case, or all of a unit that gave none, has no numbers."""
    found = {
        result.key: Exclusion(
            side, result.outcome, one_line(first_line(result.message or ""), REASON)
        )
        for result in record.results
        if result.outcome != "passed"
    }
    reported_units = {result.key.unit_key for result in record.results}
    lost = {unit: CaseKey(*unit, unit.unit) for unit in units if unit not in reported_units}
    return {**found, **dict.fromkeys(lost.values(), Exclusion(side))}


def failure_of(records: Collection[Record], output_text: str) -> str:
    """Why a whole leg tells nothing; "" where it ran, whatever its tests did."""
    lines = [one_line(line) for line in output_text.strip().splitlines()[-5:]]
    if not records:
        return "\n".join(["it left no record", *lines])
    record = next(iter(records))
    ending = record.end.ending if record.end is not None else "unknown"
    # Units that are not there have no result, and make a leg incomplete that has ended well.
    if ending != "completed" or record.damage or not record.results:
        return "\n".join([record.damage[0] if record.damage else f"ended: {ending}", *lines])
    return ""
