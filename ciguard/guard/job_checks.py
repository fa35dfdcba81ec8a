"""Where GitHub's word on a job and its leg's record do not agree, or there is no word. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.guard.diagnosis import ENDING_DIAGNOSIS_TEXT, consistency, diagnose, job_line
from ciguard.guard.legs import exited_with_failures, unexplained
from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.guard.github_facts import RunFacts
    from ciguard.guard.legs import LegResult
    from ciguard.model.jobs import Job

WITHOUT_JOBS_NOTE = "judged by the plan and the records"
WITH_NEEDS_NOTE = "judged by the plan, the records and what `needs` says"


def check_jobs(
    legs: Sequence[LegResult], platform: RunFacts, *, with_needs: bool = False
) -> Iterator[Finding]:
    """What of the legs that ended by their own word GitHub says otherwise, or nobody knows.

    Args:
        with_needs: `needs` says how some of the jobs ended.
    """
    if platform.unknown:
        what = f"{platform.unknown}; {WITH_NEEDS_NOTE if with_needs else WITHOUT_JOBS_NOTE}"
        yield Finding("warning", "jobs_unknown", what, fix=platform.fix)
        yield from _attempts_unknown(legs, platform)
        return
    if platform.replanned is not None:
        job = platform.replanned
        what = f"attempt {job.run_attempt} plans anew, and its job {job.name} is {_conclusion(job)}"
        what += ": what there is, is of the attempt before"
        fix = "look at the log of that job, and run it again"
        yield Finding("incomplete", "not_planned_again", what, fix=fix)
    for leg in legs:
        if leg.record is not None and not leg.end.problem:
            yield from _of_leg(leg, platform)


def _of_leg(leg: LegResult, platform: RunFacts) -> Iterator[Finding]:
    shard = leg.shard.key
    failed = exited_with_failures(leg) or bool(unexplained(leg))
    facts = platform.legs.get(shard)
    if facts is None:
        yield _ambiguous(shard, platform.ambiguous.get(shard, ()), _attempt(leg), failed=failed)
        return
    if facts.job is None:
        what = f'shard {shard} has a record, and no job of this run is called "{facts.name}"'
        fix = "who wrote it? Look at the jobs of the run, and run it again"
        yield Finding("incomplete", "no_job", what, shard, fix=fix)
        return
    agreement = consistency(facts.job, failed=failed)
    seen = (job_line(facts.job, facts.limit_s),)
    if agreement == "open":
        what = f"shard {shard}: its record is whole, and GitHub lists its job as not ended"
        yield Finding("warning", "job_open", what, shard, evidence=seen)
    elif agreement == "unknown":
        what = f"shard {shard}: its job is {_conclusion(facts.job)}: a word that this version "
        what += "does not know"
        yield Finding("incomplete", "job_unknown", what, shard, fix="update ciguard", evidence=seen)
    elif agreement == "contradicts":
        death = diagnose(facts, leg.record)
        what = f"shard {shard}: its record is whole, and its job is {_conclusion(facts.job)}"
        if death.ending != "unknown":
            what += f": {death.text or ENDING_DIAGNOSIS_TEXT[death.ending]}"
        fix = "look at the steps behind its tests in the log of its job, and run it again"
        yield Finding("incomplete", "job_contradicts", what, shard, (), fix, death.evidence)


def _ambiguous(shard: str, jobs: Sequence[Job], attempt: int | None, *, failed: bool) -> Finding:
    """Where one of them ended otherwise than the record says, it may be the shard's own.

    So it may where one ran again after the record was written, or none in the record's attempt. One
    of an older attempt is a caller's that was not run again.
    """
    bad = [one for one in jobs if consistency(one, failed=failed) in ("contradicts", "unknown")]
    what = f"shard {shard}: several jobs of this run are called like it, so none was asked about"
    ran = {one.run_attempt for one in jobs}
    other = [one for one in jobs if one.run_attempt > (attempt or 1) or attempt not in ran]
    if bad:
        what += f", and one of them is {_conclusion(bad[0])}"
    elif other:
        what += f"; one of them ran in attempt {other[0].run_attempt}, and its record is of "
        what += f"attempt {attempt}"
        bad = other
    fix = "give the jobs of a run names of their own"
    seen = tuple(job_line(one, None) for one in bad[:3])
    return Finding(
        "incomplete" if bad else "warning", "job_ambiguous", what, shard, fix=fix, evidence=seen
    )


def _conclusion(job: Job) -> str:
    return repr(job.conclusion if job.status == "completed" else job.status)[:40]


def _attempts_unknown(legs: Sequence[LegResult], platform: RunFacts) -> Iterator[Finding]:
    """After a re-run, a leg's older record counts only if the leg did not run again."""
    if platform.run_attempt is None:
        what = "which attempt of the run this is, and whether legs ran again in it, is not known"
        fix = platform.fix or "run this again when GitHub answers"
        yield Finding("incomplete", "attempt_unknown", what, fix=fix)
        return
    now = platform.run_attempt
    fix = platform.fix or "run this again when GitHub answers"
    for leg in legs:
        attempt = _attempt(leg)
        if attempt is not None and attempt != now:
            what = f"shard {leg.shard.key}: its newest record is of attempt {attempt}, this is "
            what += f"attempt {now}, and whether it ran again is not known"
            yield Finding("incomplete", "attempt_unknown", what, leg.shard.key, fix=fix)


def _attempt(leg: LegResult) -> int | None:
    """Of its record; one that was written outside of GitHub Actions has none and is a first."""
    header = leg.record.header if leg.record is not None else None
    return (header.run_attempt or 1) if header is not None else None
