"""Why a leg died: its job's facts and its record's last lines -> one ending, with evidence. Pure.

The rules are tried in order, and each needs something that was said or measured: what no rule
knows stays unknown. docs/reference/endings.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ciguard.errors import ExitCode
from ciguard.guard.leg_endings import ADVICE, LegEnd, in_flight_units, last_events, memory_trend
from ciguard.guard.log_patterns import (
    DISK_OF_RUNNER,
    KILLED_CODES,
    Evidence,
    exit_code,
    first_match,
)
from ciguard.text import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.model import Ending, Record
    from ciguard.model.jobs import Job

# All that GitHub says of a job that ended (REST, "conclusion"); another word needs a decision.
CONCLUSIONS: Final = frozenset(
    {"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}
)
WAITING: Final = frozenset({"queued", "waiting", "pending", "requested"})
DEFAULT_LIMIT_S: Final = 360 * 60.0  # GitHub's, where a job declares none
_EXPLAINED_EXIT_CODES: Final = KILLED_CODES | {
    ExitCode.TESTS_FAILED
}  # why a leg ended, disk or no disk
RECORD_ARTIFACT: Final = "ciguard-record-"
TESTS_STEP: Final = "Run the shard"  # as templates/steps.yml.j2 calls it
RUNNER_STEPS: Final = ("Set up job", "Set up runner", "Initialize containers")

# Endings that a leg writes down without knowing why it was told to end.
ENDED_BY_REQUEST: Final[tuple[Ending, ...]] = ("unknown", "cancelled")

ENDING_DIAGNOSIS_TEXT: Final[Mapping[Ending, str]] = {
    "timeout": "its job hit its time limit",
    "superseded": "a newer run took its place",
    "cancelled": "its job was cancelled",
    "lost_runner": "GitHub lost its runner",
    "runner_shutdown": "its runner was shut down",
    "out_of_memory": "its machine ran out of memory",
    "disk_full": "its disk was full",
    "setup_failed": "a step before its tests failed",
    "never_started": "its job did not start",
    "unknown": "nothing says why it died",
}


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """What GitHub says of a leg's job, as far as it was asked.

    Attributes:
        job: in the attempt in which it ran last; None where the run has no such job.
        shard, name: of the leg, and what its job was looked for by.
        annotations: None where they are not known; then `untold` says why.
        log: its end, "" where it is not known or was not needed.
        limit_s: of the job; None where the plan does not say.
        artifacts: names of all that the run uploaded; None where that is not known.
        of_run: what is said of another job of the run that was cancelled, and true of all.
    """

    job: Job | None
    name: str = ""
    annotations: tuple[str, ...] | None = None
    log: str = ""
    limit_s: float | None = None
    shard: str = ""
    artifacts: tuple[str, ...] | None = None
    of_run: tuple[str, ...] = ()
    not_fetched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One ending, what shows it, and what is to be done about it."""

    ending: Ending
    evidence: tuple[Evidence, ...] = ()
    fix: str = ""
    text: str = ""


def with_diagnosis(end: LegEnd, record: Record | None, facts: JobEvidence | None) -> LegEnd:
    """A leg that did not end by itself, with all that is known of why.

    Args:
        end: by its record alone; one without a problem is returned as it is.
        facts: None where GitHub was not asked.
    """
    if not end.problem:
        return end
    culprits = in_flight_units(record) if record is not None else ()
    seen = _record_evidence(record)
    if end.ending not in ENDED_BY_REQUEST:
        return replace(end, evidence=seen, culprits=culprits)
    if facts is None:
        return replace(end, evidence=seen, culprits=culprits)
    death = diagnose(facts, record)
    if end.ending == "cancelled" and death.ending == "unknown":
        death = replace(death, ending="cancelled", fix="", text="it was told to end")
    evidence = tuple(dict.fromkeys((*death.evidence, *seen)))
    words = death.text or ENDING_DIAGNOSIS_TEXT[death.ending]
    return LegEnd(
        ending=death.ending,
        problem=f"{end.problem}: {words}",
        text=words,
        fix=death.fix or ADVICE[death.ending],
        evidence=(*evidence, *(Evidence("not known", why) for why in facts.not_fetched)),
        culprits=culprits,
    )


def _record_evidence(record: Record | None) -> tuple[Evidence, ...]:
    if record is None:
        return ()
    texts = [memory_trend(record), *last_events(record)]
    return tuple(Evidence("record", text) for text in texts if text)


def is_explained(facts: JobEvidence, record: Record | None) -> bool:
    """Say whether the end of the log can be spared: its job's conclusion alone is not enough."""
    match = first_match(facts.annotations or ()) or first_match(facts.of_run, run_wide=True)
    return match is not None or diagnose(facts, record).ending not in ENDED_BY_REQUEST


def diagnose(facts: JobEvidence, record: Record | None) -> Diagnosis:
    """The ending of a leg that did not end by itself."""
    job = facts.job
    if job is None:
        what = f'no job of this run is called "{facts.name}"'
        fix = "was the matrix made from this plan, unchanged? Look at the job that makes it"
        return Diagnosis("never_started", (Evidence("jobs", what),), fix)
    seen = job_line(job, facts.limit_s)
    if job.status == "completed" and job.conclusion not in CONCLUSIONS:
        words = "its job ended in a word that this version does not know"
        return Diagnosis("unknown", (seen,), "update ciguard, and look at its job", words)
    for rule in (_logged, _never_started, _cancelled, _setup_failed, _killed):
        found = rule(facts, job, record)
        if found is not None:
            return replace(found, evidence=tuple(dict.fromkeys((*found.evidence, seen))))
    return _unknown(facts, job, seen)


def _logged(facts: JobEvidence, job: Job, record: Record | None) -> Diagnosis | None:
    witnesses = _corroborations(facts, job, record)
    found = first_match(facts.annotations or (), facts.log, corroborated=witnesses)
    if found is None:
        return None
    pattern, evidence = found
    witness = witnesses.get(pattern.ending) if evidence.source == "log" else None
    return Diagnosis(pattern.ending, (evidence, *((witness,) if witness else ())), pattern.fix)


def _corroborations(
    evidence: JobEvidence, job: Job, record: Record | None
) -> dict[Ending, Evidence | None]:
    """What else shows an ending whose text may be a test's print; None for the text's own mark."""
    if job.conclusion != "failure":
        return {}
    found: dict[Ending, Evidence | None] = {}
    code = exit_code(evidence.annotations or (), evidence.log)
    trend = memory_trend(record) if record is not None else ""
    is_killed = code is not None and code[0] in KILLED_CODES
    if code is not None and is_killed:
        found["out_of_memory"] = code[1]
    elif trend:
        found["out_of_memory"] = Evidence("record", trend)
    if DISK_OF_RUNNER.search(evidence.log):
        found["disk_full"] = None
    elif (
        record is not None
        and record.end is None
        and (code is None or code[0] not in _EXPLAINED_EXIT_CODES)
    ):
        found["disk_full"] = Evidence("record", "it stops, and nothing killed its leg")
    return found


def _never_started(_: JobEvidence, job: Job, record: Record | None) -> Diagnosis | None:
    if record is not None:
        return None
    waiting = job.status in WAITING
    if not waiting and job.conclusion != "skipped":
        return None
    fix = "look why no runner took it" if waiting else "look at its `if:` and the jobs it needs"
    return Diagnosis("never_started", (), f"{fix}, and run it again")


def _cancelled(facts: JobEvidence, job: Job, record: Record | None) -> Diagnosis | None:
    limit_s, wall_s = facts.limit_s or DEFAULT_LIMIT_S, job.wall_s
    if job.conclusion == "timed_out":
        return Diagnosis("timeout")
    if job.conclusion != "cancelled":
        return None
    if wall_s is not None and wall_s >= limit_s and (job.steps or record is not None):
        # The annotation may be missing (no `checks: read`); 20-40 s over the limit are usual.
        return Diagnosis("timeout", text="its job was cancelled at its time limit")
    match = first_match(facts.of_run, run_wide=True)
    if match is not None:
        pattern, evidence = match
        whose = Evidence(f"{evidence.source} of another job", evidence.text)
        return Diagnosis(pattern.ending, (whose,), pattern.fix)
    if not job.steps and record is None:
        return Diagnosis("never_started", text="its job was cancelled before it started")
    return Diagnosis("cancelled", text="its job was cancelled, and nothing says by whom")


def _setup_failed(_: JobEvidence, job: Job, record: Record | None) -> Diagnosis | None:
    failed = next((step for step in job.steps if step.conclusion == "failure"), None)
    if failed is None or record is not None or job.conclusion != "failure":
        return None
    tests = [step for step in job.steps if step.name.startswith(TESTS_STEP)]
    before = bool(tests) and failed.number < tests[0].number
    if not before and failed.name not in RUNNER_STEPS:
        return None
    fix = f'look at the step "{failed.name}" in the log of its job'
    return Diagnosis("setup_failed", (Evidence("step", f"{failed.name}: failure"),), fix)


def _killed(facts: JobEvidence, job: Job, record: Record | None) -> Diagnosis | None:
    """Exit codes of kills prove nothing alone: memory that ran out is the second witness."""
    code = exit_code(facts.annotations or (), facts.log)
    trend = memory_trend(record) if record is not None else ""
    if code is None or code[0] not in KILLED_CODES or not trend or job.conclusion != "failure":
        return None
    return Diagnosis("out_of_memory", (code[1], Evidence("record", trend)))


def _unknown(facts: JobEvidence, job: Job, job_evidence: Evidence) -> Diagnosis:
    """What there is, quoted; no ending is made of it."""
    code = exit_code(facts.annotations or (), facts.log)
    failed = [
        Evidence("step", f"{step.name}: {step.conclusion}")
        for step in job.steps
        if step.conclusion not in ("success", "skipped", None)
    ]
    uploaded, upload_fix = _upload(facts, job)
    match = first_match((), facts.log)  # without a witness, else it had decided
    evidence = (*([code[1]] if code else ()), *([match[1]] if match else ()), *failed[:3])
    evidence = (*evidence, *uploaded, job_evidence)
    if job.status != "completed":
        return Diagnosis("unknown", evidence, "wait until it has ended, and run this again")
    if job.conclusion == "success":
        words = "its job says success"
        fix = upload_fix or "look at the step that uploads its record, and run it again"
        return Diagnosis("unknown", evidence, fix, words)
    if code is not None and code[0] in KILLED_CODES:
        words = f"something killed it (exit code {code[0]}), and nothing says what"
        return Diagnosis("unknown", evidence, text=words)
    if code is not None and code[0] not in (0, 1):
        words = f"its tests ended with exit code {code[0]}"
        fix = upload_fix or "look at the step that uploads its record, and run it again"
        return Diagnosis("unknown", evidence, fix, words)
    return Diagnosis("unknown", evidence, upload_fix)


def _upload(facts: JobEvidence, job: Job) -> tuple[tuple[Evidence, ...], str]:
    """Whether a leg's record was uploaded, where all artifacts are known and are called as ours."""
    records = [name for name in facts.artifacts or () if name.startswith(RECORD_ARTIFACT)]
    if not records:
        return (), ""
    end = f"-{facts.shard}-{job.run_attempt}"
    own = [name for name in records if name.endswith(end)]
    if not own:
        none = f"none of the run's {len(records):,} records ends"
        none = none if len(records) > 1 else "the run's one record does not end"
        what = f"{none} in {end}: nothing was uploaded"
        return (Evidence("artifacts", what),), ""
    fix = "look at the step that downloads the records: it was uploaded and is not here"
    return (Evidence("artifacts", f"{own[0]} was uploaded"),), fix


Consistency = Literal["agrees", "open", "contradicts", "unknown"]


def consistency(job: Job, *, failed: bool) -> Consistency:
    """What a job says of a leg whose record says it ended by itself.

    Args:
        failed: the record says why a step fails.
    """
    if job.status == "in_progress":
        return "open"  # the list lags behind what `needs` knows
    if job.status in WAITING:
        return "contradicts"
    if job.status != "completed" or job.conclusion not in CONCLUSIONS:
        return "unknown"
    agrees = job.conclusion == "success" or (job.conclusion == "failure" and failed)
    return "agrees" if agrees else "contradicts"


def job_line(job: Job, limit_s: float | None) -> Evidence:
    """What GitHub lists of a job, in one line."""
    word = job.conclusion if job.status == "completed" else job.status
    took = f" after {duration(job.wall_s)}" if job.wall_s is not None and job.steps else ""
    limit = f", its limit is {duration(limit_s)}" if limit_s is not None and took else ""
    attempt = f" in attempt {job.run_attempt}" if job.run_attempt > 1 else ""
    return Evidence("job", f"{job.name}: {word}{took}{limit}{attempt}", job.url)
