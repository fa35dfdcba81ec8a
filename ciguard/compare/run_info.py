"""Which runs were compared, which are the baseline, and why others are not. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.text import count_of

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

    @property
    def describe(self) -> str:
        """ "head, run 123/2, a1b2c3d, main, 1,040 cases"; of a first attempt "run 123"."""
        parts = []
        if self.run_id is not None:
            attempt = f"/{self.run_attempt}" if (self.run_attempt or 1) > 1 else ""
            number = f"{self.run_id}{attempt}"
            # Who asked for it by its number need not be told the number again.
            run_id_text = self.name.removeprefix("run ").partition("/")[0]
            parts = [] if run_id_text == str(self.run_id) else [self.name]
            parts.append(f"run {number}" + (" of the history" if self.in_history else ""))
        else:
            parts = [self.name]
        parts += [part for part in (self.sha[:7] if self.sha else "", self.branch or "") if part]
        return ", ".join(dict.fromkeys([*parts, count_of(self.cases, "case")]))


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

    @property
    def excluded_text(self) -> str:
        """ "2 runs: it is a pull request's; 18 values: did not pass"; "" where all were."""
        parts = [f"{count_of(number, 'run')}: {why}" for why, number in self.reasons]
        parts += [f"{count_of(one.values, 'value')}: {one.reason}" for one in self.excluded_values]
        return "; ".join(parts)
