"""Jobs of a run as GitHub reports them, their last attempts and prices. Times are aware UTC."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Iterable, Mapping, Sequence

from ciguard.model.types import SLOTS, Ending

MINUTE_S: Final = 60.0
LOG_TAIL_BYTES: Final = 8 << 20  # read at the end of a job's log; nearly all logs are shorter
# Shards of a first plan, which has no timings. With 4 shards, 7 of 10 recorded suites of 144 to
# 57,000 tests stay below a limit of 45 minutes; two of the others take over 30 hours.
FIRST_SHARDS: Final = 4
MAX_FIRST_SHARDS: Final = 20  # GitHub's smallest plan runs as many jobs at once


def first_shards_of_each(variants: int) -> int:
    """Return the number of shards of each variant in a first run, whose jobs list the tests."""
    return max(1, min(FIRST_SHARDS, MAX_FIRST_SHARDS // variants))


def is_github_actions(environ: Mapping[str, str]) -> bool:
    """Return whether this process runs in a job of GitHub Actions."""
    return environ.get("GITHUB_ACTIONS", "").strip().lower() in ("true", "1")


@dataclass(frozen=True, **SLOTS)
class Step:
    """One step of a job.

    `conclusion`: GitHub's word; None until the step ends.
    `wall_s`: in whole seconds; None if the step was skipped or cancelled, or has not ended.
    """

    name: str
    number: int
    conclusion: str | None = None
    wall_s: float | None = None
    started_at: datetime | None = None


@dataclass(frozen=True, **SLOTS)
class RunArtifact:
    name: str
    size_bytes: int


@dataclass(frozen=True, **SLOTS)
class Job:
    """One job in one attempt of its run.

    `status`, `conclusion`: GitHub's words, including future ones.
    `started_at`: may be before the run attempt, which also lists jobs that it did not run again.
    `ending`: the reason of a cancellation, if an annotation names it.
    """

    id: int
    name: str
    run_attempt: int = 1
    status: str = "completed"
    conclusion: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps: tuple[Step, ...] = ()
    url: str = ""  # address of the job's page
    head_sha: str | None = None  # for a pull request the head of its branch, not the merge
    labels: tuple[str, ...] = ()  # values of `runs-on`
    ending: Ending | None = None

    @property
    def wall_s(self) -> float | None:
        """Return the time from start to end by GitHub's clock, in whole seconds."""
        if self.started_at is None or self.completed_at is None:
            return None
        return (self.completed_at - self.started_at).total_seconds()


def attempt_at(jobs: Iterable[Job], at: datetime) -> int | None:
    """Return the run attempt that was executed at a time; None if there is no job."""
    ends: defaultdict[int, list[datetime]] = defaultdict(list)
    for job in jobs:
        ends[job.run_attempt] += [] if job.completed_at is None else [job.completed_at]
    last = max(ends, default=None)
    earlier = (attempt for attempt in sorted(ends) if attempt != last)  # attempts do not overlap
    return next((number for number in earlier if ends[number] and at <= max(ends[number])), last)


def oldest_counting_attempt(jobs: Iterable[Job]) -> int:
    """Return the oldest attempt in which any job ran last; earlier attempts do not count."""
    return min((last[0].run_attempt for last in last_attempts(jobs).values()), default=1)


def last_attempts(jobs: Iterable[Job]) -> dict[str, tuple[Job, ...]]:
    """Return by job name the last attempt in which the job ran."""
    by_name: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    return {name: last_attempt(same) for name, same in by_name.items()}


def last_attempt(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Return the entries of one job in the last attempt in which the job ran.

    A later attempt also lists a job that it did not run again, with its earlier start
    (newrelic-experimental/gha-new-relic-exporter#38). A second run starts after the earlier end.
    """
    by_attempt: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        by_attempt[job.run_attempt].append(job)
    last: list[Job] = []
    for _, listed in sorted(by_attempt.items()):
        is_repeat = len(listed) == 1 == len(last) and _is_repeat_listing(listed[0], last[0])
        last = last if is_repeat else listed
    return tuple(last)


def _is_repeat_listing(job: Job, before: Job) -> bool:
    """Return whether a later attempt lists a job again without running it.

    A job with unknown times, or with another conclusion, counts as run again.
    """
    if job.started_at is None or before.started_at is None or job.conclusion != before.conclusion:
        return False
    return job.started_at < (before.completed_at or before.started_at) or (
        job.started_at == before.started_at
    )


def whole_minutes(length_s: float) -> int:
    """Return a time in the unit of GitHub's bills and limits: whole minutes, at least one."""
    return max(1, math.ceil(length_s / MINUTE_S))


def billed_minutes(walls_s: Iterable[float | None]) -> int | None:
    """Return the billed minutes of jobs; None without a job, or if a wall time is unknown."""
    minutes = [None if wall_s is None else whole_minutes(wall_s) for wall_s in walls_s]
    known = [count for count in minutes if count is not None]
    return sum(known) if known and len(known) == len(minutes) else None


def price_usd(jobs: Iterable[tuple[Sequence[float | None], float | None]]) -> float | None:
    """Return the price of jobs; None without a job, or if a time or a price is unknown.

    Args:
        jobs: for each job the wall times of its executions and the price of a minute.
    """
    prices = []
    for walls_s, usd_per_minute in jobs:
        minutes = billed_minutes(walls_s)
        if minutes is None or usd_per_minute is None:
            return None
        prices.append(minutes * usd_per_minute)
    return sum(prices) if prices else None
