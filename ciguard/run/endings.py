"""How a process ended, and what it leaves to say: results of units that died, in words. Pure."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from ciguard.model import MEMORY, Result
from ciguard.run.actions import NEVER_S
from ciguard.run.wording import last_line, last_words

if TYPE_CHECKING:
    from typing import Mapping, Sequence

    from ciguard.model import Ending, UnitKey
    from ciguard.run.peaks import Peak
    from ciguard.run.platforms.base import Ended
    from ciguard.run.running import Running
    from ciguard.run.state import State

OUTPUT_BYTES: Final = 2000  # of the last output, in a victim's message
LAST_LINES: Final = 10
SHELL: Final = 128  # a shell's exit code for a command that a signal killed: this + its number
# Windows has few signals, but shells and programs that hand on Linux's numbers.
_LINUX: Final = {
    "SIGILL": 4,
    "SIGTRAP": 5,
    "SIGABRT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGSEGV": 11,
}
_IS_POSIX: Final = hasattr(signal, "SIGKILL")
DEADLY: Final[dict[int, str]] = {
    int(getattr(signal, name)) if _IS_POSIX else number: name for name, number in _LINUX.items()
}
# What Windows ends a process with: NTSTATUS values, severity "error". Source: ntstatus.h.
STATUS: Final = range(0xC0000000, 0xF0000000)
TERMINATED: Final = 0x40010004  # DBG_TERMINATE_PROCESS: the leg's own kill there, and log-off's
NO_MEMORY: Final = (0xC0000017, 0xC000012D)
_STATUS_WORDS: Final = {
    TERMINATED: "terminated",
    0xC0000005: "access violation",
    0xC0000006: "in-page error",
    0xC0000017: "no memory",
    0xC000001D: "illegal instruction",
    0xC0000094: "integer division by zero",
    0xC00000FD: "stack overflow",
    0xC000012D: "commit limit reached",
    0xC0000135: "a DLL was not found",
    0xC0000139: "an entry point of a DLL was not found",
    0xC000013A: "Ctrl-C or Ctrl-Break",
    0xC0000142: "a DLL could not be initialised",
    0xC0000374: "heap corruption",
    0xC0000409: "abort or stack buffer overrun",
    0xC0000420: "assertion failure",
    0xE0434352: "unhandled .NET exception",
    0xE06D7363: "unhandled C++ exception",
}
NOT_RUN: Final = (126, 127)  # what a shell says of a program that it cannot run or find
FATAL: Final = "Fatal Python error"  # faulthandler's dump says where: its start is worth more

_STOPPED: Final[dict[Ending, str]] = {
    "timeout": "stopped: over its limit",
    "deadline": "stopped: the leg's deadline",
    "memory_guard": "killed: memory was about to run out",
    "cancelled": "stopped: the leg was told to stop",
    "out_of_memory": "killed by the kernel: out of memory",
}


def signal_name(number: int) -> str:
    """SIGSEGV for 11; the number where it has no name."""
    if number in DEADLY:
        return DEADLY[number]
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def killed_by(exit_code: int) -> int | None:
    """What killed: 11 for -11, as the kernel says it, and for 139, as a shell hands it on.

    On Windows the status, which is the exit code: 0xC0000005.
    """
    if exit_code < 0:
        return -exit_code
    if exit_code in STATUS or exit_code == TERMINATED:
        return exit_code
    return exit_code - SHELL if exit_code - SHELL in DEADLY else None


def exit_words(exit_code: int) -> str:
    """An exit code, or the signal that killed, in words."""
    number = killed_by(exit_code)
    if number is None:
        return f"exit code {exit_code}"
    if number == exit_code:
        return f"{_STATUS_WORDS.get(exit_code, 'ended by Windows')} (exit code 0x{exit_code:08X})"
    through = f" (exit code {exit_code})" if exit_code > 0 else ""
    return f"killed by {signal_name(number)}{through}"


def ending_of(
    running: Running,
    exit_code: int,
    *,
    clean: bool,
    out_of_memory: bool,
    collecting: bool = False,
    timed_out: bool = False,
) -> Ending:
    """How a process ended.

    Args:
        running: as observed until now; decides who stopped it and whether a unit was open.
        exit_code: < 0 is the signal that killed it; 128 + signal is a shell's word for the same,
            and a Windows status says it there.
        clean: the framework uses this exit code when it has said all it had to say.
        out_of_memory: the kernel counted an out-of-memory kill while it ended.
        collecting: it was reading test files, of which none may end it with whatever code.
        timed_out: what its unit ran over was a limit of its own.
    """
    if running.stopping is not None:
        return running.stopping
    # A unit with several cases stays open until the next one begins, or until a clean end. A start
    # that the leg only assumed is no sign that a program which ended well had begun the unit.
    begun = running.open if running.spoke or exit_code != 0 else {}
    silent = collecting or any(unit not in running.reported for unit in begun)
    if exit_code in NOT_RUN and not running.spoke and not collecting:
        return "setup_failed"
    if silent or killed_by(exit_code) is not None:
        # A child that a test started and lost to the kernel is the test's affair: it goes on.
        if out_of_memory or exit_code in NO_MEMORY:
            return "out_of_memory"
        return "timeout" if timed_out and running.open else "crash"
    if clean or running.recycled:  # told to stop early, a framework says "interrupted"
        return "completed"
    return "crash" if running.closed or running.reported else "setup_failed"


def is_unexplained(running: Running, ending: Ending, exit_code: int, *, errors: bool) -> bool:
    """Whether a process ended by itself with an exit code that none of its results explains.

    A unit that died in it explains its end. One that failed explains the code that the framework
    has for that, and no signal, no other code and no process that would not end: what excuses the
    failure, as a quarantine does, must not excuse those. Without any result, what is missing says
    more; so it does where some are missing and the process is followed by another, or named a
    collection error.

    Args:
        running: as observed to its end, the victims included.
        errors: it said that something could not be collected.
    """
    if running.stopping == "timeout" and running.blamed is None and not running.unfinished():
        return not running.died  # it would not end by itself
    if exit_code == 0 or running.stopping is not None or running.recycled or running.died:
        return False
    if running.bad and ending == "completed":
        return False
    done = running.closed | running.reported
    if done >= set(running.start.units):
        return True
    return bool(done) and ending == "completed" and not errors


def unexplained_words(process: int, exit_code: int, output: str) -> str:
    """What is said of a process whose exit code no result explains."""
    killed = killed_by(exit_code) is not None
    asked = "did a hook of the session or a coverage gate set it?"
    return (
        f"process {process}: {exit_words(exit_code)}, and no failed result explains it\n"
        f"  its last output: {last_words(output)}\n"
        f"  {'it died behind its last test' if killed else asked}"
    )


def last_output(log: bytes) -> str:
    """The end of what a process printed, from the interpreter's own dump on where there is one."""
    text = log.decode("utf-8", "replace").strip()
    start = text.rfind(FATAL)
    if start >= 0:
        return text[start : start + OUTPUT_BYTES]
    return "\n".join(text.splitlines()[-LAST_LINES:])[-OUTPUT_BYTES:]


def of_the_whole(state: State, process: int, ended: Ended, now_s: float, peak: Peak) -> Result:
    """The result of a unit that is a process, in which nobody writes lines.

    Args:
        peak: what was seen of it from outside.
    """
    running = state.running[process]
    (unit,) = running.start.units
    wall_s = now_s - running.open[unit] if ended.wall_s is None else ended.wall_s
    name, exit_code = state.units[unit].unit, ended.exit_code
    return Result(
        unit=name,
        outcome="passed" if exit_code == 0 else "failed",
        case=name,
        at_s=now_s,
        wall_s=round(wall_s, 6),
        cpu_s=ended.cpu_s,
        peak_bytes=peak.peak_bytes,
        measured_by=peak.measured_by,
        process=process,
        message=None if exit_code == 0 else exit_words(exit_code),
    )


def _standing(stacks: Sequence[str], unit: str) -> str:
    """Of several processes the one in which the unit runs; a xdist controller is none of them."""
    name = unit.rpartition("::")[2].partition("[")[0]
    return next((one for one in stacks if f" in {name}\n" in f"{one}\n"), stacks[0])


def died(
    state: State,
    process: int,
    ending: Ending,
    *,
    exit_code: int,
    now_s: float,
    output: str,
    quote: bool = False,
    stacks: Sequence[str] = (),
    interrupted: Mapping[UnitKey, str] = {},  # never changed
) -> tuple[Result, ...]:
    """One result for each unit that is to blame, or may be: how long it had run, at least.

    To be called before the end of the process is observed.

    Args:
        now_s: when the process ended, or was told to: what it took to stop is not the unit's time.
        quote: the last line of the output tells something: it is no framework's progress.
        stacks: of each of its processes, where the threads stood when it was told to end.
        interrupted: by unit, what the process itself said that ended it there.
    """
    if ending == "setup_failed":
        return ()
    running = state.running[process]
    victims = state.victims(process)
    lower_bytes = running.largest_bytes or None  # what a sample behind its death says is 0
    found = []
    for unit in victims:
        planned = state.units[unit]
        how = interrupted.get(planned.key, "the process died") if ending == "crash" else ""
        said = f"{how or _STOPPED.get(ending, 'the process died')} ({exit_words(exit_code)})"
        if len(victims) > 1:
            said += f"; one of {len(victims)} units that ran at the time"
        by_itself = ending == "timeout" and running.stopping is None
        if by_itself:
            said = f"stopped by its own limit ({exit_words(exit_code)})"
        if (ending == "crash" or by_itself) and output:
            # The first line is what is shown where there is room for one; a signal says enough.
            short = quote and killed_by(exit_code) is None and planned.key not in interrupted
            said += f"; last output: {last_line(output)}\n{output}" if short else f"\n{output}"
        if running.at_checkpoint:
            said = "stopped at a checkpoint: it gets another turn"
        if ending == "timeout" and planned.timeout_s is not None and not by_itself:
            said = f"{_STOPPED[ending]} of {planned.timeout_s:g} s"
        if ending in MEMORY and lower_bytes is not None:
            said += f", its process had {lower_bytes >> 20} MiB"
        if stacks:
            said += f"\n{_standing(stacks, planned.unit)[:OUTPUT_BYTES]}"
        started_s = running.open.get(unit, NEVER_S)
        file, line = running.places.get(unit, (None, None))
        result = Result(
            unit=planned.unit,
            outcome="died",
            suite=planned.suite,
            variant=planned.variant,
            case=planned.unit,
            ending=ending,
            at_s=now_s,
            wall_s=None if started_s == NEVER_S else max(0.0, round(now_s - started_s, 6)),
            rss_before_bytes=running.before.get(unit),
            peak_lower_bytes=lower_bytes,
            concurrent=len(victims),
            try_number=1 + state.tries.get(unit, 0),
            process=process,
            message=said,
            file=file,
            line=line,
        )
        found.append(result)
    return tuple(found)
