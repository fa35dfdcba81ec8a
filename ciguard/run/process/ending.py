"""How a process ended, and the results of units that died with it. Pure."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Iterable, Mapping

from ciguard.model import Ending, Result, UnitKey
from ciguard.run.policy.actions import NO_TIME_S

if TYPE_CHECKING:
    from ciguard.run.platforms.base import ExitInfo
    from ciguard.run.policy.process_state import ProcessState
    from ciguard.run.policy.state import State
    from ciguard.run.process.handle import Peak

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
CODES: Final = 256  # a program that ends with -11, as Python's `subprocess` names a signal, has 245
FAILED: Final = 1  # what a program ends with where tests failed
NOT_RUN: Final = (126, 127)  # what a shell says of a program that it cannot run or find
# What a runtime prints before it ends a process says why and where: its start is worth more.
FATAL: Final = re.compile(
    "Fatal Python error|^(?:FATAL ERROR: |fatal error: |(?:PHP )?Fatal error: |panic: "
    # Surefire, before a stack of Maven's own.
    r"|\[ERROR\] (?=There was an error in the forked process|The forked VM terminated))",
    re.M,
)


def fatal_signal(exit_code: int) -> int | None:
    """What killed: 11 for -11, as the kernel says it, and for 139, as a shell hands it on.

    On Windows the status, which is the exit code: 0xC0000005.
    """
    if exit_code < 0:
        return -exit_code
    if exit_code in STATUS or exit_code == TERMINATED:
        return exit_code
    return exit_code - SHELL if exit_code - SHELL in DEADLY else None


def probable_signal(exit_code: int) -> int | None:
    """11 for 245, which is -11 where a program ends with its child's code; no proof of a signal."""
    return CODES - exit_code if CODES - exit_code in DEADLY else None


def classify_exit(
    running: ProcessState,
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
    open_units = running.open_units if running.wrote_lines or exit_code != 0 else {}
    # Of a program that says itself when a unit is over, one that it did not close is where it died.
    silent = collecting or any(map(running.may_be_running, open_units))
    if exit_code in NOT_RUN and not running.wrote_lines and not collecting:
        return "setup_failed"
    if silent or fatal_signal(exit_code) is not None:
        # A child that a test started and lost to the kernel is the test's affair: it goes on.
        if out_of_memory or exit_code in NO_MEMORY:
            return "out_of_memory"
        return "timeout" if timed_out and running.open_units else "crash"
    if clean or running.recycled:  # told to stop early, a framework says "interrupted"
        return "completed"
    return "crash" if running.reported() else "setup_failed"


def is_unexplained(running: ProcessState, ending: Ending, exit_code: int, *, errors: bool) -> bool:
    """Return whether a process ended by itself with an exit code that none of its results explains.

    A unit that died in it explains its end. One that failed explains the code that the framework
    has for that, and no signal, no other code and no process that would not end: what excuses the
    failure, as a quarantine does, must not excuse those. Without any result, what is missing says
    more; so it does where some are missing and the process is followed by another, or named a
    collection error.

    Args:
        running: as observed to its end, the victims included.
        errors: it said that something could not be collected.
    """
    if running.refuses_exit:
        return not running.died
    if exit_code == 0 or running.stopping is not None or running.recycled or running.died:
        return False
    if running.failed and ending == "completed":
        return False
    if not running.start.units:
        return False  # it had nothing to do but to list
    done = running.reported()
    if done >= set(running.start.units):
        return True
    return bool(done) and ending == "completed" and not errors


def with_open_cases(
    culprits: Iterable[Result], open_cases: Mapping[UnitKey, Mapping[str, float | None]]
) -> tuple[Result, ...]:
    """Name the case that ran, where its framework announced it and no other case of the unit ran.

    Args:
        open_cases: by unit, cases that began and have no result, and when each began.
    """
    found = []
    for culprit in culprits:
        names = open_cases.get(culprit.key.unit_key, {})
        if len(names) == 1:
            ((case, began_s),) = names.items()
            lived_s = (culprit.at_s or 0.0) - (began_s or 0.0)
            wall_s = culprit.wall_s if began_s is None else max(0.0, round(lived_s, 6))
            found.append(replace(culprit, case=case, wall_s=wall_s))
        else:
            found.append(culprit)
    return tuple(found)


def last_output(log: bytes) -> str:
    """The end of what a process printed, from the interpreter's own dump on where there is one."""
    text = log.decode("utf-8", "replace").strip()
    starts = [found.start() for found in FATAL.finditer(text)]
    if starts:
        return text[starts[-1] :][:OUTPUT_BYTES]
    return "\n".join(text.splitlines()[-LAST_LINES:])[-OUTPUT_BYTES:]


def command_result(state: State, process: int, ended: ExitInfo, now_s: float, peak: Peak) -> Result:
    """The result of a unit that is a process, which writes no lines; without a message.

    Args:
        peak: what was seen of it from outside.
    """
    running = state.running[process]
    (unit,) = running.start.units
    wall_s = now_s - running.open_units[unit] if ended.wall_s is None else ended.wall_s
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
    )


def culprit_results(state: State, process: int, ending: Ending, now_s: float) -> tuple[Result, ...]:
    """One result without a message for each unit that is to blame, or may be.

    Its time is how long it had run, at least.

    To be called before the end of the process is observed.

    Args:
        now_s: when the process ended, or was told to: what it took to stop is not the unit's time.
    """
    if ending == "setup_failed":
        return ()
    running = state.running[process]
    culprits = state.culprits(process)
    found = []
    for unit in culprits:
        planned = state.units[unit]
        started_s = running.open_units.get(unit, NO_TIME_S)
        file, line = running.code_positions.get(unit, (None, None))
        result = Result(
            unit=planned.unit,
            outcome="died",
            suite=planned.suite,
            variant=planned.variant,
            case=planned.unit,
            ending=ending,
            at_s=now_s,
            wall_s=None if started_s == NO_TIME_S else max(0.0, round(now_s - started_s, 6)),
            rss_before_bytes=running.rss_before_bytes.get(unit),
            peak_lower_bytes=running.max_bytes or None,  # what a sample after its death says is 0
            concurrent=len(culprits),
            try_number=1 + state.tries.get(unit, 0),
            process=process,
            file=file,
            line=line,
        )
        found.append(result)
    return tuple(found)
