"""How a leg ended by its own record, and what the last lines of a cut record show. Pure.

What the platform says of a leg that did not end by itself is added in diagnosis.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.codec.results.base import FILE
from ciguard.errors import ExitCode
from ciguard.model import UnitKey
from ciguard.run.policy.rules import memory_thresholds
from ciguard.text import duration, size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.guard.log_patterns import Evidence
    from ciguard.model import Ending, EventLine, Record

# What to do about a leg that ended so; the keys are all the endings but completed.
ADVICE: Final[Mapping[Ending, str]] = {
    "timeout": "raise its limit, or plan more shards",
    "out_of_memory": "plan with fewer processes, or give its pool more memory",
    "crash": "look at the last output in its record",
    "deadline": "plan more shards, raise plan.limit, or set a timeout for a test that hangs",
    "memory_guard": "plan with fewer processes, or give its pool more memory",
    "cancelled": "find out who cancelled it, and run it again",
    "superseded": "nothing: a newer run takes its place",
    "lost_runner": "run it again; if it repeats, give its pool more memory",
    "runner_shutdown": "run it again",
    "disk_full": "free disk space on the runner before the tests",
    "setup_failed": "look at the last output in its record: no test could start",
    "never_started": "look at its job: the step with the tests did not begin",
    "unknown": "look at the log of its job, and run it again",
}

# What a leg says of its own end; why, only GitHub may know.
ENDING_TEXT: Final[Mapping[Ending, str]] = {
    "timeout": "it hit a time limit",
    "out_of_memory": "memory ran out",
    "crash": "it crashed",
    "deadline": "it stopped at its deadline",
    "memory_guard": "it stopped before memory ran out",
    "cancelled": "it was cancelled",
    "superseded": "it was cancelled for a newer run",
    "lost_runner": "its runner was lost",
    "runner_shutdown": "its runner was shut down",
    "disk_full": "its disk was full",
    "setup_failed": "its tests could not be set up",
    "never_started": "it did not start",
    "unknown": "it does not say why it ended",
}

# What to do about units without a result, by the kind of the event in which the leg says why.
MISSING_RESULT_ADVICE: Final[Mapping[str, str]] = {
    "not_imported": "fix the import, or install the missing package in the job too",
    "deselected": "find the plugin or option that takes them out, and take it out of the leg",
    "not_found": "renamed or moved since the plan was made? Make the plan again on this commit, "
    "and look at the suite's working folder",
    "not_reached": "look at the last output in its record",
    "in_files": "let the command append a result line for it, or name it in a result file",
    "not_run": "run it again: its leg ended before it started",
    "no_result": "let the command append one result line for each of its units",
}

LOW_HEADROOM_RATIO: Final = 0.5  # a machine that is always short of memory did not die of that


@dataclass(frozen=True, slots=True)
class LegEnd:
    """`ending` is unknown where the record has no end. `problem` is why the leg does not count as
    ended by itself, "" if it does; `fix` what to do about it.

    `why` is the platform's part of the problem, `evidence` what shows it, and `culprits` are the
    units that had begun and not ended.
    """

    ending: Ending
    problem: str = ""
    fix: str = ""
    text: str = ""
    evidence: tuple[Evidence, ...] = ()
    culprits: tuple[UnitKey, ...] = ()


def leg_end(record: Record) -> LegEnd:
    """Say how a leg ended: by its last line, if there is one, and nothing else."""
    if record.end is None:
        if is_from_result_files(record) and record.damage:
            more = len(record.damage) - 1
            what = f"a result file is not whole: {record.damage[0]}"
            what += f" and {more} more" * bool(more)
        elif not (record.starts or record.results or record.processes):
            what = "its record is empty: it has no results and no end"
        elif (paused := _pause_event(record)) is not None:
            what = f"it stops at a checkpoint, and no later step left a record: {paused.detail}"
            fix = "was its runner lost behind it? Run it again: it goes on from there"
            return LegEnd("unknown", what, fix)
        else:
            what = f"its record was cut: it has no end line{_last_sign(record)}"
        return LegEnd("unknown", what, ADVICE["unknown"])
    ending = record.end.ending
    if ending != "completed":
        return LegEnd(ending, ENDING_TEXT[ending] + _last_output(record, ending), ADVICE[ending])
    code = record.end.exit_code
    if code not in (None, ExitCode.OK, ExitCode.TESTS_FAILED, ExitCode.INCOMPLETE):
        return LegEnd(ending, f"it ended with exit code {code}", ADVICE["unknown"])
    return LegEnd(ending)


def is_from_result_files(record: Record) -> bool:
    """Say that it was made of result files alone, which jobs of the user's own wrote.

    Those of a leg's own are of a process.
    """
    return not (record.starts or record.processes) and any(
        one.kind == FILE and one.process is None for one in record.events
    )


def _pause_event(record: Record) -> EventLine | None:
    """The end of a step behind which no other one began."""
    found: EventLine | None = None
    for event in sorted(record.events, key=lambda one: (one.at_s or 0.0, one.kind == "resumed")):
        if event.kind in ("paused", "resumed"):
            found = event if event.kind == "paused" else None
    return found


def last_line(text: str) -> str:
    """The last line that says something, without the ruler that may be drawn around it."""
    lines = (line.strip().strip("=!-_* ") for line in text.splitlines())
    return "".join([line for line in lines if line][-1:])


def _last_output(record: Record, ending: Ending) -> str:
    """What its processes said, where they kept the leg from going on; or what went wrong in it."""
    if ending == "unknown":
        failures = [event.detail for event in record.events if event.kind == "internal_error"]
        return f": ciguard itself failed: {last_line(failures[-1])}" if failures else ""
    outputs = [last_line(one.detail) for one in record.events if one.kind == "last_output"]
    return f": {outputs[-1]}" if outputs and ending in ("setup_failed", "crash") else ""


def _last_sign(record: Record) -> str:
    at_s = record.wall_s
    return "" if at_s is None else f", the last sign of life is {at_s:.0f} s after its start"


def in_flight_units(record: Record) -> tuple[UnitKey, ...]:
    """The units that had begun and have no result, by their start: one of them may be to blame.

    A unit with several cases is open until its process ends or the next one of it begins.
    """
    ended_processes = {line.process for line in record.process_ends}
    reported = {
        (line.process or 0, UnitKey(line.suite, line.variant, line.unit)) for line in record.results
    }
    last: dict[UnitKey, tuple[int, float]] = {}
    for line in record.starts:
        key = UnitKey(line.suite, line.variant, line.unit)
        last[key] = (line.process or 0, line.at_s or 0.0)
    found = [
        (at_s, key)
        for key, (process, at_s) in last.items()
        if process not in ended_processes and (process, key) not in reported
    ]
    return tuple(key for _, key in sorted(found))


def memory_trend(record: Record) -> str:
    """How little memory was left when the record ends, and that it had been more; "" if not so.

    The machine's headroom fell below what the leg itself calls low, and to less than half of the
    most that was seen.
    """
    seen = [
        (line.at_s, left)
        for line in record.samples
        if (left := line.available_bytes if line.headroom_bytes is None else line.headroom_bytes)
        is not None
    ]
    if not seen:
        return ""
    memory = record.header.runner.memory_bytes if record.header is not None else None
    at_s, left = max(seen)
    most = max(seen, key=lambda pair: pair[1])
    if left >= memory_thresholds(memory or 0)[0] or left >= LOW_HEADROOM_RATIO * most[1]:
        return ""
    of = f" of {size(memory)}" if memory else ""
    return (
        f"free memory fell from {size(most[1])} at {duration(most[0])} to {size(left)}{of} "
        f"at {duration(at_s)}, its last sample"
    )


def last_events(record: Record) -> tuple[str, ...]:
    """Its last events of memory and signals, at most three, the newest last."""
    kinds = ("memory_low", "memory_not_reclaimable", "memory_guard", "signal")
    events = [line for line in record.events if line.kind in kinds]
    events.sort(key=lambda line: line.at_s or 0.0)
    return tuple(
        f"{line.kind.replace('_', ' ')} at {duration(line.at_s)}: {line.detail}"
        for line in events[-3:]
    )
