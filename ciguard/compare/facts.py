"""Which runs were compared, which are the baseline, and why others are not. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.text import counted

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class RunName:
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
    def words(self) -> str:
        """ "head, run 123/2, a1b2c3d, main, 1,040 cases"; of a first attempt "run 123"."""
        parts = []
        if self.run_id is not None:
            attempt = f"/{self.run_attempt}" if (self.run_attempt or 1) > 1 else ""
            number = f"{self.run_id}{attempt}"
            # Who asked for it by its number need not be told the number again.
            asked = self.name.removeprefix("run ").partition("/")[0]
            parts = [] if asked == str(self.run_id) else [self.name]
            parts.append(f"run {number}" + (" of the history" if self.in_history else ""))
        else:
            parts = [self.name]
        parts += [part for part in (self.sha[:7] if self.sha else "", self.branch or "") if part]
        return ", ".join(dict.fromkeys([*parts, counted(self.cases, "case")]))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A run of the history that is no baseline, and why."""

    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unused:
    """Values of baseline runs that are not in the baseline, and why."""

    reason: str
    values: int


@dataclass(frozen=True, slots=True)
class BaselineFacts:
    """The runs whose values are the baseline; `how` says in words how they were chosen."""

    runs: tuple[RunName, ...]
    left_out: tuple[LeftOut, ...]
    how: str
    values: int = 0
    unused: tuple[Unused, ...] = ()

    @property
    def reasons(self) -> tuple[tuple[str, int], ...]:
        """Why runs are no baseline, and how many for each reason, most first."""
        counts = Counter(one.reason for one in self.left_out)
        return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    @property
    def not_used(self) -> str:
        """ "2 runs: it is a pull request's; 18 values: did not pass"; "" where all were."""
        parts = [f"{counted(number, 'run')}: {why}" for why, number in self.reasons]
        parts += [f"{counted(one.values, 'value')}: {one.reason}" for one in self.unused]
        return "; ".join(parts)
