"""GitHub's facts of a run: the job of each shard, and contradictions of jobs and records.

A run costs one request for its jobs, and two requests for each dead leg (job of a shard that did
not end well). `toJSON(needs)` has a matrix as one job. It has "success" also for
`continue-on-error`, and either result for a skipped or cancelled leg, so that `needs` can only make
a verdict worse. Pure, except for the `RunApi` that the caller passes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Protocol, TypeVar

from ciguard.errors import InputError, RemoteError
from ciguard.guard.diagnosis import (
    JobEvidence,
    conclusion_of,
    consistency,
    diagnose,
    is_explained,
    job_line,
    leg_end,
)
from ciguard.guard.legs import LegResult, explains_failure, is_idle, read_leg
from ciguard.guard.log_patterns import endings_note, first_match
from ciguard.guard.record_selection import Selection, is_undated, select
from ciguard.guard.verdict import Finding, Level
from ciguard.model import Plan, Record, Shard
from ciguard.model.jobs import Job, last_attempt, last_attempts
from ciguard.model.shard_names import ends_with
from ciguard.render.notes import Note

T = TypeVar("T")

# Names of the planning job by `init` and by the actions. No test explains a failure of this job.
PLANNING: Final = ("plan", "ciguard")
LOG_CHARS: Final = 64 * 1024  # searched for causes, which are in the last lines
COUNTED_CHARS: Final = 64 << 20  # of all logs in which timeouts are counted
UNCOUNTED: Final = ("cancelled", "superseded", "lost_runner", "never_started")  # by endings_note
MAX_QUERIED_LEGS: Final = 60  # GitHub allows 1,000 calls an hour; a report takes few of them
DIED: Final = ("cancelled", "failure", "timed_out")
LEGS: Final = "tests"  # the matrix job of `init`, whose failure failed tests explain


class EvaluatedRun(Protocol):
    """The judged run; `source` is None without a token."""

    @property
    def run_id(self) -> int: ...
    @property
    def run_attempt(self) -> int | None: ...
    @property
    def head_shas(self) -> frozenset[str]: ...
    @property
    def source(self) -> RunApi | None: ...


class RunApi(Protocol):
    """The API of one run on GitHub; every method may raise RemoteError."""

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs of all attempts."""

    def annotations(self, job: Job) -> tuple[str, ...]:
        """Return the annotations of a job."""

    def log_end(self, job: Job) -> str:
        """Return the last lines of the log of a job."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """GitHub's facts of a run.

    Attributes:
        run_id, run_attempt: id and current attempt of the judged run.
        legs: by shard, the facts of its job, also if the run has no such job.
        ambiguous: by shard, several jobs with its name.
        unknown: the reason why the jobs are unknown; None if they are known.
        head_shas: commits of the run, by its event and its jobs.
        replanned: the planning job, if it failed in a later attempt than that of the last leg.
    """

    run_id: int | None = None
    run_attempt: int | None = None
    legs: Mapping[str, JobEvidence] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    unknown: Note | None = None
    head_shas: frozenset[str] = frozenset()
    replanned: Job | None = None

    @property
    def jobs(self) -> dict[str, Job]:
        """For each shard, its job in the last attempt in which the job ran, if known."""
        return {shard: facts.job for shard, facts in self.legs.items() if facts.job is not None}


def select_of_run(plan: Plan, records: Iterable[Record], platform: RunFacts | None) -> Selection:
    """Select the records that count; GitHub's facts are None if GitHub was not asked."""
    # The ids of the run are known even if GitHub refused to list its jobs.
    known = platform if platform is not None else RunFacts()
    attempts = {shard: job.run_attempt for shard, job in known.jobs.items()}
    return select(plan, records, attempts, known.run_id, known.head_shas)


def query_jobs(
    plan: Plan,
    records: Sequence[Record],
    evaluated_run: EvaluatedRun | None,
    *,
    foreign: bool = False,
) -> RunFacts | None:
    """Query GitHub for the jobs, and for the causes of dead legs and of contradicted records.

    If GitHub refuses, the facts have the reason, and the legs are judged by the records alone.

    Args:
        evaluated_run: None outside of a run: GitHub is not asked, and the answer is None.
        foreign: the jobs are the user's own. If the plan does not have their names, jobs are found
            by the keys of the shards; the answer is None if no name fits.
    """
    is_guess = foreign and not any(shard.job for shard in plan.shards)
    if evaluated_run is None or (is_guess and evaluated_run.source is None):
        return None
    empty = RunFacts(
        evaluated_run.run_id, evaluated_run.run_attempt, head_shas=evaluated_run.head_shas
    )
    if evaluated_run.source is None:
        return replace(empty, unknown=Note("no_token"))
    try:
        jobs = evaluated_run.source.jobs()
    except RemoteError as error:
        unknown = Note("jobs_refused", {"error": error.what[:200], "advice": error.fix})
        return None if is_guess else replace(empty, unknown=unknown)
    empty = replace(
        empty, head_shas=evaluated_run.head_shas | {job.head_sha for job in jobs if job.head_sha}
    )
    matched = match_foreign_jobs(plan, jobs) if foreign else match_jobs(plan, records, jobs)
    if not any(matched.values()):
        return None if is_guess else replace(empty, unknown=_unmatched(plan, len(jobs)))
    legs = {
        shard.key: JobEvidence(
            next(iter(matched[shard.key]), None),
            plan.job_name(shard),
            limit_s=_limit_s(plan, shard, foreign=foreign),
        )
        for shard in plan.shards
        if len(matched[shard.key]) <= 1 and (matched[shard.key] or not is_guess)
    }
    ambiguous = {shard: candidates for shard, candidates in matched.items() if len(candidates) > 1}
    planning = None if foreign else replanned(plan, matched, jobs)
    known = replace(empty, legs=legs, ambiguous=ambiguous, replanned=planning)
    dead = _dead(plan, records, known)
    return replace(known, legs={**legs, **_query_dead_legs(legs, dead, evaluated_run.source)})


def _limit_s(plan: Plan, shard: Shard, *, foreign: bool) -> float | None:
    """Return the time limit of a shard's job in seconds; None if the plan has none."""
    minutes = shard.timeout_minutes if shard.job else None if foreign else plan.job_minutes
    return None if minutes is None else 60.0 * minutes


def _unmatched(plan: Plan, jobs: int) -> Note:
    """Return the reason why no job matches a shard, with the name that the plan expects."""
    first = next(iter(plan.shards), None)
    if first is not None and plan.combination(first) is not None:
        return Note("jobs_without_shard", {"shard": first.key, "jobs": jobs})
    name = plan.job_name(first) if first is not None else ""
    return Note("jobs_unmatched", {"name": name, "jobs": jobs})


def _dead(plan: Plan, records: Sequence[Record], platform: RunFacts) -> dict[str, Record | None]:
    """Return the shards whose job needs a diagnosis, with their record if there is one."""
    newest = select_of_run(plan, records, platform).newest
    dead: dict[str, Record | None] = {}
    for shard in plan.shards:
        facts, record = platform.legs.get(shard.key), newest.get(shard.key)
        if facts is None or facts.job is None:
            continue
        if record is None and is_idle(shard, facts):
            continue
        if record is None or leg_end(record).problem is not None:
            dead[shard.key] = record
            continue
        if consistency(facts.job, failed=False) != "contradicts":
            continue  # a shortcut for nearly all legs: `read_leg` would read all results
        if not explains_failure(read_leg(shard, record)):
            dead[shard.key] = record
    return dead


def _query_dead_legs(
    legs: Mapping[str, JobEvidence], dead: Mapping[str, Record | None], source: RunApi
) -> dict[str, JobEvidence]:
    """Return the facts of dead legs; only counts of a log, if annotations have the cause."""
    refused, left = dict[str, Note](), COUNTED_CHARS
    answers: dict[str, JobEvidence] = {}
    for number, shard in enumerate(dead):
        facts, job = legs[shard], legs[shard].job
        if number >= MAX_QUERIED_LEGS or job is None:
            limit = Note("not_queried", {"limit": MAX_QUERIED_LEGS})
            answers[shard] = replace(facts, not_fetched=(limit,))
        else:
            annotations, errors = _ask(source.annotations, job, "annotations", refused)
            answers[shard] = replace(facts, annotations=annotations, not_fetched=errors)
    # By attempt, the texts on one job that apply to all jobs which were cancelled with it.
    of_run: dict[int, tuple[str, ...]] = {}
    for facts in answers.values():
        match = first_match(facts.annotations or (), run_wide=True)
        if facts.job is not None and match is not None:
            of_run[facts.job.run_attempt] = (match[1].facts["text"],)
    for number, (shard, record) in enumerate(dead.items()):
        facts, job = answers[shard], answers[shard].job
        if job is None:
            continue
        if job.conclusion == "cancelled":
            facts = answers[shard] = replace(facts, of_run=of_run.get(job.run_attempt, ()))
        is_needed = not is_explained(facts, record)
        is_counted = left > 0 and diagnose(facts, record).ending not in UNCOUNTED
        if number < MAX_QUERIED_LEGS and (is_needed or is_counted):
            log, errors = _ask(source.log_end, job, "log", refused)
            facts = replace(facts, log_endings=endings_note(log or "") if left > 0 else None)
            left -= len(log or "")
            if is_needed:
                not_fetched = (*facts.not_fetched, *errors)
                facts = replace(facts, log=(log or "")[-LOG_CHARS:], not_fetched=not_fetched)
            answers[shard] = facts
    return answers


def _ask(
    request: Callable[[Job], T], job: Job, resource: str, refused: dict[str, Note]
) -> tuple[T | None, tuple[Note, ...]]:
    """Return the answer or the error; a resource that GitHub refused is not requested again."""
    if resource in refused:
        return None, (refused[resource],)
    try:
        return request(job), ()
    except RemoteError as error:
        reason = Note("not_fetched", {"what": resource, "error": error.what[:200]})
        if error.is_lasting:
            refused[resource] = reason
        return None, (reason,)


def match_jobs(
    plan: Plan, records: Iterable[Record], jobs: Sequence[Job]
) -> dict[str, tuple[Job, ...]]:
    """Find the job of each shard in the attempt in which the job ran last.

    Returns:
        for each shard one job; none if no job has its name; several if the name is ambiguous.
    """
    by_name = last_attempts(jobs)
    recorded: dict[str, set[str]] = defaultdict(set)
    for record in records:
        header = record.header
        if header is not None and header.plan_id == plan.id and header.job:
            recorded[header.shard].add(header.job)
    matched: dict[str, tuple[Job, ...]] = {}
    for shard in plan.shards:
        names = _names(plan.job_name(shard), by_name)
        names = names or [name for name in sorted(recorded[shard.key]) if name in by_name]
        if not names and plan.combination(shard) is not None:
            names = sorted(name for name in by_name if ends_with(name, shard.key))
        matched[shard.key] = tuple(job for name in names for job in by_name[name])
    return matched


def match_foreign_jobs(plan: Plan, jobs: Sequence[Job]) -> dict[str, tuple[Job, ...]]:
    """Find the job of each shard among the user's own jobs, by the plan's name or by the key.

    A key, or the plan's name as the end of a longer name, must fit the name of exactly one job.
    """
    by_name = last_attempts(jobs)
    matched: dict[str, tuple[Job, ...]] = {}
    for shard in plan.shards:
        names = _names(shard.job or shard.key, by_name)
        is_guess = not (shard.job and names)
        if not names and shard.job:
            names = [name for name in by_name if ends_with(name, shard.job)]
        elif not names:
            names = [name for name in by_name if name.endswith(f" ({shard.key})")]
        names = [] if is_guess and len(names) != 1 else names
        matched[shard.key] = tuple(job for name in names for job in by_name[name])
    return matched


def _names(name: str, by_name: Mapping[str, object]) -> list[str]:
    """Return the name itself; otherwise the names of jobs of called workflows that end with it."""
    if name in by_name:
        return [name]
    return sorted(full_name for full_name in by_name if full_name.endswith(f" / {name}"))


def replanned(plan: Plan, matched: Mapping[str, Sequence[Job]], jobs: Iterable[Job]) -> Job | None:
    """Return the planning job if it failed in a later attempt than all legs; otherwise None.

    "Re-run all jobs" plans again. If the planning job then fails, no leg has a job in that attempt,
    and the records of the attempt before must not count for the run.
    """
    ran = [job for of_shard in matched.values() for job in of_shard]
    begins = {
        job.name.removesuffix(plan.job_name(shard))
        for shard in plan.shards
        for job in matched[shard.key]
    }
    planning = {f"{begin}{name}" for begin in begins for name in PLANNING}
    named = [job for job in jobs if job.name in planning]
    last = max((job.run_attempt for job in ran), default=0)
    later = (job for job in last_attempt(named) if job.run_attempt > last)
    return next((job for job in later if job.conclusion != "success"), None)


@dataclass(frozen=True, slots=True)
class NeededJob:
    """A job that the guarding job needs; `result` is GitHub's word."""

    name: str
    result: str


def decode_needs(text: str | bytes, source: str = "--needs") -> tuple[NeededJob, ...]:
    """Read `toJSON(needs)`.

    Raises:
        InputError: the text is not a JSON object of objects.
    """
    fix = 'pass GitHub\'s own: NEEDS: ${{ toJSON(needs) }} in env, then --needs "$NEEDS"'
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", where=source, fix=fix) from None
    if not isinstance(document, dict):
        raise InputError(f"expected an object, found {document!r:.60}", where=source, fix=fix)
    jobs = []
    for name, job in sorted(document.items()):
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
    """Find the needed jobs that did not succeed.

    Args:
        is_explained: the records have a reason for the failure of a job.
        is_excused: this reason does not fail the run.
        names: names of the matrix job by the records; "" for an unknown name.
    """
    if not jobs:
        yield Finding("needs_empty")
    legs = {job.name for job in jobs} & ((names - {""}) or {LEGS})
    red = {job.name for job in jobs if job.result == "failure" and job.name not in PLANNING}
    if not legs and len(red) == 1:
        legs = red  # the only failed job counts as the job of the legs
    for job in jobs:
        if job.result == "success":
            continue
        kind = "job_not_successful"
        if job.result == "failure":
            kind = "job_unexplained"
            if is_excused and job.name in legs:
                kind = "job_excused"
            elif is_explained and not is_excused and job.name not in PLANNING:
                kind = "job_failed"
        yield Finding(kind, facts={"job": job.name, "result": job.result})


def check_died_jobs(source: RunApi) -> Iterator[Finding]:
    """Find the jobs that GitHub ended, and counts of logs, if the shards name no jobs."""
    last = chain.from_iterable(last_attempts(source.jobs()).values())
    bad = [job for job in last if job.conclusion in DIED]
    refused, left = dict[str, Note](), COUNTED_CHARS
    for job in bad[:MAX_QUERIED_LEGS]:
        annotations, _ = _ask(source.annotations, job, "annotations", refused)
        log, errors = _ask(source.log_end, job, "log", refused)
        if match := first_match(annotations or ()):
            facts = {"job": job.name, "ending": match[0].ending}
            yield Finding("job_died", facts=facts, evidence=(match[1], *errors))
        if left > 0 and (counted := endings_note(log or "")):
            yield Finding("job_log", facts={"job": job.name, **counted.facts})
        left -= len(log or "")


def check_jobs(legs: Sequence[LegResult], platform: RunFacts) -> Iterator[Finding]:
    """Find legs that ended by themselves although their job failed, or is unknown to GitHub."""
    if platform.unknown is not None:
        yield Finding("jobs_unknown", cause=platform.unknown)
        yield from _attempts_unknown(legs, platform.run_attempt)
        return
    if platform.replanned is not None:
        job = platform.replanned
        facts = {"attempt": job.run_attempt, "job": job.name, "conclusion": conclusion_of(job)}
        yield Finding("not_planned_again", facts=facts)
    for leg in legs:
        if leg.record is not None and leg.end.problem is None:
            yield from _check_leg(leg, platform)


def _check_leg(leg: LegResult, platform: RunFacts) -> Iterator[Finding]:
    shard = leg.shard.key
    failed = explains_failure(leg)
    evidence = platform.legs.get(shard)
    if evidence is None:
        candidates = platform.ambiguous.get(shard, ())
        if candidates:  # without a candidate, the name of the job was only guessed
            yield _ambiguous(shard, candidates, _attempt(leg), failed=failed)
        return
    job = evidence.job
    if job is None:
        yield Finding("record_without_job", shard, facts={"name": evidence.name})
        return
    agreement = consistency(job, failed=failed)
    seen = (job_line(job, evidence.limit_s),)
    facts = {"conclusion": conclusion_of(job)}
    if agreement == "open":
        yield Finding("job_open", shard, evidence=seen)
    elif agreement == "unknown":
        yield Finding("conclusion_unknown", shard, facts=facts, evidence=seen)
    elif agreement == "contradicts":
        death = diagnose(evidence, leg.record)
        cause = death.cause
        if death.ending == "unknown" and cause is not None and cause.kind != "artifact_name":
            cause = None
        yield Finding("job_contradicts", shard, (), facts, cause, evidence=death.evidence)


def _ambiguous(shard: str, jobs: Sequence[Job], attempt: int | None, *, failed: bool) -> Finding:
    """Judge several jobs of one name, one of which is the shard's and may contradict the record.

    It may if the result of a job differs from the record, if a job ran in a later attempt than the
    record's, or if none ran in this attempt. A job of an older attempt belongs to another caller.
    """
    ran = {job.run_attempt for job in jobs}
    bad = [job for job in jobs if consistency(job, failed=failed) in ("contradicts", "unknown")]
    bad = bad or [job for job in jobs if job.run_attempt > (attempt or 1) or attempt not in ran]
    seen = tuple(job_line(job, None) for job in bad[:3])
    level: Level = "incomplete" if bad else "warning"
    return Finding(
        "job_ambiguous", shard, facts={"attempt": attempt}, evidence=seen, stated_level=level
    )


def _attempts_unknown(legs: Sequence[LegResult], now: int | None) -> Iterator[Finding]:
    """Find records of an older attempt, which count only if their leg did not run again.

    Result files without an attempt were downloaded for this attempt.
    """
    legs = [leg for leg in legs if leg.record is None or not is_undated(leg.record)]
    if not legs:
        return
    if now is None:
        yield Finding("attempt_unknown")
        return
    for leg in legs:
        attempt = _attempt(leg)
        if attempt is not None and attempt != now:
            yield Finding("attempt_unknown", leg.shard.key, facts={"theirs": attempt, "ours": now})


def _attempt(leg: LegResult) -> int | None:
    """Return the attempt of a leg's record; 1 for a record written outside of GitHub Actions."""
    header = leg.record.header if leg.record is not None else None
    return (header.run_attempt or 1) if header is not None else None
