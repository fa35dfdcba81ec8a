"""Which runs are compared, what is known around them, and which are the baseline. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ciguard.compare.ancestry import UNKNOWN, Ancestry

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from ciguard.compare.test_changes import Excuse
    from ciguard.model import CaseKey
    from ciguard.model.jobs import Job


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


@dataclass(frozen=True, slots=True)
class Context:
    """Each has a value for "nobody said".

    Attributes:
        branch: the base's.
        lineage: which commits came before the candidate's base.
        prices: of a minute, by pool, in USD.
        jobs_before, jobs_after: of the base and the candidate, as GitHub knows them.
        excused: failures of the candidate that do not count.
    """

    branch: str | None = None
    lineage: Ancestry = UNKNOWN
    prices: Mapping[str, float] = field(default_factory=dict)
    jobs_before: tuple[Job, ...] = ()
    jobs_after: tuple[Job, ...] = ()
    excused: Mapping[CaseKey, Excuse] = field(default_factory=dict)


NO_CONTEXT: Final = Context()
