"""Endings of tested processes, and the results of units that died with their process. Pure."""

from __future__ import annotations

import re
import signal
from typing import Final, Mapping

from ciguard.model import Ending, Result, UnitKey
from ciguard.run.platforms.base import ExitInfo
from ciguard.run.policy.actions import NO_TIME_S
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.state import State
from ciguard.run.process.handle import Peak

OUTPUT_BYTES: Final = 2000  # of the last output, in the message of a unit that died
LAST_LINES: Final = 10
SHELL: Final = 128  # a shell's exit code for a command that a signal killed: this + its number
# Windows has few signals, but its shells and programs pass on Linux's numbers.
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
# Exit codes by which Windows ends a process: NTSTATUS values, severity "error". Source: ntstatus.h.
STATUS: Final = range(0xC0000000, 0xF0000000)
TERMINATED: Final = 0x40010004  # DBG_TERMINATE_PROCESS: the leg's own kill, or a log-off
NO_MEMORY: Final = (0xC0000017, 0xC000012D)
CODES: Final = 256  # a program that exits with -11 (a signal in Python's `subprocess`) has 245
FAILED: Final = 1  # exit code of a program whose tests failed
NOT_RUN: Final = (126, 127)  # exit codes of a shell for a program that it cannot run or find
# A runtime that ends a process prints first why and where: the message keeps that, not the end.
FATAL: Final = re.compile(
    "Fatal Python error|^(?:FATAL ERROR: |fatal error: |(?:PHP )?Fatal error: |panic: "
    # Surefire, before a stack of Maven's own.
    r"|\[ERROR\] (?=There was an error in the forked process|The forked VM terminated))",
    re.M,
)


def fatal_signal(exit_code: int) -> int | None:
    """Return the signal that killed: 11 for -11 (from the kernel) and for 139 (from a shell).

    On Windows this is the status, which equals the exit code: 0xC0000005.
    """
    if exit_code < 0:
        return -exit_code
    if exit_code in STATUS or exit_code == TERMINATED:
        return exit_code
    return exit_code - SHELL if exit_code - SHELL in DEADLY else None


def probable_signal(exit_code: int) -> int | None:
    """Return 11 for 245, which is -11 if a program passes on its child's code; not a proof."""
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
    """Return the ending of a process.

    Args:
        running: state before its end: its stop, if any, and its open units.
        exit_code: negative for the signal that killed it; 128 + signal from a shell; a status of
            Windows.
        clean: the framework ends with this code when it has reported all its tests.
        out_of_memory: the kernel counted an out-of-memory kill during its life.
        collecting: the process was reading test files: none of them may end it, with any code.
        timed_out: its unit exceeded a limit of the framework.
    """
    if running.stopping is not None:
        return running.stopping
    # A unit with several cases stays open until the next unit begins, or until a clean end. A start
    # that the leg assumed does not show that a program with exit code 0 had begun the unit.
    open_units = running.open_units if running.wrote_lines or exit_code != 0 else {}
    is_in_unit = collecting or any(map(running.may_be_running, open_units))
    if exit_code in NOT_RUN and not running.wrote_lines and not collecting:
        return "setup_failed"
    if is_in_unit or fatal_signal(exit_code) is not None:
        # If the kernel only killed a child of a test, the process goes on and ends otherwise.
        if out_of_memory or exit_code in NO_MEMORY:
            return "out_of_memory"
        return "timeout" if timed_out and running.open_units else "crash"
    if clean or running.recycled:  # asked to stop early, a framework exits as if interrupted
        return "completed"
    return "crash" if running.units_with_result() else "setup_failed"


def is_unexplained(running: ProcessState, ending: Ending, exit_code: int, *, errors: bool) -> bool:
    """Return whether a process ended by itself with an exit code that none of its results explains.

    A unit that died explains any end. A unit that failed explains only the framework's exit code
    for failed tests: a quarantine that excuses the failure must not excuse a signal, another code
    or a process that did not exit. The exit code counts as explained, too, if the process has
    missing units and either no result, a successor, or a collection error.

    Args:
        running: state at its end, with the results of units that died.
        errors: the process reported a collection error.
    """
    if running.refuses_exit:
        return not running.deaths
    if exit_code == 0 or running.stopping is not None or running.recycled or running.deaths:
        return False
    if running.failed_units and ending == "completed":
        return False
    if not running.start.units:
        return False  # the process only listed the units
    reported = running.units_with_result()
    if reported >= set(running.start.units):
        return True
    return bool(reported) and ending == "completed" and not errors


def last_output(log: bytes) -> str:
    """Return the end of a process's output; from a runtime's fatal error on, if there is one."""
    text = log.decode("utf-8", "replace").strip()
    starts = [match.start() for match in FATAL.finditer(text)]
    if starts:
        return text[starts[-1] :][:OUTPUT_BYTES]
    return "\n".join(text.splitlines()[-LAST_LINES:])[-OUTPUT_BYTES:]


def command_result(state: State, process: int, ended: ExitInfo, now_s: float, peak: Peak) -> Result:
    """Return the result of a command that is the leg's one unit, without a message.

    Args:
        peak: peak of the process, measured from outside.
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


def culprit_results(
    state: State,
    process: int,
    ending: Ending,
    now_s: float,
    open_cases: Mapping[UnitKey, Mapping[str, float | None]] = {},  # never changed
) -> tuple[Result, ...]:
    """Return a result without a message for each unit that is, or may be, to blame for an end.

    `wall_s` is the least time that the unit ran, or its one open case. Call this before the end is
    observed.

    Args:
        now_s: end of the process, or the request to stop: the stop is not the unit's time.
        open_cases: unit -> cases that began and have no result -> at_s of their start.
    """
    if ending == "setup_failed":
        return ()
    running = state.running[process]
    culprits = state.culprits(process)
    results = []
    for unit in culprits:
        planned = state.units[unit]
        began_s = running.open_units.get(unit, NO_TIME_S)
        cases = open_cases.get(planned.key, {})
        # The cases that have no subtest among the others.
        inner = [name for name in cases if not any(each.startswith(f"{name} > ") for each in cases)]
        case = inner[0] if len(inner) == 1 else ""
        if case and cases[case] is not None:
            began_s = cases[case] or 0.0
        file, line = running.code_positions.get(unit, (None, None))
        result = Result(
            unit=planned.unit,
            outcome="died",
            suite=planned.suite,
            variant=planned.variant,
            case=case or planned.unit,
            ending=ending,
            at_s=now_s,
            wall_s=None if began_s == NO_TIME_S else max(0.0, round(now_s - began_s, 6)),
            rss_before_bytes=running.rss_before_bytes.get(unit),
            peak_lower_bytes=running.max_bytes_in_unit or None,  # a sample after its death is 0
            concurrent=len(culprits),
            try_number=1 + state.tries.get(unit, 0),
            process=process,
            file=file,
            line=line,
        )
        results.append(result)
    return tuple(results)
