"""GitHub's facts of a run, in the fewest calls: one list of jobs, two calls for a dead leg.

Also which job is which shard, in which attempt it ran last, and where GitHub's word on a job and
its leg's record do not agree. In `toJSON(needs)` a matrix is one job. `continue-on-error` shows as
success, a skipped or cancelled leg may show as either: so it can only make a verdict worse, never
better. Pure but for the `Source` that it is handed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ciguard.errors import InputError, RemoteError
from ciguard.guard.diagnosis import (
    JobEvidence,
    conclusion_of,
    consistency,
    diagnose,
    has_refused_artifact,
    is_explained,
    job_line,
    leg_end,
)
from ciguard.guard.legs import LegResult, explains_failure, is_idle, read_leg
from ciguard.guard.log_patterns import first_match
from ciguard.guard.record_selection import Selection, is_undated, select
from ciguard.guard.verdict import Finding
from ciguard.model.jobs import Job, last_attempt
from ciguard.model.shard_names import ends_with
from ciguard.render.notes import Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ciguard.guard.state import Level
    from ciguard.model import Plan, Record, Shard

T = TypeVar("T")

# The jobs that plan, of `init` and of a workflow with the actions: no test explains their failure.
PLANNING: Final = ("plan", "ciguard")
MAX_QUERIED_LEGS: Final = 60  # of an hour's 1,000 calls a report may not take the most
LEGS: Final = "legs"  # the job of the legs that `init` writes: their failed tests explain it


class EvaluatedRun(Protocol):
    """The run that is judged; `source` is None where there is no token to ask it with."""

    @property
    def run_id(self) -> int: ...
    @property
    def run_attempt(self) -> int | None: ...
    @property
    def head_shas(self) -> frozenset[str]: ...
    @property
    def source(self) -> RunApi | None: ...


class RunApi(Protocol):
    """One run on GitHub; every method may raise RemoteError."""

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs of all attempts."""

    def annotations(self, job: Job) -> tuple[str, ...]:
        """Return the annotations of a job."""

    def log_end(self, job: Job) -> str:
        """The last lines of its log."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts that GitHub gave of a run.

    Attributes:
        run_id, run_attempt: of the run that is judged, now.
        legs: by shard, of those whose job is known, and of those that have none.
        ambiguous: by shard, jobs of which one is its own, and it is unknown which.
        unknown: why the jobs are not known; None where they are.
        head_shas: commits that the run is of, by its event and its jobs.
        replanned: the job that planned anew in an attempt without legs, and did not end well.
    """

    run_id: int | None = None
    run_attempt: int | None = None
    legs: Mapping[str, JobEvidence] = field(default_factory=dict)
    ambiguous: Mapping[str, tuple[Job, ...]] = field(default_factory=dict)
    unknown: Note | None = None
    head_shas: frozenset[str] = frozenset()
    replanned: Job | None = None

    @property
    def attempts(self) -> dict[str, int]:
        """In which attempt each leg ran last, where that is known."""
        return {
            shard: facts.job.run_attempt
            for shard, facts in self.legs.items()
            if facts.job is not None
        }

    @property
    def job_pages(self) -> dict[str, str]:
        """By shard, the address of its job's page."""
        return {shard: facts.job.url for shard, facts in self.legs.items() if facts.job is not None}


def select_of_run(plan: Plan, records: Iterable[Record], platform: RunFacts | None) -> Selection:
    """Sort out the records, by what GitHub says of the run; None where it was not asked."""
    # Which run is judged is known also where GitHub says nothing of its jobs.
    known = platform if platform is not None else RunFacts()
    return select(plan, records, known.attempts, known.run_id, known.head_shas)


def query_jobs(
    plan: Plan,
    records: Sequence[Record],
    evaluated_run: EvaluatedRun | None,
    *,
    foreign: bool = False,
) -> RunFacts | None:
    """Ask about the run, and about each leg that is dead or whose job contradicts its record.

    A refusal is no end: what is not known is said, and the legs are judged by the rest.

    Args:
        evaluated_run: None outside of a run: then GitHub is not asked, and nothing is missed.
        foreign: the jobs are the user's own. Where the plan does not name them they are guessed by
            the keys of the shards, and where that fails nothing is missed either.
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
    twins = {shard: found for shard, found in matched.items() if len(found) > 1}
    planning = None if foreign else replanned(plan, matched, jobs)
    known = replace(empty, legs=legs, ambiguous=twins, replanned=planning)
    dead = _dead(plan, records, known)
    return replace(known, legs={**legs, **_query_dead_legs(legs, dead, evaluated_run.source)})


def _limit_s(plan: Plan, shard: Shard, *, foreign: bool) -> float | None:
    """The limit of a shard's job, where the plan knows it."""
    minutes = shard.timeout_minutes if shard.job else None if foreign else plan.job_minutes
    return None if minutes is None else 60.0 * minutes


def _unmatched(plan: Plan, jobs: int) -> Note:
    """Explain that no job is that of a shard: by the names in the matrix of the plan."""
    first = next(iter(plan.shards), None)
    if first is not None and plan.combination(first) is not None:
        return Note("jobs_without_shard", {"shard": first.key, "jobs": jobs})
    name = plan.job_name(first) if first is not None else ""
    return Note("jobs_unmatched", {"name": name, "jobs": jobs})


def _dead(plan: Plan, records: Sequence[Record], platform: RunFacts) -> dict[str, Record | None]:
    """Shards about which more must be known, with what they left."""
    newest = select_of_run(plan, records, platform).newest
    found: dict[str, Record | None] = {}
    for shard in plan.shards:
        facts, record = platform.legs.get(shard.key), newest.get(shard.key)
        if facts is None or facts.job is None:
            continue
        if record is None and is_idle(shard, facts):
            continue
        if record is None or leg_end(record).problem is not None:
            found[shard.key] = record
            continue
        if consistency(facts.job, failed=False) != "contradicts":
            continue  # of nearly all legs, whose results need not be gone through for this
        if not explains_failure(read_leg(shard, record)):
            found[shard.key] = record
    return found


def _query_dead_legs(
    legs: Mapping[str, JobEvidence], dead: Mapping[str, Record | None], source: RunApi
) -> dict[str, JobEvidence]:
    """The facts of the dead legs, annotations first: they often spare the log."""
    refused: dict[str, Note] = {}
    found: dict[str, JobEvidence] = {}
    for number, shard in enumerate(dead):
        facts, job = legs[shard], legs[shard].job
        if number >= MAX_QUERIED_LEGS or job is None:
            limit = Note("not_queried", {"limit": MAX_QUERIED_LEGS})
            found[shard] = replace(facts, not_fetched=(limit,))
        else:
            annotations, errors = _ask(source.annotations, job, "annotations", refused)
            found[shard] = replace(facts, annotations=annotations, not_fetched=errors)
    of_run = _run_wide_texts(found.values())
    for number, (shard, record) in enumerate(dead.items()):
        facts, job = found[shard], found[shard].job
        if job is None:
            continue
        if job.conclusion == "cancelled":
            facts = found[shard] = replace(facts, of_run=of_run.get(job.run_attempt, ()))
        if number < MAX_QUERIED_LEGS and not is_explained(facts, record):
            log, errors = _ask(source.log_end, job, "log", refused)
            not_fetched = (*facts.not_fetched, *errors)
            found[shard] = replace(facts, log=log or "", not_fetched=not_fetched)
    return found


def _ask(
    request: Callable[[Job], T], job: Job, what: str, refused: dict[str, Note]
) -> tuple[T | None, tuple[Note, ...]]:
    """The answer, or why there is none; what was refused for good is not asked again."""
    if what in refused:
        return None, (refused[what],)
    try:
        return request(job), ()
    except RemoteError as error:
        reason = Note("not_fetched", {"what": what, "error": error.what[:200]})
        if error.is_lasting:
            refused[what] = reason
        return None, (reason,)


def _run_wide_texts(queried: Iterable[JobEvidence]) -> dict[int, tuple[str, ...]]:
    """By attempt, a text that is said of one job and true of all that were cancelled with it."""
    found: dict[int, tuple[str, ...]] = {}
    for facts in queried:
        match = first_match(facts.annotations or (), run_wide=True)
        if facts.job is not None and match is not None:
            found[facts.job.run_attempt] = (match[1].facts["text"],)
    return found


def match_jobs(
    plan: Plan, records: Iterable[Record], jobs: Sequence[Job]
) -> dict[str, tuple[Job, ...]]:
    """The job of each shard in the attempt in which it ran last.

    Returns:
        For each shard one; none where no job has its name; several where it is unknown which of
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
        if not names and plan.combination(shard) is not None:
            names = sorted(name for name in by_name if ends_with(name, shard.key))
        found[shard.key] = tuple(job for name in names for job in last_attempt(by_name[name]))
    return found


def match_foreign_jobs(plan: Plan, jobs: Sequence[Job]) -> dict[str, tuple[Job, ...]]:
    """Match jobs that their owner names: after the plan, or with the shard's key.

    A name that begins otherwise than the plan says, and a key, must fit the name of one job alone.
    """
    by_name: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        by_name[job.name].append(job)
    found: dict[str, tuple[Job, ...]] = {}
    for shard in plan.shards:
        names = _names(shard.job or shard.key, by_name)
        if shard.job and not names:
            names = [name for name in by_name if ends_with(name, shard.job)]
            names = names if len(names) == 1 else []
        elif not shard.job:
            names = names or [name for name in by_name if name.endswith(f" ({shard.key})")]
            names = names if len(names) == 1 else []
        found[shard.key] = tuple(job for name in names for job in last_attempt(by_name[name]))
    return found


def _names(name: str, by_name: Mapping[str, object]) -> list[str]:
    """Return the name itself; else the names of jobs of called workflows that end with it."""
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
    planning = {f"{begin}{name}" for begin in begins for name in PLANNING}
    named = [job for job in jobs if job.name in planning]
    last = max((job.run_attempt for job in ran), default=0)
    later = (job for job in last_attempt(named) if job.run_attempt > last)
    return next((job for job in later if job.conclusion != "success"), None)


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
        yield Finding("needs_empty")
    legs = {job.name for job in jobs} & {LEGS, *names}
    red = {job.name for job in jobs if job.result == "failure" and job.name not in PLANNING}
    if not legs and len(red) == 1:
        legs = red  # it is unknown which one it is, and no other needs an excuse
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


def check_jobs(legs: Sequence[LegResult], platform: RunFacts) -> Iterator[Finding]:
    """Find legs that ended by themselves, and whose jobs GitHub shows otherwise or not at all."""
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
        twins = platform.ambiguous.get(shard, ())
        if twins:  # else its job was only guessed, and no job has the name
            yield _ambiguous(shard, twins, _attempt(leg), failed=failed)
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
        is_named = death.ending != "unknown" or has_refused_artifact(death)
        cause = death.cause if is_named else None
        yield Finding("job_contradicts", shard, (), facts, cause, evidence=death.evidence)


def _ambiguous(shard: str, jobs: Sequence[Job], attempt: int | None, *, failed: bool) -> Finding:
    """Judge several jobs of one name: one that ended otherwise than the record may be the shard's.

    So it may where one ran again after the record was written, or none in the record's attempt. One
    of an older attempt is a caller's that was not run again.
    """
    ran = {job.run_attempt for job in jobs}
    bad = [job for job in jobs if consistency(job, failed=failed) in ("contradicts", "unknown")]
    bad = bad or [job for job in jobs if job.run_attempt > (attempt or 1) or attempt not in ran]
    seen = tuple(job_line(one, None) for one in bad[:3])
    level: Level = "incomplete" if bad else "warning"
    return Finding(
        "job_ambiguous", shard, facts={"attempt": attempt}, evidence=seen, stated_level=level
    )


def _attempts_unknown(legs: Sequence[LegResult], now: int | None) -> Iterator[Finding]:
    """After a re-run, a leg's older record counts only if the leg did not run again.

    Result files that are just there are those that were downloaded for this attempt.
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
            facts = {"theirs": attempt, "ours": now}
            yield Finding("attempt_unknown", leg.shard.key, facts=facts)


def _attempt(leg: LegResult) -> int | None:
    """Return the attempt of its record; one written outside of GitHub Actions is a first."""
    header = leg.record.header if leg.record is not None else None
    return (header.run_attempt or 1) if header is not None else None
