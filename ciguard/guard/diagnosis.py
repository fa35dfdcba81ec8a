"""The cause of a job's end, with evidence from its record and from GitHub's facts. Pure.

A leg is one execution of a shard by a job. The record decides if it has an end. Otherwise rules are
tried in order, each of which needs a text or a measurement; if none applies, the ending is unknown.
docs/reference/endings.md has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from ciguard.codec.results.base import FILE
from ciguard.errors import ExitCode
from ciguard.guard.log_patterns import (
    DISK_OF_RUNNER,
    KILLED_CODES,
    exit_code,
    failed_allocation,
    first_match,
    refused_artifact,
    step_error,
)
from ciguard.logs.actions_patterns import valid_artifact_name
from ciguard.model import Ending, Record, UnitKey
from ciguard.model.jobs import Job
from ciguard.model.machine_use import machine_use
from ciguard.render.notes import Note
from ciguard.run.policy.guard_rail import memory_thresholds
from ciguard.text import last_line

# All values of "conclusion" in GitHub's REST API; with another word the ending is unknown.
CONCLUSIONS: Final = frozenset(
    {"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required"}
)
WAITING: Final = frozenset({"queued", "waiting", "pending", "requested"})
DEFAULT_LIMIT_S: Final = 360 * 60.0  # GitHub's, if the job declares no limit
# These codes explain the end of a leg, even if its disk was full.
_EXPLAINED_EXIT_CODES: Final = KILLED_CODES | {ExitCode.TESTS_FAILED}
# The name in templates/workflow.yml.j2, or GitHub's name for an unnamed step that uses an action.
TESTS_STEP: Final = re.compile(r"Run the shard|Run \S+/run(@\S+)?$")
RUNNER_STEPS: Final = ("Set up job", "Set up runner", "Initialize containers")
LOW_HEADROOM_RATIO: Final = 0.5  # of the largest headroom, as some machines never have much
_MEMORY_EVENTS: Final = ("memory_low", "memory_not_reclaimable", "memory_guard", "signal")

# Endings in a record that do not name the cause: the leg received a request to stop.
ENDED_BY_REQUEST: Final[tuple[Ending, ...]] = ("unknown", "cancelled")


@dataclass(frozen=True, slots=True)
class JobEvidence:
    """GitHub's facts of the job of a leg.

    Attributes:
        job: the job in its last attempt; None if the run has no such job.
        name: the name by which the job was searched.
        annotations: None if they are unknown; `not_fetched` then has the reason.
        log: the end of the log; "" if it is unknown or was not needed.
        log_endings: number of timeouts and of memory failures in a longer part of the log.
        limit_s: time limit of the job; None if the plan has no limit.
        of_run: texts on another cancelled job of the run that apply to all cancelled jobs.
        not_fetched: the facts that GitHub refused, with the reasons.
    """

    job: Job | None
    name: str = ""
    annotations: tuple[str, ...] | None = None
    log: str = ""
    log_endings: Note | None = None
    limit_s: float | None = None
    of_run: tuple[str, ...] = ()
    not_fetched: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class LegEnd:
    """The end of a leg, with its evidence.

    Attributes:
        ending: "unknown" if no evidence decides it.
        problem: the reason why the leg counts as incomplete; None if it ended by itself.
        cause: the reason for the problem, by the facts of the job.
        culprits: the units that were running.
    """

    ending: Ending
    problem: Note | None = None
    cause: Note | None = None
    evidence: tuple[Note, ...] = ()
    culprits: tuple[UnitKey, ...] = ()


def leg_end(record: Record) -> LegEnd:
    """Return the end of a leg by its record alone: by the last line, if this is an end line."""
    if record.end is None:
        return LegEnd("unknown", _unended(record))
    ending = record.end.ending
    if ending != "completed":
        return LegEnd(ending, _own_reason(record, ending))
    code = record.end.exit_code
    if code not in (None, ExitCode.OK, ExitCode.TESTS_FAILED, ExitCode.INCOMPLETE):
        return LegEnd(ending, Note("exit_code", {"exit_code": code}))
    return LegEnd(ending)


def _unended(record: Record) -> Note:
    if is_from_result_files(record) and record.damage:
        more = len(record.damage) - 1 or None
        return Note("damaged", {"damage": record.damage[0], "more": more})
    if not (record.starts or record.results or record.processes):
        return Note("empty_record")
    if _ends_at_checkpoint(record):
        return Note("checkpoint")
    return Note("truncated", {"last_s": record.wall_s})


def is_from_result_files(record: Record) -> bool:
    """Return whether a record was made only of result files, which the user's own jobs wrote.

    Result files that a leg collected name a process of the leg.
    """
    return not (record.starts or record.processes) and any(
        event.kind == FILE and event.process is None for event in record.events
    )


def _ends_at_checkpoint(record: Record) -> bool:
    """Return whether the last step paused at a checkpoint, and no step resumed the tests."""
    steps = [event for event in record.events if event.kind in ("paused", "resumed")]
    last = max(steps, key=lambda step: (step.at_s or 0.0, step.kind == "resumed"), default=None)
    return last is not None and last.kind == "paused"


def _own_reason(record: Record, ending: Ending) -> Note:
    """Return the recorded ending, with the last output of a process that caused it."""
    kinds = {"setup_failed": "last_output", "crash": "last_output", "unknown": "internal_error"}
    outputs = [last_line(line.detail) for line in record.events if line.kind == kinds.get(ending)]
    kind = "internal_error" if ending == "unknown" and outputs else ending
    return Note(kind, {"output": outputs[-1] if outputs else None})


def in_flight_units(record: Record) -> tuple[UnitKey, ...]:
    """Return the started units without a result, by start time; any of them may be the culprit.

    A unit with several cases runs until its process ends or starts the next unit.
    """
    ended_processes = {line.process for line in record.process_ends}
    reported = {(line.process or 0, line.unit_key) for line in record.results}
    last = {line.unit_key: (line.process or 0, line.at_s or 0.0) for line in record.starts}
    running = [
        (at_s, key)
        for key, (process, at_s) in last.items()
        if process not in ended_processes and (process, key) not in reported
    ]
    return tuple(key for _, key in sorted(running))


def memory_trend(record: Record | None) -> Note | None:
    """Return the fall of free memory before the end of the record; None if memory did not fall.

    Memory falls if the last headroom is below the first threshold of the leg's guard rail, and less
    than half of the largest headroom.
    """
    if record is None:
        return None
    samples = [
        (line.at_s, left)
        for line in record.samples
        if (left := line.available_bytes if line.headroom_bytes is None else line.headroom_bytes)
        is not None
    ]
    if not samples:
        return None
    memory = record.header.runner.memory_bytes if record.header is not None else None
    at_s, left = max(samples)
    most_at_s, most = max(samples, key=lambda pair: pair[1])
    if left >= memory_thresholds(memory or 0)[0] or left >= LOW_HEADROOM_RATIO * most:
        return None
    facts = {"most_bytes": most, "most_at_s": most_at_s, "left_bytes": left, "at_s": at_s}
    return Note("memory", {**facts, "memory_bytes": memory or None})


def peak_note(record: Record | None) -> Note | None:
    """Return the programs at a leg's peak; None if none of them ran without another one."""
    peak = machine_use(record.samples).peak if record is not None else None
    return Note("peak_programs", asdict(peak)) if peak and peak.apart_bytes else None


def with_diagnosis(end: LegEnd, record: Record | None, facts: JobEvidence | None) -> LegEnd:
    """Return the end of a leg with all evidence; an end without a problem is unchanged.

    The evidence of the record is the fall of memory, and its last three signals and memory events.

    Args:
        end: the end by the record alone.
        facts: None if GitHub was not asked.
    """
    if end.problem is None:
        return end
    events = [line for line in record.events if line.kind in _MEMORY_EVENTS] if record else []
    events.sort(key=lambda line: line.at_s or 0.0)
    notes = (
        memory_trend(record),
        peak_note(record),
        *(
            Note("event", {"event": line.kind, "at_s": line.at_s, "detail": line.detail})
            for line in events[-3:]
        ),
        *((failed_allocation(facts.log), facts.log_endings) if facts is not None else ()),
    )
    culprits = in_flight_units(record) if record is not None else ()
    own = replace(end, evidence=tuple(filter(None, notes)), culprits=culprits)
    if end.ending not in ENDED_BY_REQUEST or facts is None:
        return own
    death = diagnose(facts, record)
    ending = end.ending if death.ending == "unknown" else death.ending
    is_known = death.cause is None or death.cause.kind == end.problem.kind
    evidence = (*_distinct((*death.evidence, *own.evidence)), *facts.not_fetched)
    return replace(own, ending=ending, cause=None if is_known else death.cause, evidence=evidence)


def _distinct(notes: Sequence[Note]) -> tuple[Note, ...]:
    return tuple(note for position, note in enumerate(notes) if note not in notes[:position])


def _diagnosis(
    ending: Ending, *evidence: Note, kind: str | None = None, facts: Mapping[str, Any] | None = None
) -> LegEnd:
    """Return an end whose cause has this kind, by default the ending."""
    cause = Note(kind or ending, facts or {})
    return LegEnd(ending, cause=cause, evidence=evidence)


def is_explained(facts: JobEvidence, record: Record | None) -> bool:
    """Return whether the cause is known without the log, as for a failed step before the tests."""
    match = first_match(facts.annotations or ()) or first_match(facts.of_run, run_wide=True)
    if match is not None or _refused_artifact(facts, record) is not None:
        return True
    return diagnose(facts, record).ending not in (*ENDED_BY_REQUEST, "setup_failed")


def diagnose(facts: JobEvidence, record: Record | None) -> LegEnd:
    """Return the end of a leg that did not end by itself, by the first rule that applies."""
    job = facts.job
    if job is None:
        return _diagnosis("never_started", kind="no_job", facts={"name": facts.name})
    job_evidence = job_line(job, facts.limit_s)
    if job.status == "completed" and job.conclusion not in CONCLUSIONS:
        conclusion = {"conclusion": f"{job.conclusion}"}
        return _diagnosis("unknown", job_evidence, kind="conclusion_unknown", facts=conclusion)
    for rule in (_logged, _never_started, _cancelled, _setup_failed, _killed):
        end = rule(facts, job, record)
        if end is not None:
            return replace(end, evidence=_distinct((*end.evidence, job_evidence)))
    return _unknown(facts, job, job_evidence, record)


def _logged(facts: JobEvidence, job: Job, record: Record | None) -> LegEnd | None:
    """Apply the rule of texts in annotations and log; some texts in a log need a second witness."""
    witnesses = _corroborations(facts, job, record)
    match = first_match(facts.annotations or (), facts.log, corroborated=witnesses)
    if match is None:
        return None
    pattern, text = match
    witness = witnesses.get(pattern.ending) if text.kind == "log" else None
    evidence = (text, *([witness] if witness else ()))
    if pattern.cause == "job_limit":
        return replace(_at_limit(facts), evidence=evidence)
    return _diagnosis(pattern.ending, *evidence, kind=pattern.cause)


def _corroborations(
    facts: JobEvidence, job: Job, record: Record | None
) -> dict[Ending, Note | None]:
    """Return by ending the second witness of texts that a test may print; None: not needed."""
    if job.conclusion != "failure":
        return {}
    witnesses: dict[Ending, Note | None] = {}
    code = exit_code(facts.annotations or (), facts.log)
    trend = memory_trend(record)
    if code is not None and code[0] in KILLED_CODES:
        witnesses["out_of_memory"] = code[1]
    elif trend is not None:
        witnesses["out_of_memory"] = trend
    if DISK_OF_RUNNER.search(facts.log):
        witnesses["disk_full"] = None
    elif (
        record is not None
        and record.end is None
        and (code is None or code[0] not in _EXPLAINED_EXIT_CODES)
    ):
        witnesses["disk_full"] = Note("stops")
    return witnesses


def _never_started(_: JobEvidence, job: Job, record: Record | None) -> LegEnd | None:
    if record is not None or (job.status not in WAITING and job.conclusion != "skipped"):
        return None
    conclusion = {"conclusion": conclusion_of(job)}
    return _diagnosis("never_started", kind="not_executed", facts=conclusion)


def _cancelled(facts: JobEvidence, job: Job, record: Record | None) -> LegEnd | None:
    limit_s, wall_s = facts.limit_s or DEFAULT_LIMIT_S, job.wall_s
    if job.conclusion == "timed_out":
        return _at_limit(facts)
    if job.conclusion != "cancelled":
        return None
    if wall_s is not None and wall_s >= limit_s and (job.steps or record is not None):
        # Without `checks: read` there is no annotation; 20-40 s over the limit are usual.
        return _at_limit(facts)
    match = first_match(facts.of_run, run_wide=True)
    if match is not None:
        pattern, evidence = match
        return _diagnosis(pattern.ending, replace(evidence, kind="other_job"), kind=pattern.cause)
    if not job.steps and record is None:
        return _diagnosis("never_started")
    return _diagnosis("cancelled")


def _at_limit(facts: JobEvidence) -> LegEnd:
    return _diagnosis("timeout", kind="job_limit", facts={"limit_s": facts.limit_s})


def _setup_failed(facts: JobEvidence, job: Job, record: Record | None) -> LegEnd | None:
    failed = next((step for step in job.steps if step.conclusion == "failure"), None)
    if failed is None or record is not None or job.conclusion != "failure":
        return None
    tests = [step for step in job.steps if TESTS_STEP.match(step.name)]
    before = bool(tests) and failed.number < tests[0].number
    if not before and failed.name not in RUNNER_STEPS:
        return None
    evidence = Note("step", {"name": failed.name, "conclusion": failed.conclusion})
    cause = {"step": failed.name, "error": step_error(facts.log, job.steps, failed)}
    return _diagnosis("setup_failed", evidence, kind="step_failed", facts=cause)


def _killed(facts: JobEvidence, job: Job, record: Record | None) -> LegEnd | None:
    """Apply the rule of exit codes of a kill, which need samples of falling memory as well."""
    code, trend = exit_code(facts.annotations or (), facts.log), memory_trend(record)
    if code is None or code[0] not in KILLED_CODES or not trend or job.conclusion != "failure":
        return None
    return _diagnosis("out_of_memory", code[1], trend)


def _refused_artifact(facts: JobEvidence, record: Record | None) -> tuple[str, Note] | None:
    """Return the artifact that GitHub refused because of its name, if it may be the record.

    If a truncated record was uploaded, no artifact of it was refused.
    """
    if record is not None and record.end is None:
        return None
    return refused_artifact(facts.annotations or (), facts.log)


def _unknown(facts: JobEvidence, job: Job, job_evidence: Note, record: Record | None) -> LegEnd:
    """Return an unknown ending with the texts that may help a person."""
    refused = _refused_artifact(facts, record)
    if refused is not None:
        name, evidence = refused
        names = {"name": name, "valid_name": valid_artifact_name(name)}
        return _diagnosis("unknown", evidence, job_evidence, kind="artifact_name", facts=names)
    code = exit_code(facts.annotations or (), facts.log)
    failed = [
        Note("step", {"name": step.name, "conclusion": step.conclusion})
        for step in job.steps
        if step.conclusion not in ("success", "skipped", None)
    ]
    match = first_match((), facts.log)  # a text without its second witness
    steps = (step for step in job.steps if step.conclusion == "failure")
    errors = [step_error(facts.log, job.steps, step) for step in steps]
    quoted = [Note("log", {"text": error}) for error in errors[:1] if error]
    seen = (*([code[1]] if code else ()), *([match[1]] if match else ()), *quoted, *failed[:3])
    cause: Note | None = None
    if job.status != "completed":
        cause = Note("job_open")
    elif job.conclusion == "success":
        cause = Note("job_succeeded")
    elif code is not None and code[0] not in (0, 1):
        cause = Note("tests_exited", {"exit_code": code[0]})
    return LegEnd("unknown", cause=cause, evidence=(*seen, job_evidence))


Consistency = Literal["agrees", "open", "contradicts", "unknown"]


def consistency(job: Job, *, failed: bool) -> Consistency:
    """Compare a job with the regular end of its record, which may explain that a step `failed`."""
    if job.status == "in_progress":
        return "open"  # the list of jobs is older than the end of the job
    if job.status in WAITING:
        return "contradicts"
    if job.status != "completed" or job.conclusion not in CONCLUSIONS:
        return "unknown"
    agrees = job.conclusion == "success" or (job.conclusion == "failure" and failed)
    return "agrees" if agrees else "contradicts"


def conclusion_of(job: Job) -> str:
    """Return GitHub's conclusion of a completed job, otherwise its status."""
    return f"{job.conclusion if job.status == 'completed' else job.status}"[:40]


def job_line(job: Job, limit_s: float | None) -> Note:
    """Return the facts of a job as evidence."""
    wall_s = job.wall_s if job.steps else None
    facts = {
        "name": job.name,
        "conclusion": conclusion_of(job),
        "wall_s": wall_s,
        "limit_s": limit_s if wall_s is not None else None,
        "attempt": job.run_attempt if job.run_attempt > 1 else None,
    }
    return Note("job", facts, job.url)
