"""Sentences of a leg on decisions, ends of processes and units without a result. Pure.

Rules and results hold kinds and numbers. A record has some of these texts for people, as `detail`
or `message`; no code decides by them.
"""

from __future__ import annotations

import signal
import textwrap
from typing import Final, Iterator, Mapping, Sequence

from ciguard.model import Ending, EventKind, EventLine, PlannedUnit, Result, SampleLine, UnitKey
from ciguard.model.failure_texts import memory_failure
from ciguard.model.listings import LISTING_EVENT_KINDS
from ciguard.model.machine_use import MachineUse
from ciguard.model.plan import shard_of_block
from ciguard.run.policy.actions import Claim, Reason, ReasonKind, Recycle, Stop, Warn
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.repeats import RepeatedUnit
from ciguard.run.policy.reruns import NewFailure
from ciguard.run.process.ending import CODES, DEADLY, TERMINATED, fatal_signal, probable_signal
from ciguard.run.process.handle import Peak, ProcessReport
from ciguard.text import (
    count_of,
    duration,
    last_error_line,
    last_line,
    name_some,
    peak_text,
    size,
    unit_name,
)

OUTPUT_CHARACTERS: Final = 2000  # of stacks, in the message of a unit that died
MAX_NAMED: Final = 3  # tests in a sentence
MAX_FILES: Final = 5  # result files in a sentence
REAPER_LOST: Final = "its reaper was killed"
IN_FILES: Final = "its result is in a file, or there is none"
GRACE_USED: Final = (
    "an earlier step stopped tests at its checkpoint: this step waits for them, up to its deadline"
)
_WORKERS: Final = {
    "memory": "{workers:g} of {tool_workers:g} workers: no more fit into {limit}, at up to {peak} "
    "each, by measured peaks",
    "fitting": "{workers:g} workers: they fit into {limit}, by measured peaks",
    "not_measured": "{workers:g} workers, not limited: no {missing}",
}
MAX_RUNNING: Final = 4  # running units named in a progress line
LISTED: Final = 100  # units recorded by name after an early end; the plan has the others

_REASONS: Final[Mapping[ReasonKind, str]] = {
    "listing": "lists the tests",
    "first": "first",
    "next": "next",
    "search": "search: one of {units} ended a process without a result",
    "heavy": "needs {need_bytes} of {free_bytes}",
    "over_budget": "needs {need_bytes}, more than the memory budget",
    "memory_retry": "retry, alone: memory ran out when its process had {process_bytes}",
    "crash_retry": "retry, alone: one of {units} that ran when process {process} crashed",
    "failure_retry": "retry: {units} failed in process {process}",
    "probe_alone": "a new failure again, alone",
    "probe_again": "a new failure again, after the tests before it",
    "probe_after": "a new failure again, after some of those before it",
    "repeat_alone": "a new or changed test again, alone",
    "repeat_after": "a new or changed test again, after tests of its file",
    "next_block": "asks the service for tests",
    "cancelled": "the job was told to stop",
    "second_session": "the suite's command started its framework twice for one batch of tests",
    "deadline": "deadline: {limit_s} have passed",
    "unit_timeout": "over its limit of {limit_s}",
    "no_exit": "its tests ended {waited_s} ago, but it did not",
    "idle": "it has tests left, but ran none for {idle_s}",
    "memory_guard": "headroom {headroom_bytes}; the largest process has {largest_process_bytes}",
    "retained_memory": "resident {resident_bytes}, the next test needs {next_bytes}, "
    "limit {limit_bytes}",
    "checkpoint": "{limit_s} have passed; {units} left for another step",
    "checkpoint_grace": "{limit_s} have passed twice; the next step goes on",
    "memory_low": "headroom {headroom_bytes} is below {limit_bytes}",
    "memory_not_reclaimable": "headroom {headroom_bytes}, and the largest process has only "
    "{largest_process_bytes}: the memory is used by something else",
    "rerun_skipped": "no further try: it took {duration_s}, and {remaining_s} are left",
    "all_ended": "every test was started",
    "fruitless": "{processes} processes in a row finished no test; {units} did not run",
    "record_removed": "the record was removed while tests ran: pass a folder outside of the "
    "checkout to --record",
    "internal_error": "ciguard itself failed",
}
_AFTER_TESTS: Final = {
    "no_exit": "stopped, as it did not end",
    "threads_left": "threads left over",
    "session_teardown": "session teardown (hooks, coverage)",
    "process_exit": "process exit",
}
_CLAIMS_END: Final = {
    "nothing_left": "the service has none",
    "no_answer": "the service did not answer within 2 s",
    "refused": "the service refused",
    "no_token": "no token for the service",
    "not_asked": "",
}
_INCOMPLETE: Final = {
    "without_result_units": "got no result from a process that completed",
    "import_crashed_units": "did not run: their file ends its process before its first test",
    "not_retried_units": "could not be executed again, and keep their earlier result",
}
_STOPS: Final[Mapping[Ending, str]] = {
    "timeout": "stopped: over its limit",
    "deadline": "stopped: the job's deadline",
    "memory_guard": "killed: memory was about to run out",
    "cancelled": "stopped: the job was told to stop",
    "out_of_memory": "killed by the kernel: out of memory",
}
_STATUS: Final = {
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


def _fact(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return size(value)
    if name.endswith("_s"):
        return f"{round(value, 2):g} s"
    return count_of(int(value), "test") if name.endswith("units") else f"{value:g}"


def describe_reason(reason: Reason) -> str:
    """Return the reason of a decision in words, without a full stop."""
    facts = {name: _fact(name, value) for name, value in reason.facts.items()}
    if reason.kind == "incomplete":
        parts = [
            f"{reason.facts[name]:g} of {facts['planned_units']} {text}"
            for name, text in _INCOMPLETE.items()
            if name in facts
        ]
        return "; ".join(parts)
    text = _REASONS[reason.kind].format_map(facts)
    if reason.kind == "rerun_skipped" and "process" in facts:
        text = f"{facts['units']} of process {facts['process']}: {text}"
    if "later_units" in facts:
        text += f"; {facts['later_units']} later, the limit is {facts['limit_bytes']}"
    return text


def describe_listing(counts: Mapping[str, float]) -> str:
    """Return a line of the log for a listing."""
    tests = count_of(int(counts["units"]), "test")
    return f"listed: {tests}, {counts['new']:g} new, {counts['gone']:g} gone"


def describe_workers(event: EventLine, limit_bytes: float, peak_bytes: int) -> str:
    """Return a line of the log for the workers of a process; its limit is infinite for none."""
    is_limited = limit_bytes < float("inf")
    words = {"limit": size(int(limit_bytes)) if is_limited else "", "peak": size(peak_bytes)}
    missing = "measured peaks" if is_limited else "memory budget"
    return _WORKERS[event.reason or ""].format(**event.facts, **words, missing=missing)


def describe_action(action: Stop | Recycle | Warn | Claim, units: Sequence[PlannedUnit]) -> str:
    """Return a line of the log for a decision on a running process, or on none."""
    why = describe_reason(action.reason)
    if isinstance(action, Claim):
        return why
    if isinstance(action, Warn):
        return f"{action.reason.kind}: {why}"
    if isinstance(action, Recycle):
        return f"process {action.process}: recycled: {why}"
    unit = "" if action.unit is None else f": {unit_name(units[action.unit].key)}"
    ending = "checkpoint" if action.checkpoint else action.ending
    return f"process {action.process}: {ending}: {why}{unit}"


def describe_initial_event(line: EventLine) -> str:
    """Return a line of the log for an event before the first process; "" for no line."""
    if line.kind == "listing":
        return describe_listing(line.facts)
    if line.kind == "claims_ended":
        return describe_claims_end(line.reason or "", line.detail, 0)
    return (
        f"{line.kind}: {line.detail}"
        if line.kind not in LISTING_EVENT_KINDS and line.detail
        else ""
    )


def describe_claim(block: str, units: int, *, is_own: bool) -> str:
    """Return a line of the log for a block that this leg runs."""
    tests = "its own tests" if is_own else f"tests of shard {shard_of_block(block)}"
    return f"runs {tests}: {count_of(units, 'test')} (block {block})"


def describe_taken(block: str, shard: str, units: int) -> str:
    """Return a line of the log for a block that another leg runs."""
    return f"shard {shard} runs {count_of(units, 'test')} of this shard (block {block})"


def describe_claims_end(reason: str, detail: str, own_units: int) -> str:
    """Return a line of the log for a leg that claims no more, and runs so many own units."""
    own = count_of(own_units, "test")
    tests = f"runs its own tests ({own})" if own_units else "asks for no more tests"
    why = ": ".join(filter(None, (_CLAIMS_END[reason], detail)))
    return f"{tests}: {why}"


def signal_name(number: int) -> str:
    """Return SIGSEGV for 11; the number for a signal without a name."""
    if number in DEADLY:
        return DEADLY[number]
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe_exit(exit_code: int) -> str:
    """Return an exit code, or the signal that killed, in words."""
    number = fatal_signal(exit_code)
    if number is None:
        child = probable_signal(exit_code)
        perhaps = f", perhaps {signal_name(child)} ({CODES} - {child})" if child else ""
        return f"exit code {exit_code}{perhaps}"
    if number == exit_code:
        return f"{_STATUS.get(exit_code, 'ended by Windows')} (exit code 0x{exit_code:08X})"
    shell_code = f" (exit code {exit_code})" if exit_code > 0 else ""
    return f"killed by {signal_name(number)}{shell_code}"


def describe_import_crash(ending: Ending, exit_code: int) -> str:
    """Return why the units of a file that ends its process do not run."""
    how = f"{ending}, {describe_exit(exit_code)}"
    return f"it could not be imported: a process that read no other file ended ({how})"


def describe_setup_failure(exit_code: int, output: str) -> str:
    """Return why the units of a process without any result have none."""
    last = last_line(output) or "it printed nothing"
    return f"its process ended before its first result ({describe_exit(exit_code)}): {last}"


def describe_left_out(problems: Sequence[str], limit: int | None) -> str:
    """Return which new result files were not copied, and why; "" for none.

    Args:
        limit: number of files that were looked at, if there are more; otherwise None.
    """
    if limit is not None:
        return f"only the first {limit} files were looked at: name fewer folders"
    if not problems:
        return ""
    more = f", and {len(problems) - MAX_FILES} more" if len(problems) > MAX_FILES else ""
    return f"{count_of(len(problems), 'result file')}: {'; '.join(problems[:MAX_FILES])}{more}"


def describe_unexplained_exit(process: int, exit_code: int, output: str) -> tuple[str, ...]:
    """Return lines of the log on a process whose exit code no result explains."""
    is_killed = fatal_signal(exit_code) is not None
    question = "did a hook of the session or a coverage gate set it?"
    return (
        f"process {process}: {describe_exit(exit_code)}, and no failed result explains it",
        f"  its last output: {last_error_line(output)}",
        f"  {'it died after its last test' if is_killed else question}",
    )


def describe_after_tests(
    process: int, last_s: float, report: ProcessReport, now_s: float, *, was_stopped: bool
) -> tuple[EventLine, str]:
    """Describe how long a process took to end after its last test, and what took most of it.

    Args:
        last_s: end of the last test.
        was_stopped: the leg stopped the process, because it did not exit.

    Returns:
        A line for the record and one for the log.
    """
    session_s = last_s if report.session_end_s is None else max(last_s, report.session_end_s)
    names = [
        f"{line.detail} of {line.unit}" if line.unit else line.detail for line in report.threads
    ]
    reason = "process_exit"
    if session_s - last_s > now_s - session_s:
        reason, names = "session_teardown", []
    elif was_stopped or names:
        reason = "no_exit" if was_stopped else "threads_left"
    facts, detail = {"wall_s": round(now_s - last_s, 6)}, ", ".join(names)
    line = EventLine("after_tests", now_s, process, detail=detail, reason=reason, facts=facts)
    text = ": ".join(filter(None, (_AFTER_TESTS[reason], detail)))
    return line, f"  {now_s - last_s:.0f} s after its last test: {text}"


def describe_peak(peak: Peak) -> str:
    """Return ", peak 512 MiB (mark)"; "" if nothing was measured."""
    if peak.peak_bytes is None:
        return ""
    return f", peak {size(peak.peak_bytes)} ({peak.measured_by})"


def describe_memory(peak_bytes: int, gpu_bytes: Mapping[str, int]) -> str:
    """Return "; peak memory 1.62 GiB; GPU 0 20.4 GiB, GPU 1 18.1 GiB"; "" without a GPU."""
    gpus = ", ".join(f"GPU {gpu} {size(largest)}" for gpu, largest in gpu_bytes.items())
    return f"; peak memory {size(peak_bytes)}; {gpus}" if gpus else ""


def describe_machine(
    use: MachineUse, peak_bytes: int, result: Result | None, cpus: int | None
) -> Iterator[str]:
    """Yield the last lines of a command: the programs at its peak, and its use of the machine.

    Args:
        result: of the command; None if it was stopped.
    """
    programs = f": {peak_text(use.peak)}" if use.peak is not None else ""
    peak = f"peak {size(peak_bytes)}{programs}" if peak_bytes else ""
    parts = [f"GPU {gpu} {size(largest)}" for gpu, largest in use.gpu_bytes.items()]
    if result is not None and result.cpu_s is not None and result.wall_s and cpus:
        share = result.cpu_s / result.wall_s / cpus
        parts.append(f"CPU {100 * share:.0f} % of {count_of(cpus, 'core')}")
    if use.swap_growth is not None and use.has_swapped:
        parts.append(f"swap +{size(use.swap_growth.size_bytes)}")
    if use.stalls is not None and use.has_stalled(result.wall_s if result else None):
        parts.append(f"waited {duration(use.stalls.stalled_s)} for memory")
    for text in filter(None, (peak, ", ".join(parts))):
        yield from textwrap.wrap(text, 80, initial_indent="  ", subsequent_indent="    ")


def describe_culprit(
    culprit: Result,
    limit_s: float | None,
    running: ProcessState,
    *,
    exit_code: int,
    output: str,
    quote: bool = False,
    stacks: Sequence[str] = (),
    interrupted: str = "",
) -> str:
    """Return the message of a unit that died; its first line has to suffice in short texts.

    Args:
        limit_s: timeout of the unit.
        quote: the last line of the output is informative, not the progress of a framework.
        stacks: stacks of each process of the tree, from before its stop.
        interrupted: what ended the process, as the process itself reported; "" for nothing.
    """
    ending, how = culprit.ending, describe_exit(exit_code)
    is_own_timeout = ending == "timeout" and running.stopping is None
    if running.at_checkpoint:
        text = "stopped at a checkpoint: the next step runs it again"
    elif is_own_timeout:
        text = f"stopped by its own limit ({how})"
    elif ending == "timeout" and limit_s is not None:
        text = f"{_STOPS[ending]} of {limit_s:g} s"
    else:
        died = (interrupted if ending == "crash" else "") or "the process died"
        # A runtime without memory may end itself before the kernel does.
        runtime_error = memory_failure(output) if ending == "out_of_memory" else ""
        text = f"{runtime_error or _STOPS.get(ending, died)} ({how})"
        if (culprit.concurrent or 1) > 1:
            text += f"; one of {count_of(culprit.concurrent or 1, 'test')} that ran at the time"
    if (ending == "crash" or is_own_timeout) and output:
        # The first line needs no output if it has a signal or an interruption.
        quotes = quote and fatal_signal(exit_code) is None and not interrupted
        text += f"; last output: {last_line(output)}\n{output}" if quotes else f"\n{output}"
    if culprit.peak_lower_bytes is not None and culprit.ending in ("memory_guard", "out_of_memory"):
        text += f", its process had {size(culprit.peak_lower_bytes)}"
    if stacks:
        # The process that runs the unit may be a worker of xdist.
        line = f" in {culprit.unit.rpartition('::')[2].partition('[')[0]}\n"
        own = next((stack for stack in stacks if line in f"{stack}\n"), stacks[0])
        text += f"\n{own[:OUTPUT_CHARACTERS]}"
    return text


def describe_missing(
    kind: EventKind, report: ProcessReport, key: UnitKey, *, framework: str, exit_code: int
) -> str:
    """Return why a unit has no result although its process completed: a clause after "because"."""
    if kind == "not_imported":
        return f"it could not be imported: {report.error_of(key.unit)}"
    if kind == "deselected":
        return f"it was {report.vanished[key]}"
    if kind == "not_found":
        return f"it was not found by {framework} in this checkout"
    if kind == "not_reached":
        stopped = f": {report.stopped}" if report.stopped else ""
        return f"its process ended with exit code {exit_code} before it started{stopped}"
    unreadable = f" ({report.unreadable})" if report.unreadable else ""
    return f"the command wrote no result for it to $CIGUARD_RECORD_FILE{unreadable}"


def not_run_events(
    missing: Sequence[UnitKey], planned: int, reason: str, now_s: float
) -> Iterator[EventLine]:
    """Yield the events of a leg that ended early: the count of its missing units, and their names.

    Args:
        missing: units without a result, in the shard's order. planned: number of planned units.
        reason: why the leg ended.
    """
    if not missing:
        return
    of = f"{len(missing)} of {count_of(planned, 'test')} did not run"
    yield EventLine("not_run", now_s, detail=f"{of}: {reason}")
    for suite, variant, unit in missing[:LISTED]:
        detail = f"it was not started: {reason}"
        yield EventLine("not_run", now_s, None, suite, variant, unit, detail)


def describe_resumed(done: int, planned: int, records: int, failed: Sequence[UnitKey]) -> str:
    """Count the tests of a shard that ended in earlier legs, and name those that run again.

    Args:
        done: units with a result, of those `planned`.
        failed: units with retries left.
    """
    text = f"{done} of {count_of(planned, 'test')} ended before, in {count_of(records, 'record')}"
    if not failed:
        return text
    names = name_some(failed, unit_name, MAX_NAMED)
    return f"{text}; retry of {count_of(len(failed), 'failed test')}: {names}"


def describe_progress(
    done: int,
    planned: int,
    *,
    bad: int,
    times_s: tuple[float, float | None],
    sample: SampleLine | None,
    running: Sequence[str],
) -> str:
    """Return a progress line. If the runner is lost after it, one of the named units is to blame.

    Args:
        done: number of units with a result, of those `planned`.
        bad: number of units that are not good.
        times_s: elapsed and predicted time of all steps of the leg; None if not known.
        running: names of the running units.
    """
    parts = [f"{done}/{count_of(planned, 'test')}"]
    if bad:
        parts.append(f"{bad} failed")
    if sample is not None and sample.tree_bytes is not None:
        parts.append(f"{size(sample.tree_bytes)} in use")
    if sample is not None and sample.headroom_bytes is not None:
        parts.append(f"{size(sample.headroom_bytes)} free")
    elapsed_s, predicted_s = times_s
    of = "" if predicted_s is None else f" of about {duration(predicted_s)}"
    text = ", ".join([*parts, f"{duration(elapsed_s)}{of}"])
    return f"{text}: {name_some(running, str, MAX_RUNNING)}" if running else text


def describe_probe(failure: NewFailure, units: Sequence[PlannedUnit]) -> str:
    """Return how the extra tries of a unit ended."""
    tries = ((failure.alone, "alone"), (failure.again, "after the tests before it"))
    parts = [f"{'failed' if bad else 'passed'} {how}" for bad, how in tries if bad is not None]
    if failure.after is not None:
        parts.append(f"failed directly after {unit_name(units[failure.after].key)}")
    return ", ".join(parts) or "no answer"


def describe_repeats(repeated: RepeatedUnit) -> str:
    """Return how the repeats of a unit ended."""
    failed = f"{repeated.failed} failed" if repeated.failed else "none failed"
    return f"{count_of(repeated.ended, 'repeat')}, {failed}"


def describe_until(units: int, planned: int, processes: int) -> str:
    """Return the part of a shard that `--until` selects.

    Args:
        processes: number of processes of the shard, if only the tests of one are left; otherwise 1.
    """
    kind = f"of its process (1 of {processes})" if processes > 1 else "of the shard"
    return f"{units} of {count_of(planned, 'test')}: those {kind}, up to this one"
