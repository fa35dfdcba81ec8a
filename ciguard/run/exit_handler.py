"""End of a tested process: how it ended, its culprits and missing units, in record and log."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable, Final, Sequence

from ciguard.model import Ending, EventKind, EventLine, Line, ProcessEndLine, Result, UnitKey
from ciguard.model.failure_texts import memory_failure
from ciguard.model.types import AFTER_TESTS_S
from ciguard.run.output.view import (
    REAPER_LOST,
    describe_after_tests,
    describe_culprit,
    describe_exit,
    describe_import_crash,
    describe_missing,
    describe_peak,
    describe_setup_failure,
    describe_unexplained_exit,
)
from ciguard.run.process.ending import (
    FAILED,
    NOT_RUN,
    classify_exit,
    command_result,
    culprit_results,
    fatal_signal,
    is_unexplained,
    last_output,
)
from ciguard.run.process.files import read_dumps
from ciguard.run.result_collector import FILE, ResultCollector
from ciguard.text import count_of, last_error_line, unit_name

if TYPE_CHECKING:
    from ciguard.run.frameworks.base import ProcessFiles
    from ciguard.run.memory.sampler import MemorySampler
    from ciguard.run.output.leg_console import Console
    from ciguard.run.platforms.base import ExitInfo
    from ciguard.run.policy.process_state import ProcessState
    from ciguard.run.policy.state import State
    from ciguard.run.process.handle import Peak, ProcessHandle
    from ciguard.run.record_writer import RecordWriter
    from ciguard.run.supervisor import LegSpec

STACK_LINES: Final = 8  # lines of a stopped test's stacks that the log shows


@dataclass(frozen=True)
class ProcessExit:
    """A process that has ended, after all its lines were read."""

    live: ProcessHandle
    running: ProcessState
    info: ExitInfo  # the end as the operating system reports it
    exit_code: int  # of the framework; 1 for every code that means failed tests
    ending: Ending
    error: str  # why the process did not start, or that its reaper was killed; "" for neither
    output: str  # the error, or the end of the process's output
    stacks: tuple[str, ...]  # of each process of the tree, if the leg asked for them
    at_s: float

    @property
    def number(self) -> int:
        return self.live.batch.process

    @property
    def description(self) -> str:
        """The exit code or signal in words."""
        return describe_exit(self.info.exit_code)


@dataclass
class ProcessExitHandler:
    """Handler for the ends of all processes of a leg.

    Attributes:
        observed: writes a line that the rules observe.
        oom_kills: returns the kernel's count of out-of-memory kills.
        causes: unit without a result -> the reason.
        unexplained: number of processes whose exit code no result explains.
        settings: dry runs, focus and filters that the processes reported.
    """

    job: LegSpec
    state: State
    record: RecordWriter
    console: Console
    files: ResultCollector
    observed: Callable[[Line], None]
    memory: MemorySampler
    oom_kills: Callable[[], int]
    causes: dict[UnitKey, str] = field(default_factory=dict)
    unexplained: int = 0
    settings: list[EventLine] = field(default_factory=list)
    _advised: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unexplained = sum(
            isinstance(line, EventLine) and line.kind == "unexplained_exit"
            for line in self.job.earlier.lines
        )

    def handle(
        self, live: ProcessHandle, info: ExitInfo, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> None:
        """Process the end of a process: how it ended, its culprits, and missing units with reasons.

        Args:
            live: the process, after all its lines were read.
            concurrent: files of the other running processes.
        """
        self.settings += live.report.settings
        peak = live.peak(info, self.memory.peak_bytes.get(live.batch.process))
        self.memory.tree_peak_bytes = max(self.memory.tree_peak_bytes, peak.peak_bytes or 0)
        self._observe_command(live, info, peak, now_s)
        has_results = self._has_results(live, concurrent, now_s)
        end = self._classify(live, info, now_s, has_results=has_results)
        if info.is_reaper_lost:
            self._record(end, "reaper_killed", end.error)
        if end.stacks:
            self._record(end, "stacks", "\n\n".join(end.stacks))
        culprits = self._observe_culprits(end)
        self._record_missing(end)
        crashing_file = self._record_crashing_file(end)
        unexplained, note = self._record_exit_code(end)
        facts = (info.exit_code, now_s, *peak, info.cpu_s)
        self.observed(ProcessEndLine(end.number, end.ending, *facts))
        self.record.sync(now_s, immediately=True)
        how = "stopped at a checkpoint" if end.running.at_checkpoint else f"{end.ending}{note}"
        self._print_end(end, f"{how} after {now_s - live.started_s:.1f} s{describe_peak(peak)}")
        if end.stacks and not culprits:
            self._print_stacks(end.stacks[0].splitlines())
        for culprit in culprits if end.ending != "completed" else ():
            # Printed at once, because a leg that dies later prints no summary.
            first, *rest = (culprit.message or "").splitlines()
            self.console.print_reason(unit_name(culprit.unit_key), first)
            if end.stacks:
                self._print_stacks(rest)
        if crashing_file:
            self.console.print_line(crashing_file)
        self._record_after_tests(end)
        if unexplained and not end.running.refuses_exit:
            for line in describe_unexplained_exit(end.number, info.exit_code, end.output):
                self.console.print_line(line)

    def _record(self, end: ProcessExit, kind: EventKind, detail: str) -> None:
        self.record.append(EventLine(kind, end.at_s, end.number, detail=detail))

    def _observe_command(
        self, live: ProcessHandle, info: ExitInfo, peak: Peak, now_s: float
    ) -> None:
        """Write the result of a leg's command, unless a signal or the leg ended it."""
        running = self.state.running[live.batch.process]
        # A shell's 139 is the signal of its child, as -11 is.
        by_itself = fatal_signal(info.exit_code) is None and not running.stopping
        if self.job.is_command and running.open_units and by_itself:
            result = command_result(self.state, live.batch.process, info, now_s, peak)
            message = describe_exit(info.exit_code) if info.exit_code else None
            self.observed(replace(result, message=message))

    def _has_results(
        self, live: ProcessHandle, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> bool:
        """Copy the new files; return whether the process had results, or had none to give."""
        running = self.state.running[live.batch.process]
        runs_first = bool(running.start.units) and not running.start.repeats
        events, may_have_files = self.files.collect_after(
            live.batch, concurrent, now_s, runs_first=runs_first
        )
        for event in events:
            self.record.append(event)
            if event.kind != FILE and event.reason not in ("collected", "repeated"):
                self.console.print_line(f"process {event.process}: {event.detail}")
        had_units = bool(running.start.units) or self.state.awaits_listing
        # A unit that the program reported as vanished shows that the framework works.
        has_lines = bool(running.units_with_result() or live.report.vanished)
        return has_lines or may_have_files or not had_units

    def _classify(
        self, live: ProcessHandle, info: ExitInfo, now_s: float, *, has_results: bool
    ) -> ProcessExit:
        """Determine how the process ended, by exit code, output and running units."""
        running = self.state.running[live.batch.process]
        executor = self.job.executor(running.start.suite)
        error = REAPER_LOST if info.is_reaper_lost else info.error
        output = error or last_output(live.last_output())
        exit_code = self._framework_exit_code(live, info.exit_code)
        if self.job.is_command:  # an exit code is a result, a signal is none
            is_normal = fatal_signal(exit_code) is None
        else:
            is_normal = executor.is_normal_exit(exit_code, had_results=has_results)
        ending = classify_exit(
            running,
            exit_code,
            clean=not info.error and is_normal,
            out_of_memory=self.oom_kills() > live.oom_kills
            or bool(memory_failure(live.last_output().decode("utf-8", "replace"))),
            collecting=live.report.collecting,
            timed_out=executor.hit_own_timeout(info.exit_code, output),
        )
        stacks = read_dumps(live.batch.stacks_file)
        return ProcessExit(live, running, info, exit_code, ending, error, output, stacks, now_s)

    def _framework_exit_code(self, live: ProcessHandle, code: int) -> int:
        """Return the exit code of the framework's session in a script, or of the process.

        `make`, for example, ends with 2 if its command ends with 1.
        """
        suite = self.job.suites[self.state.running[live.batch.process].start.suite]
        if not code or code in NOT_RUN or fatal_signal(code) is not None:
            return code
        if suite.is_script and live.report.session_status:
            return live.report.session_status
        return FAILED if suite.means_failed_tests(code) else code

    def _observe_culprits(self, end: ProcessExit) -> tuple[Result, ...]:
        """Write the results of the units to blame, or the last output; return these results."""
        stopped_s = end.live.process.stop_requested_s or end.at_s
        open_cases = end.live.report.open_cases
        results = culprit_results(self.state, end.number, end.ending, stopped_s, open_cases)
        culprits = tuple(self._with_message(result, end) for result in results)
        if end.info.is_reaper_lost and len(end.running.start.units) > 1:
            culprits = ()  # an earlier unit may have killed the reaper: a bisection finds it
        for culprit in culprits if end.ending != "completed" else ():
            self.observed(culprit)
        if end.ending != "completed" and not culprits:
            self._record(end, "last_output", f"{end.description}\n{end.output}")
        return culprits

    def _with_message(self, culprit: Result, end: ProcessExit) -> Result:
        unit = self.state.position(culprit.unit_key)
        assert unit is not None
        message = describe_culprit(
            culprit,
            self.state.timeout_s(unit),
            end.running,
            exit_code=end.info.exit_code,
            output=end.output,
            quote=not self.job.executor(end.running.start.suite).reports_starts,
            stacks=end.stacks,
            interrupted=end.live.report.interrupted.get(culprit.unit_key, ""),
        )
        return replace(culprit, message=message)

    def _record_missing(self, end: ProcessExit) -> None:
        """Record the reason for each unit that the process leaves without a result."""
        report, suite = end.live.report, end.running.start.suite
        unfinished = filter(end.running.may_be_running, end.running.unfinished_units())
        missing = [self.state.units[unit].key for unit in unfinished]
        if end.ending == "setup_failed":
            why = describe_setup_failure(end.info.exit_code, end.output)
            self.causes.update(dict.fromkeys(missing, why))
            advice = self.job.executor(suite).advice(end.output)
            if advice and advice not in self._advised:  # each advice is given once
                self._advised.add(advice)
                self.console.print_line(f"  fix: {advice}")
        if end.running.was_cut_short(end.ending):
            return  # the units run again
        for key in missing:
            if self.files.has_result_globs(suite):
                self.record.append(self.files.expect_result(key, end.number, end.at_s))
                continue
            announces = self.job.executor(suite).reports_starts
            kind = report.missing_kind(key, announces=announces)
            name, code = self.job.suites[suite].framework, end.info.exit_code
            why = describe_missing(kind, report, key, framework=name, exit_code=code)
            self.causes[key] = why
            self.record.append(EventLine(kind, end.at_s, end.number, *key, detail=why))

    def _record_crashing_file(self, end: ProcessExit) -> str:
        """Record why units of a file that kills its process do not run; return a log line or ""."""
        blamed = self.state.units_of_crashing_file(end.number, end.ending)
        if not blamed:
            return ""
        file = self.state.file_of(blamed[0])
        why = describe_import_crash(end.ending, end.info.exit_code)
        for key in (self.state.units[unit].key for unit in blamed):
            self.causes[key] = why
            self.record.append(EventLine("not_imported", end.at_s, end.number, *key, detail=why))
        left = f"{count_of(len(blamed), 'test')} of it cannot run"
        return f"  {file}: it ends its process before the first test, {left}"

    def _record_exit_code(self, end: ProcessExit) -> tuple[bool, str]:
        """Record an exit code that results do not explain, or that result files have to explain.

        Returns:
            Whether the exit code is unexplained, and a note on it for the log.
        """
        has_errors = bool(end.live.report.errors)
        unexplained = is_unexplained(end.running, end.ending, end.exit_code, errors=has_errors)
        if has_errors and end.live.batch.listing_file:
            unexplained = False  # the process imported files without units of the shard
        code = end.info.exit_code
        note = "" if end.ending == "completed" else f" ({end.description})"
        has_files = self.files.has_result_globs(end.running.start.suite)
        if has_files and end.ending == "completed" and not end.running.failed_units:
            unexplained = False
            if code and not end.running.recycled:
                self.record.append(self.files.expect_explanation(end.number, end.at_s))
                note = f" (exit code {code}: see its result files)"
        if unexplained:
            self.unexplained += 1
            detail = f"{end.description}\n{last_error_line(end.output)}"
            self._record(end, "unexplained_exit", detail)
        return unexplained, note

    def _record_after_tests(self, end: ProcessExit) -> None:
        """Record and print the time from the last test to the end of the process."""
        running, last_s = end.running, end.running.last_activity_at_s
        if end.at_s - last_s < AFTER_TESTS_S or not running.units_with_result():
            return
        # A leg's deadline may stop the process before the rules stop it for not exiting.
        stopped = running.refuses_exit or bool(running.done_s is not None and running.stopping)
        line, text = describe_after_tests(
            end.number, last_s, end.live.report, end.at_s, was_stopped=stopped
        )
        self.record.append(line)
        self.console.print_line(text)

    def _print_end(self, end: ProcessExit, text: str) -> None:
        if self.job.shard.processes != 1:
            self.console.begin(f"process {end.number}: output")
        self.console.drain_log(end.live.log)
        failures = b"" if end.live.report.finished else end.live.failures()
        if failures:
            self.console.print_line("what failed in it before it ended:")
            self.console.write_raw(failures)
        self.console.end(f"process {end.number}: {text}")
        if end.error:
            self.console.print_line(f"  {end.error}")

    def _print_stacks(self, lines: Sequence[str]) -> None:
        for line in lines[:STACK_LINES]:
            self.console.print_line(f"    {line}")
