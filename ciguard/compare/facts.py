"""Which runs were compared, which are the baseline, and why others are not. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ciguard.compare.words import run_words

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
        """All that is known of it, in a line."""
        return run_words(self)


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
