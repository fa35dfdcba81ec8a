"""What a leg must know of an operating system: start and end processes, wait, measure memory.

One file an operating system, chosen in `current.py`. Standard library only, Python 3.8+ (travels in
the leg). The rest of the leg asks these names and never which system it is on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

from ciguard.model import SLOTS, EventLine, PeakLine, Result, StartLine

if TYPE_CHECKING:
    import signal
    from typing import Any, ContextManager, Mapping, Protocol, Sequence, Tuple, Union

    from ciguard.errors import ExitCode

NOT_STARTED: Final = 127  # what a shell says of a program that it cannot start

# For every file that lines are written to or read from: Windows would turn "\n" into "\r\n".
FILE_FLAGS: Final[int] = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)

# A C library with text mode remembers that a file was at its end until one seeks (seen under Wine).
EOF_IS_STICKY: Final = hasattr(os, "O_BINARY")


@dataclass(frozen=True, **SLOTS)
class ExitInfo:
    """How the operating system saw the end; `error` where it could not even be started.

    `is_reaper_lost`: what was between it and the leg was killed, and its exit code is not known.
    `exit_code`: below 0 the signal; a Windows status as it is, 0xC0000005. `peak_bytes`: the
    largest size of any one process of it that was waited for.
    """

    exit_code: int
    wall_s: Optional[float] = None
    cpu_s: Optional[float] = None
    peak_bytes: Optional[int] = None
    error: str = ""
    is_reaper_lost: bool = False


@dataclass(frozen=True, **SLOTS)
class MachineMemory:
    """The machine's memory at one moment; None where it does not say."""

    total_bytes: Optional[int]
    available_bytes: Optional[int]
    swap_used_bytes: Optional[int]
    swap_free_bytes: Optional[int]


UNKNOWN: Final = MachineMemory(None, None, None, None)


class MemoryInstruments:
    """What one leg measures with, besides sizes of trees; as it stands here: nothing.

    Args:
        environ: the leg's own environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        pass

    def windows(self, tree: Tree) -> Optional[PeakTracker]:  # noqa: ARG002
        """For a tree whose processes do not measure themselves."""
        return None

    def poll(self, now_s: float, trees: Sequence[Tree]) -> Mapping[str, Any]:  # noqa: ARG002
        """Fields of a sample that are asked for rarely, once an answer has come; never waits."""
        return {}

    def pressure(self) -> Mapping[str, float]:
        """Fields of a sample that say how long programs have waited for memory."""
        return {}

    def close(self) -> None:
        """Give back what is held; processes have ended."""


class Headroom:
    """How much memory is left before something is killed, and whether something was.

    Here it is not known, and nothing is guarded.

    Args:
        meminfo: a file that says what memory the machine has; None for the system's own word.
    """

    def __init__(self, meminfo: Optional[str] = None) -> None:
        pass

    def machine(self) -> MachineMemory:
        """What the machine says now."""
        return UNKNOWN

    def memory_bytes(self) -> Optional[int]:
        """What the leg may use at most."""
        return None

    def headroom_bytes(self, machine: MachineMemory) -> Optional[int]:  # noqa: ARG002
        """What is left; None where that is not known."""
        return None

    def oom_file(self) -> str:
        """Where the system counts its kills for memory; "" where it does not."""
        return ""

    def oom_kills(self) -> int:
        """How often the system has killed for memory; 0 where it does not count."""
        return 0


if TYPE_CHECKING:

    class Process(Protocol):
        """A running program and all that it starts, its end, and the ways to bring that about."""

        root: int  # the process whose descendants are the tree; itself may be ours
        pid: Optional[int]  # None until `poll` learns of its start; or `ended` says why not
        ended: Optional[ExitInfo]
        stop_requested_s: Optional[float]  # when it was first told to end
        limitation: str  # what may outlive it here, and why; "" where nothing can

        def poll(self) -> None:
            """Take in its end, without waiting."""

        def request_stacks(self, path: str) -> None:
            """Have each process of it that can answer write its stacks to `path`-PID."""

        def stop(self, now_s: float, *, immediately: bool = False) -> None:
            """Begin to end it, politely first; `escalate` goes on."""

        def escalate(self, now_s: float) -> None:
            """Do what is due."""

        def close(self) -> None:
            """Give back what is held; a tree that is still alive dies of it."""

    class Tree(Protocol):
        """Memory of a process tree, from outside."""

        def read_bytes(self, now_s: float) -> Optional[int]:
            """Its size now; None where nothing can be read."""

    class PeakTracker(Protocol):
        """Peaks of a tree from outside, between looks at what it says."""

        peak_bytes: int  # the largest of one process so far; 0: nothing could be measured

        def poll(self, now_s: float) -> None:
            """Before its lines are read."""

        def end(self, peak_bytes: Optional[int]) -> None:
            """The process has ended, before its last lines are read; `peak_bytes` as of
            `ExitInfo`.
            """

        def add_line(self, line: Union[StartLine, Result, EventLine]) -> None:
            """A line that was read."""

        def take_peaks(self) -> Sequence[PeakLine]:
            """All are read: what its results lack."""

    class Platform(Protocol):
        """One operating system. Modules satisfy it by having the names."""

        NAME: str
        LIMITATIONS: Tuple[str, ...]  # what cannot be measured or guarded on any machine of it
        EXIT_CODE_BY_SIGNAL: Mapping[signal.Signals, ExitCode]  # signals that end a leg

        def start(
            self,
            argv: Sequence[str],
            env: Mapping[str, str],
            cwd: str,
            log: str,
            *,
            stdin: Optional[int] = None,
        ) -> Process:
            """Start a program, from the main thread only.

            `stdin`: the descriptor that it reads from; None for nothing to read.

            Raises:
                OSError: what starts it could not be started (no memory, no process left).
            """

        def adopt_orphans(self) -> None:
            """Become the parent of what loses its own, where the system lets us."""

        def tree(self, process: Process) -> Tree:
            """The memory of what it runs."""

        def instruments(self, environ: Mapping[str, str]) -> MemoryInstruments:
            """What there is to measure with, for a leg with that environment."""

        def headroom(self, meminfo: Optional[str]) -> Headroom:
            """The machine's memory; `meminfo` is a file to read it from, None for its own."""

        def wakeup(self) -> ContextManager[int]:
            """A descriptor that wakes `wait` when a signal arrives; -1 where there is none."""

        def wait(self, wakeup: int, processes: Sequence[Process], timeout_s: float) -> bool:
            """Until a signal arrives or a process has something for `poll`; True then."""

        def cpus(self) -> Optional[int]:
            """Processors that we may use."""
