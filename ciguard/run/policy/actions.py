"""What a leg's rules may decide. Standard library only, Python 3.8+ (travels in the leg)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Union

from ciguard.model import SLOTS, Ending, EventKind

NO_TIME_S: Final = float("inf")


@dataclass(frozen=True, **SLOTS)
class Start:
    """Start a process for these units, given as positions in the shard."""

    process: int
    units: tuple[int, ...]
    suite: str
    variant: str
    predicted_peak_bytes: int
    reason: str
    isolated: bool = False
    repeats: int = 0  # how often a process with these units was begun before
    at_s: float = field(default=NO_TIME_S, compare=False)


@dataclass(frozen=True, **SLOTS)
class Stop:
    """End a process now: politely, but for `memory_guard`, which cannot wait.

    `unit` is the one to blame; the others that were open had no part in it and get another turn.
    None: whatever was open is the culprit set. `checkpoint`: only a step is over.
    """

    process: int
    ending: Ending
    reason: str
    unit: int | None = None
    checkpoint: bool = False


@dataclass(frozen=True, **SLOTS)
class Recycle:
    """Let a process stop after the unit that it is at; the rest goes to a fresh one."""

    process: int
    reason: str


@dataclass(frozen=True, **SLOTS)
class Warn:
    """Say it in the record and go on (`guard_rail = "observe"`: would have killed)."""

    kind: EventKind
    reason: str


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
    reason: str
    checkpoint: bool = False


Action = Union[Start, Stop, Recycle, Warn, Wait, Finish]
