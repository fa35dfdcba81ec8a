"""Where GitHub's word on a job and its leg's record do not agree, or there is no word. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.guard.deaths import WORDS, death_of, meaning, shown
from ciguard.guard.legs import says_failed, unexplained
from ciguard.guard.verdict import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ciguard.guard.asking import Platform
    from ciguard.guard.legs import LegProof
    from ciguard.model.jobs import Job

JUDGED_BY = "judged by the plan, the records and what `needs` says"


def findings(legs: Sequence[LegProof], platform: Platform) -> Iterator[Finding]:
    """What of the legs that ended by their own word GitHub says otherwise, or nobody knows."""
    if platform.unknown:
        what = f"{platform.unknown}; {JUDGED_BY}"
        yield Finding("warning", "jobs_unknown", what, fix=platform.fix)
        yield from _attempts_unknown(legs, platform)
        return
    for leg in legs:
        if leg.record is not None and not leg.end.problem:
            yield from _of_leg(leg, platform)


def _of_leg(leg: LegProof, platform: Platform) -> Iterator[Finding]:
    shard = leg.shard.key
    failed = says_failed(leg) or bool(unexplained(leg))
    facts = platform.legs.get(shard)
    if facts is None:
        yield _ambiguous(shard, platform.twins.get(shard, ()), failed=failed)
        return
    if facts.job is None:
        what = f'shard {shard} has a record, and no job of this run is called "{facts.name}"'
        fix = "who wrote it? Look at the jobs of the run, and run it again"
        yield Finding("incomplete", "no_job", what, shard, fix=fix)
        return
    said = meaning(facts.job, failed=failed)
    seen = (shown(facts.job, facts.limit_s),)
    if said == "open":
        what = f"shard {shard}: its record is whole, and GitHub lists its job as not ended"
        yield Finding("warning", "job_open", what, shard, evidence=seen)
    elif said == "unknown":
        what = f"shard {shard}: its job is {_word(facts.job)}: a word that this version "
        what += "does not know"
        yield Finding("incomplete", "job_unknown", what, shard, fix="update ciguard", evidence=seen)
    elif said == "contradicts":
        death = death_of(facts, leg.record)
        what = f"shard {shard}: its record is whole, and its job is {_word(facts.job)}"
        if death.ending != "unknown":
            what += f": {death.words or WORDS[death.ending]}"
        fix = "look at the steps behind its tests in the log of its job, and run it again"
        yield Finding("incomplete", "job_contradicts", what, shard, (), fix, death.evidence)


def _ambiguous(shard: str, twins: Sequence[Job], *, failed: bool) -> Finding:
    """Where one of them ended otherwise than the record says, it may be the shard's own."""
    bad = [one for one in twins if meaning(one, failed=failed) in ("contradicts", "unknown")]
    what = f"shard {shard}: several jobs of this run are called like it, so none was asked about"
    if bad:
        what += f", and one of them is {_word(bad[0])}"
    fix = "give the jobs of a run names of their own"
    seen = tuple(shown(one, None) for one in bad[:3])
    return Finding(
        "incomplete" if bad else "warning", "job_ambiguous", what, shard, fix=fix, evidence=seen
    )


def _word(job: Job) -> str:
    return repr(job.conclusion if job.status == "completed" else job.status)[:40]


def _attempts_unknown(legs: Sequence[LegProof], platform: Platform) -> Iterator[Finding]:
    """After a re-run, a leg's older record counts only if the leg did not run again."""
    if platform.run_attempt is None:
        what = "which attempt of the run this is, and whether legs ran again in it, is not known"
        fix = platform.fix or "run this again when GitHub answers"
        yield Finding("incomplete", "attempt_unknown", what, fix=fix)
        return
    now = platform.run_attempt
    older = [
        leg.shard.key
        for leg in legs
        if leg.record is not None
        and (header := leg.record.header) is not None
        and header.run_id == platform.run_id
        and (header.run_attempt or 1) < now
    ]
    for shard in older:
        what = f"shard {shard}: its newest record is of an attempt before {now}, and whether it "
        what += "ran again is not known"
        fix = platform.fix or "run this again when GitHub answers"
        yield Finding("incomplete", "attempt_unknown", what, shard, fix=fix)
