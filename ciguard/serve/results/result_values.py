"""What questions about results are answered with. Codes are those of `rows.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.serve.state.run_key import RunKey

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What was found, and the runs of which it has no number because their files are damaged."""

    found: T
    missing_runs: tuple[RunKey, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case of a run; None where not measured."""

    suite: str
    variant: str
    unit: str
    case: str | None
    shard: str
    outcome: int
    ending: int
    status: int
    tries: int
    wall_us: int | None
    cpu_us: int | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class CasePage:
    """A page of a run's rows; `total` rows meet the filters, `outcomes` counts them by code."""

    rows: tuple[CaseRow, ...] = ()
    total: int = 0
    outcomes: Mapping[int, int] = field(default_factory=dict)
    flaky: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True)
class UnitRun:
    """What a test came to in a run: of its cases the worst codes, the sum of times."""

    run_id: int
    run_attempt: int
    at_ms: int
    cases: int
    status: int
    outcome: int
    ending: int
    tries: int
    wall_us: int | None
    peak_bytes: int | None
    peak_delta_bytes: int | None
    message: str | None


@dataclass(frozen=True, slots=True)
class UnitSums:
    """Sums of a test over runs; `wall_us` over the `measured` runs, sizes are the greatest."""

    suite: str
    variant: str
    unit: str
    runs: int
    results: int
    failed: int
    flaky: int
    wall_us: int | None
    measured: int
    peak_bytes: int | None
    peak_delta_bytes: int | None
