"""What a leg's rules may decide. Standard library only, Python 3.8+ (travels in the leg)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, Mapping, Union

from ciguard.model import SLOTS, Ending

NO_TIME_S: Final = float("inf")

# Why something is decided; `run/output/view.py` has the words, and names the numbers of each.
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
    """Why, with its numbers: sizes end in `_bytes`, times in `_s`, counts of units in `units`."""

    kind: ReasonKind
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, **SLOTS)
class Start:
    """Start a process for these units, given as positions in the shard."""

    process: int
    units: tuple[int, ...]
    suite: str
    variant: str
    predicted_peak_bytes: int
    reason: Reason
    isolated: bool = False
    repeats: int = 0  # how often a process with these units was begun before
    at_s: float = field(default=NO_TIME_S, compare=False)


@dataclass(frozen=True, **SLOTS)
class Assign:
    """Give the process that has listed its units, as if it were started for them: it waits."""

    start: Start


@dataclass(frozen=True, **SLOTS)
class Stop:
    """End a process now: politely, but for `memory_guard`, which cannot wait.

    `unit` is the one to blame; the others that were open are not to blame, and run again.
    None: whatever was open is the culprit set. `checkpoint`: only a step is over.
    """

    process: int
    ending: Ending
    reason: Reason
    unit: int | None = None
    checkpoint: bool = False


@dataclass(frozen=True, **SLOTS)
class Recycle:
    """Let a process stop after the unit that it is at; the rest goes to a fresh one."""

    process: int
    reason: Reason


@dataclass(frozen=True, **SLOTS)
class Warn:
    """Write it into the record and go on (`guard_rail = "observe"`: would have killed)."""

    reason: Reason


@dataclass(frozen=True, **SLOTS)
class Claim:
    """Ask for a block of units.

    Attributes:
        ready_s: predicted until one can be begun, >= 0.
        done_s: what was predicted for the units that are over, over the leg's processes.
        left_s: until the leg's deadline; infinite without one.
    """

    reason: Reason
    ready_s: float = field(default=0.0, compare=False)
    done_s: float = field(default=0.0, compare=False)
    left_s: float = field(default=NO_TIME_S, compare=False)


@dataclass(frozen=True, **SLOTS)
class Wait:
    """Nothing to decide before something is observed, or before this moment."""

    until_s: float | None = None


@dataclass(frozen=True, **SLOTS)
class Finish:
    """The leg is over; units without a result stay without one.

    `checkpoint`: only this step of it is; the next one goes on.
    """

    ending: Ending
    reason: Reason
    checkpoint: bool = False


Decision = Union[Start, Assign, Stop, Recycle, Warn, Claim]
Action = Union[Start, Assign, Stop, Recycle, Warn, Claim, Wait, Finish]
