"""Which job of the run is which shard, and in which attempt it ran last. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import Plan, Record
    from ciguard.model.jobs import Job


def jobs_of_legs(
    plan: Plan, records: Iterable[Record], jobs: Sequence[Job]
) -> dict[str, Job | None]:
    """The job of each shard in the attempt in which it ran last.

    Returns:
        Only shards that are sure: None where no job has the shard's name; no key where several
        have, so that nobody knows which is meant.
    """
    by_name: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    recorded: dict[str, set[str]] = defaultdict(set)
    for record in records:
        header = record.header
        if header is not None and header.plan_id == plan.id and header.job:
            recorded[header.shard].add(header.job)
    found: dict[str, Job | None] = {}
    for shard in plan.shards:
        names = _names(plan.job_name(shard), by_name)
        names = names or [name for name in sorted(recorded[shard.key]) if name in by_name]
        if not names:
            found[shard.key] = None
        elif len(names) == 1 and (last := last_run(by_name[names[0]])) is not None:
            found[shard.key] = last
    return found


def _names(name: str, by_name: Mapping[str, object]) -> list[str]:
    """The name itself; else as a called workflow's job is shown, behind its caller's name."""
    if name in by_name:
        return [name]
    return sorted(one for one in by_name if one.endswith(f" / {name}"))


def last_run(jobs: Iterable[Job]) -> Job | None:
    """Of one job's attempts the last in which it ran; None where an attempt has it twice.

    A later attempt lists a job that was not run again once more, with the start that it had before
    (newrelic-experimental/gha-new-relic-exporter#38): nothing begins again before it has ended.
    """
    by_attempt: dict[int, Job] = {}
    for job in jobs:
        if job.run_attempt in by_attempt:
            return None
        by_attempt[job.run_attempt] = job
    last: Job | None = None
    for _, job in sorted(by_attempt.items()):
        if last is None or not _is_listed_again(job, last):
            last = job
    return last


def _is_listed_again(job: Job, before: Job) -> bool:
    """Say that a later attempt only repeats what it lists; where times are missing, it ran."""
    if job.started_at is None or before.started_at is None:
        return False
    return job.started_at < (before.completed_at or before.started_at) or (
        job.started_at == before.started_at
    )
