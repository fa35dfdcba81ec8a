"""The decisions that the rules of a leg (rules.py) can make: one class for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, Mapping, Union

from ciguard.model import SLOTS, Ending

NO_TIME_S: Final = float("inf")

# Reasons of decisions; `run/output/view.py` has their words and the names of their numbers.
ReasonKind = Literal[
    # A process starts.
    "listing",
    "first",
    "next",
    "search",
    "heavy",
    "over_budget",
    "memory_retry",
    "crash_retry",
    "failure_retry",
    "probe_alone",
    "probe_again",
    "probe_after",
    "repeat_alone",
    "repeat_after",
    # Another leg may have less to do.
    "next_block",
    # A process, or the leg, is stopped.
    "cancelled",
    "second_session",
    "deadline",
    "unit_timeout",
    "no_exit",
    "idle",
    "memory_guard",
    "retained_memory",
    "checkpoint",
    "checkpoint_grace",
    # A warning: also the kind of its event.
    "memory_low",
    "memory_not_reclaimable",
    "rerun_skipped",
    # The leg is over.
    "all_ended",
    "incomplete",
    "fruitless",
    "record_removed",
    "internal_error",
]


@dataclass(frozen=True, **SLOTS)
class Reason:
    """Reason of a decision; the name of a number ends in its unit: `_bytes`, `_s`, or `units`."""

    kind: ReasonKind
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Start:
    """Start of a process for these units, which are positions in the shard."""

    process: int
    units: tuple[int, ...]
    suite: str
    variant: str
    predicted_peak_bytes: int
    reason: Reason
    isolated: bool = False  # no other process runs beside it
    repeats: int = 0  # earlier processes with these units
    at_s: float = field(default=NO_TIME_S, compare=False)


@dataclass(frozen=True, **SLOTS)
class Assign:
    """Units for the waiting process, which has listed, as if it were started for them."""

    start: Start


@dataclass(frozen=True, **SLOTS)
class Stop:
    """End of a process by the leg: first by a polite signal, at once for `memory_guard`.

    `unit`: the unit to blame; other open units run again. None: all open units may be to blame.
    `checkpoint`: only this step of the leg is over.
    """

    process: int
    ending: Ending
    reason: Reason
    unit: int | None = None
    checkpoint: bool = False


@dataclass(frozen=True, **SLOTS)
class Recycle:
    """End of a process after its current unit; a fresh process takes the rest."""

    process: int
    reason: Reason


@dataclass(frozen=True, **SLOTS)
class Warn:
    """Warning in the record and the log; `guard_rail = "observe"` warns where others would kill."""

    reason: Reason


@dataclass(frozen=True, **SLOTS)
class Claim:
    """Request for a block: a group of units that any of several legs may run.

    Attributes:
        ready_s: predicted time until the leg can begin the block, >= 0.
        done_s: predicted time of the finished units, divided by the leg's processes.
        left_s: time until the leg's deadline; infinite without a deadline.
    """

    reason: Reason
    ready_s: float = field(default=0.0, compare=False)
    done_s: float = field(default=0.0, compare=False)
    left_s: float = field(default=NO_TIME_S, compare=False)


@dataclass(frozen=True, **SLOTS)
class Wait:
    """No decision until a further line is observed, or until this moment."""

    until_s: float | None = None


@dataclass(frozen=True, **SLOTS)
class Finish:
    """End of the leg; units without a result stay without a result.

    `checkpoint`: only this step of the leg is over; the next step continues the leg.
    """

    ending: Ending
    reason: Reason
    checkpoint: bool = False


Decision = Union[Start, Assign, Stop, Recycle, Warn, Claim]
Action = Union[Start, Assign, Stop, Recycle, Warn, Claim, Wait, Finish]
