"""Which runs were compared, which are the baseline, and why others are not. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Which run it was; None is not known. `values`: of how many cases it is baseline."""

    name: str
    run_id: int | None = None
    run_attempt: int | None = None
    sha: str | None = None
    branch: str | None = None
    event: str | None = None
    at: datetime | None = None
    cases: int = 0
    complete: bool = False
    in_history: bool = False
    values: int | None = None


@dataclass(frozen=True, slots=True)
class ExcludedRun:
    """A run of the history that is no baseline, and why."""

    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ExcludedValues:
    """Values of baseline runs that are not in the baseline, and why."""

    reason: str
    values: int


@dataclass(frozen=True, slots=True)
class BaselineInfo:
    """The runs whose values are the baseline; `how` says in words how they were chosen."""

    runs: tuple[RunInfo, ...]
    excluded_runs: tuple[ExcludedRun, ...]
    selection: str
    values: int = 0
    excluded_values: tuple[ExcludedValues, ...] = ()

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Why runs are no baseline, and how many for each reason, most first."""
        counts = Counter(one.reason for one in self.excluded_runs)
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
