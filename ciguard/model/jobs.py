"""What the platform says of the jobs of a run; no file of ours holds it. Times are aware UTC."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Iterable, Mapping, Sequence

from ciguard.model.types import SLOTS, Ending

if TYPE_CHECKING:
    from datetime import datetime


MINUTE_S: Final = 60.0


def is_github_actions(environ: Mapping[str, str]) -> bool:
    """Return whether this process belongs to a job of GitHub Actions, which sets `true`."""
    return environ.get("GITHUB_ACTIONS", "").strip().lower() in ("true", "1")


@dataclass(frozen=True, **SLOTS)
class Step:
    """One step of a job; `conclusion` is None until it ended, and in GitHub's words.

    `wall_s` is in whole seconds, and None of a step that was skipped, cancelled or has not ended.
    """

    name: str
    number: int
    conclusion: str | None = None
    wall_s: float | None = None


@dataclass(frozen=True, **SLOTS)
class RunArtifact:
    """An artifact of a run, and the size of its archive."""

    name: str
    size_bytes: int


@dataclass(frozen=True, **SLOTS)
class Job:
    """One job in one attempt of its run.

    `status` and `conclusion` are GitHub's words, also such as nobody knows yet. `started_at` may be
    before the run attempt: a job that was not run again is listed with it all the same. `ending` is
    why it was cancelled, where an annotation tells it.
    """

    id: int
    name: str
    run_attempt: int = 1
    status: str = "completed"
    conclusion: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps: tuple[Step, ...] = ()
    url: str = ""  # of its page, for a person
    head_sha: str | None = None  # of its run: a pull request's own commit, not the merge
    labels: tuple[str, ...] = ()  # that its runner was asked for by
    ending: Ending | None = None

    @property
    def wall_s(self) -> float | None:
        """From its start to its end, on GitHub's clock, in whole seconds."""
        if self.started_at is None or self.completed_at is None:
            return None
        return (self.completed_at - self.started_at).total_seconds()


def attempt_at(jobs: Iterable[Job], at: datetime) -> int | None:
    """The run attempt that was under way; None without a job. Each begins after the one before."""
    ends: defaultdict[int, list[datetime]] = defaultdict(list)
    for job in jobs:
        ends[job.run_attempt] += [] if job.completed_at is None else [job.completed_at]
    last = max(ends, default=None)
    earlier = (one for one in sorted(ends) if one != last)
    return next((one for one in earlier if ends[one] and at <= max(ends[one])), last)


def oldest_counting_attempt(jobs: Iterable[Job]) -> int:
    """The attempt since which all jobs ran again: what an earlier one left counts for none."""
    by_name: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    return min((last_attempt(found)[0].run_attempt for found in by_name.values()), default=1)


def last_attempt(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Of one job's attempts the last in which it ran; all of it that an attempt lists.

    A later attempt lists a job that was not run again once more, with the start that it had before
    (newrelic-experimental/gha-new-relic-exporter#38): nothing begins again before it has ended.
    """
    by_attempt: defaultdict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        by_attempt[job.run_attempt].append(job)
    last: list[Job] = []
    for _, found in sorted(by_attempt.items()):
        is_repeat = len(found) == 1 == len(last) and _is_repeat_listing(found[0], last[0])
        last = last if is_repeat else found
    return tuple(last)


def _is_repeat_listing(job: Job, before: Job) -> bool:
    """Return whether a later attempt only repeats what it lists; where times are missing, it ran.

    So it did where it ended otherwise: what is repeated is the end that is known.
    """
    if job.started_at is None or before.started_at is None or job.conclusion != before.conclusion:
        return False
    return job.started_at < (before.completed_at or before.started_at) or (
        job.started_at == before.started_at
    )


def whole_minutes(length_s: float) -> int:
    """Return a time as GitHub bills it and takes it for a limit: in whole minutes, at least one."""
    return max(1, math.ceil(length_s / MINUTE_S))


def billed_minutes(walls_s: Iterable[float | None]) -> int | None:
    """Return what jobs of these wall times are billed; None where one is not known, or of none."""
    minutes = [None if wall_s is None else whole_minutes(wall_s) for wall_s in walls_s]
    known = [count for count in minutes if count is not None]
    return sum(known) if known and len(known) == len(minutes) else None


def price_usd(jobs: Iterable[tuple[Sequence[float | None], float | None]]) -> float | None:
    """Return what jobs cost; None where a time or a price is not known, or of none.

    Args:
        jobs: of each the wall times of its executions, and the price of a minute.
    """
    prices = []
    for walls_s, usd_per_minute in jobs:
        minutes = billed_minutes(walls_s)
        if minutes is None or usd_per_minute is None:
            return None
        prices.append(minutes * usd_per_minute)
    return sum(prices) if prices else None
