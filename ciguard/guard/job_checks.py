"""Where GitHub's word on a job and its leg's record do not agree, or there is no word. Pure.

In `toJSON(needs)` a matrix is one job. `continue-on-error` shows as success, a skipped or cancelled
leg may show as either: so it can only make a verdict worse, never better.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.guard.diagnosis import conclusion_of, consistency, diagnose, job_line
from ciguard.guard.github_facts import PLANNING
from ciguard.guard.legs import exited_with_failures, unexplained
from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.github_facts import RunFacts
    from ciguard.guard.legs import LegResult
    from ciguard.guard.verdict import Kind, Level
    from ciguard.model.jobs import Job

LEGS: Final = "legs"  # the job of the legs that `init` writes: their failed tests explain it


@dataclass(frozen=True, slots=True)
class NeededJob:
    """A job that this one needed; `result` in GitHub's words."""

    name: str
    result: str


def decode_needs(text: str | bytes, source: str = "--needs") -> tuple[NeededJob, ...]:
    """Read `toJSON(needs)`.

    Raises:
        InputError: it is no JSON object of objects.
    """
    fix = 'pass GitHub\'s own: NEEDS: ${{ toJSON(needs) }} in env, then --needs "$NEEDS"'
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source, fix=fix) from None
    if not isinstance(found, dict):
        raise InputError(f"expected an object, found {found!r:.60}", where=source, fix=fix)
    jobs = []
    for name, job in sorted(found.items()):
        if not isinstance(job, dict):
            what = f"expected an object with a result, found {job!r:.60}"
            raise InputError(what, where=f"{source}: {name}", fix=fix)
        jobs.append(NeededJob(name, f"{job.get('result', '')}"))
    return tuple(jobs)


def check_needs(
    jobs: Sequence[NeededJob],
    *,
    is_explained: bool,
    is_excused: bool = False,
    names: AbstractSet[str] = frozenset(),
) -> Iterator[Finding]:
    """Judge the jobs.

    Args:
        is_explained: the records hold a reason for a job to fail.
        is_excused: and that reason does not fail the run.
        names: as the records call the job of their legs.
    """
    if not jobs:
        yield Finding("warning", "needs_empty")
    legs = {job.name for job in jobs} & {LEGS, *names}
    red = {job.name for job in jobs if job.result == "failure" and job.name != PLANNING}
    if not legs and len(red) == 1:
        legs = red  # nobody says which one it is, and no other needs an excuse
    for job in jobs:
        if job.result == "success":
            continue
        level: Level = "incomplete"
        kind: Kind = "job_not_successful"
        if job.result == "failure":
            kind = "job_unexplained"
            if is_excused and job.name in legs:
                level, kind = "warning", "job_excused"
            elif is_explained and not is_excused and job.name != PLANNING:
                level, kind = "failed", "job_failed"
        yield Finding(level, kind, facts={"job": job.name, "result": job.result})


def check_jobs(legs: Sequence[LegResult], platform: RunFacts) -> Iterator[Finding]:
    """What of the legs that ended by their own word GitHub says otherwise, or nobody knows."""
    if platform.unknown is not None:
        yield Finding("warning", "jobs_unknown", cause=platform.unknown)
        yield from _attempts_unknown(legs, platform.run_attempt)
        return
    if platform.replanned is not None:
        job = platform.replanned
        facts = {"attempt": job.run_attempt, "job": job.name, "conclusion": conclusion_of(job)}
        yield Finding("incomplete", "not_planned_again", facts=facts)
    for leg in legs:
        if leg.record is not None and leg.end.problem is None:
            yield from _check_leg(leg, platform)


def _check_leg(leg: LegResult, platform: RunFacts) -> Iterator[Finding]:
    shard = leg.shard.key
    failed = exited_with_failures(leg) or bool(unexplained(leg))
    evidence = platform.legs.get(shard)
    if evidence is None:
        yield _ambiguous(shard, platform.ambiguous.get(shard, ()), _attempt(leg), failed=failed)
        return
    job = evidence.job
    if job is None:
        yield Finding("incomplete", "record_without_job", shard, facts={"name": evidence.name})
        return
    agreement = consistency(job, failed=failed)
    seen = (job_line(job, evidence.limit_s),)
    facts = {"conclusion": conclusion_of(job)}
    if agreement == "open":
        yield Finding("warning", "job_open", shard, evidence=seen)
    elif agreement == "unknown":
        yield Finding("incomplete", "conclusion_unknown", shard, facts=facts, evidence=seen)
    elif agreement == "contradicts":
        death = diagnose(evidence, leg.record)
        cause = death.cause if death.ending != "unknown" else None
        yield Finding(
            "incomplete", "job_contradicts", shard, (), facts, cause, evidence=death.evidence
        )


def _ambiguous(shard: str, jobs: Sequence[Job], attempt: int | None, *, failed: bool) -> Finding:
    """Where one of them ended otherwise than the record says, it may be the shard's own.

    So it may where one ran again after the record was written, or none in the record's attempt. One
    of an older attempt is a caller's that was not run again.
    """
    ran = {one.run_attempt for one in jobs}
    bad = [one for one in jobs if consistency(one, failed=failed) in ("contradicts", "unknown")]
    bad = bad or [one for one in jobs if one.run_attempt > (attempt or 1) or attempt not in ran]
    seen = tuple(job_line(one, None) for one in bad[:3])
    level: Level = "incomplete" if bad else "warning"
    return Finding(level, "job_ambiguous", shard, facts={"attempt": attempt}, evidence=seen)


def _attempts_unknown(legs: Sequence[LegResult], now: int | None) -> Iterator[Finding]:
    """After a re-run, a leg's older record counts only if the leg did not run again."""
    if now is None:
        yield Finding("incomplete", "attempt_unknown")
        return
    for leg in legs:
        attempt = _attempt(leg)
        if attempt is not None and attempt != now:
            facts = {"theirs": attempt, "ours": now}
            yield Finding("incomplete", "attempt_unknown", leg.shard.key, facts=facts)


def _attempt(leg: LegResult) -> int | None:
    """Of its record; one that was written outside of GitHub Actions has none and is a first."""
    header = leg.record.header if leg.record is not None else None
    return (header.run_attempt or 1) if header is not None else None
