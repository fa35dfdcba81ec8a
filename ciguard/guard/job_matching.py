"""Which job of the run is which shard, and in which attempt it ran last. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ciguard.guard.needs import PLANNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import Plan, Record
    from ciguard.model.jobs import Job


def match_jobs(
    plan: Plan, records: Iterable[Record], jobs: Sequence[Job]
) -> dict[str, tuple[Job, ...]]:
    """The job of each shard in the attempt in which it ran last.

    Returns:
        For each shard one; none where no job has its name; several where nobody knows which of
        them is meant.
    """
    by_name: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    recorded: dict[str, set[str]] = defaultdict(set)
    for record in records:
        header = record.header
        if header is not None and header.plan_id == plan.id and header.job:
            recorded[header.shard].add(header.job)
    found: dict[str, tuple[Job, ...]] = {}
    for shard in plan.shards:
        names = _names(plan.job_name(shard), by_name)
        names = names or [name for name in sorted(recorded[shard.key]) if name in by_name]
        found[shard.key] = tuple(job for name in names for job in last_attempt(by_name[name]))
    return found


def _names(name: str, by_name: Mapping[str, object]) -> list[str]:
    """The name itself; else as a called workflow's job is shown, behind its caller's name."""
    if name in by_name:
        return [name]
    return sorted(one for one in by_name if one.endswith(f" / {name}"))


def replanned(plan: Plan, matched: Mapping[str, Sequence[Job]], jobs: Iterable[Job]) -> Job | None:
    """The job that plans, where it ran after all legs and did not end well; else None.

    "Re-run all jobs" plans anew. Where that fails no leg has a job in that attempt, and what the
    attempt before left must not be taken for the run.
    """
    ran = [job for found in matched.values() for job in found]
    begins = {
        job.name.removesuffix(plan.job_name(shard))
        for shard in plan.shards
        for job in matched[shard.key]
    }
    named = [job for job in jobs if job.name in {f"{begin}{PLANNING}" for begin in begins}]
    last = max((job.run_attempt for job in ran), default=0)
    later = (job for job in last_attempt(named) if job.run_attempt > last)
    return next((job for job in later if job.conclusion != "success"), None)


def last_attempt(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Of one job's attempts the last in which it ran; all of it that an attempt lists.

    A later attempt lists a job that was not run again once more, with the start that it had before
    (newrelic-experimental/gha-new-relic-exporter#38): nothing begins again before it has ended.
    """
    by_attempt: dict[int, list[Job]] = defaultdict(list)
    for job in jobs:
        by_attempt[job.run_attempt].append(job)
    last: list[Job] = []
    for _, found in sorted(by_attempt.items()):
        is_repeat = len(found) == 1 == len(last) and _is_repeat_listing(found[0], last[0])
        last = last if is_repeat else found
    return tuple(last)


def _is_repeat_listing(job: Job, before: Job) -> bool:
    """Say that a later attempt only repeats what it lists; where times are missing, it ran.

    So it did where it ended otherwise: what is repeated is the end that is known.
    """
    if job.started_at is None or before.started_at is None or job.conclusion != before.conclusion:
        return False
    return job.started_at < (before.completed_at or before.started_at) or (
        job.started_at == before.started_at
    )
