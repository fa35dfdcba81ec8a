"""Interface to the operating system: start and end processes, wait, measure memory.

Each system has one module with the functions and constants of the protocol `Platform`; `current.py`
selects it. A base class has a default for all systems (no measurement, no guard), which a system
overrides. A protocol has none. The rest of the leg does not depend on the system.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, ContextManager, Final, Mapping, Protocol, Sequence, Tuple

from ciguard.errors import ExitCode
from ciguard.model import SLOTS, EventLine, PeakLine, Result, StartLine

NOT_STARTED: Final = 127  # exit code of a shell for a program that it cannot start

# For every file of lines: without O_BINARY, Windows would turn "\n" into "\r\n".
FILE_FLAGS: Final[int] = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

# C libraries with a text mode remember the end of a file until the next seek (seen under Wine).
EOF_IS_STICKY: Final = hasattr(os, "O_BINARY")


@dataclass(frozen=True, **SLOTS)
class ExitInfo:
    """End of a tested process as the operating system reports it.

    Attributes:
        exit_code: negative for a signal; a Windows status unchanged, such as 0xC0000005.
        peak_bytes: largest resident size of one process, among the program and the descendants
            whose end a parent in the tree collected.
        error: why the process could not be started; "" if it was started.
        is_reaper_lost: the exit code is not known, as the reaper (process/reaper.py: ciguard's
            process between the leg and the program, parent of all orphans) was killed.
    """

    exit_code: int
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None
    error: str = ""
    is_reaper_lost: bool = False


@dataclass(frozen=True, **SLOTS)
class MachineMemory:
    """The machine's memory at one moment; None if the system does not report it."""

    total_bytes: int | None
    available_bytes: int | None
    swap_used_bytes: int | None
    swap_free_bytes: int | None


UNKNOWN: Final = MachineMemory(None, None, None, None)


class MemoryInstruments:
    """Further measurements of a leg, besides tree sizes: peaks, GPUs, pressure. Here: none.

    Args:
        environ: the leg's own environment.
    """

    limitation = ""  # what can no longer be measured, and why

    def __init__(self, environ: Mapping[str, str]) -> None:
        pass

    def peak_tracker(self, tree: Tree, *, has_own_marks: bool) -> PeakTracker | None:  # noqa: ARG002
        """Return a tracker for a tree; of child processes alone if it measures its own peaks."""
        return None

    def gpu_bytes(self, now_s: float, trees: Sequence[Tree]) -> Mapping[str, int]:  # noqa: ARG002
        """Return the largest memory by GPU since the last call, if measured; never wait."""
        return {}

    def named_sizes(self, trees: Sequence[Tree]) -> Mapping[str, int]:  # noqa: ARG002
        """Return the sizes of processes by name, if any has a new peak since the last call."""
        return {}

    def pressure(self) -> Mapping[str, float]:
        """Return fields of a sample: how long programs have waited for memory."""
        return {}

    def close(self) -> None:
        """Release what the instruments hold, after all tested processes have ended."""


class Headroom:
    """Memory that is left before the system kills a process, and its count of kills.

    Here nothing is known, so nothing is guarded.

    Args:
        meminfo: file to read the machine's memory from; None for that of the system.
    """

    def __init__(self, meminfo: str | None = None) -> None:
        pass

    def machine(self) -> MachineMemory:
        """Return the machine's memory now."""
        return UNKNOWN

    def memory_bytes(self) -> int | None:
        """Return the most that the leg may use; None if not known."""
        return None

    def headroom_bytes(self, machine: MachineMemory) -> int | None:  # noqa: ARG002
        """Return the memory that is left; None if not known."""
        return None

    def oom_file(self) -> str:
        """Return the file in which the system counts its out-of-memory kills; "" for none."""
        return ""

    def oom_kills(self) -> int:
        """Return the system's count of out-of-memory kills; 0 if it counts none."""
        return 0


# The signals of a stop: (seconds from its begin to the signal, name of the signal).
Schedule = Tuple[Tuple[float, str], ...]


class TestedProcess(ABC):
    """A program with its descendants: its start and end, and the stop of the whole tree."""

    __test__ = False  # no test class, despite its name
    GRACEFUL: ClassVar[Schedule]
    IMMEDIATE: ClassVar[Schedule]
    root: int  # pid whose descendants are the tree: the leg's own reaper, or the program

    def __init__(self) -> None:
        self.pid: int | None = None  # of the program; None until `poll` has seen its start
        self.ended: ExitInfo | None = None  # set when `poll` has seen an end or a failed start
        self.stop_requested_s: float | None = None  # moment of the first `stop`
        self.limitation = ""  # which processes may outlive the tree, and why; "" if none can
        self._signals: list[tuple[float, str]] = []

    @abstractmethod
    def poll(self) -> None:
        """Take in the start and the end of the program, without waiting."""

    @abstractmethod
    def request_stacks(self, path: str) -> None:
        """Ask each process of the tree that can answer to write its stacks to `path`-PID."""

    @abstractmethod
    def close(self) -> None:
        """Release pipes and handles; this ends a tree that is still alive."""

    def stop(self, now_s: float, *, immediately: bool = False) -> None:
        """Begin a stop; an immediate one replaces a graceful one. `escalate` continues it."""
        schedule = self.IMMEDIATE if immediately else self.GRACEFUL
        self._signals = [(now_s + delay_s, name) for delay_s, name in schedule]
        self.stop_requested_s = self.stop_requested_s or now_s
        self.escalate(now_s)

    def escalate(self, now_s: float) -> None:
        """Send the signals that are due."""
        while self._signals and self._signals[0][0] <= now_s and self.ended is None:
            self._send_signal(self._signals.pop(0)[1])

    @abstractmethod
    def _send_signal(self, name: str) -> None:
        """Send one signal of the schedule."""


class Tree(Protocol):
    """Memory of a process tree, measured from outside."""

    def read_bytes(self, now_s: float) -> int | None:
        """Return the size now; None if no process can be read."""


class PeakTracker(Protocol):
    """Peaks of the units in a tree, measured from outside.

    In each round the supervisor calls, in this order: `end`, only in the round in which the
    process has ended; `poll`; `add_line` for each new line of the process; `take_peaks`.
    """

    peak_bytes: int  # largest peak of a single process so far; 0 if nothing was measured

    def poll(self, now_s: float) -> None:
        """Measure, before new lines are read."""

    def end(self, peak_bytes: int | None) -> None:
        """Take in the end of the process, with its `ExitInfo.peak_bytes`."""

    def add_line(self, line: StartLine | Result | EventLine) -> None:
        """Take in a line of the process."""

    def take_peaks(self) -> Sequence[PeakLine]:
        """Return the peaks of the units that ended with the new lines."""


class Platform(Protocol):
    """One operating system: a module with these constants and functions."""

    LIMITATIONS: tuple[str, ...]  # what cannot be measured or guarded on this system
    EXIT_CODE_BY_SIGNAL: Mapping[signal.Signals, ExitCode]  # received signals that end a leg

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        log: str,
        *,
        stdin: int | None = None,
    ) -> TestedProcess:
        """Start a program, from the main thread only.

        Args:
            log: file that its output is appended to.
            stdin: descriptor that the program reads from; None for empty input.

        Raises:
            OSError: no memory or no process was left for the start.
        """

    def adopt_orphans(self) -> None:
        """Make the leg the parent of processes that lose theirs, if the system can."""

    def tree(self, process: TestedProcess) -> Tree:
        """Return the memory of a process and its descendants."""

    def instruments(self, environ: Mapping[str, str]) -> MemoryInstruments:
        """Return the instruments for a leg with this environment."""

    def headroom(self, meminfo: str | None) -> Headroom:
        """Return the machine's headroom; `meminfo`: file to read, None for the system's."""

    def wakeup(self) -> ContextManager[int]:
        """Provide a descriptor that wakes `wait` when a signal arrives; -1 for none."""

    def wait(self, wakeup: int, processes: Sequence[TestedProcess], timeout_s: float) -> bool:
        """Wait for a signal or for news of a process; return False after the timeout."""

    def cpus(self) -> int | None:
        """Return the number of processors that the leg may use."""
