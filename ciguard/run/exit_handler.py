"""What is written down and said when a tested process has ended: victims, ending, missing units."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable, Dict, Final, List, Sequence, Set

from ciguard.model import Ending, EventLine, Line, ProcessEndLine, Result, UnitKey
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
    with_open_cases,
)
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


SHOWN: Final = 8  # lines of where a stopped test stood


@dataclass
class ProcessExitHandler:
    """Of all processes of a leg, one after the other.

    Attributes:
        observed: writes a line that the rules look at.
        oom_kills: the kernel's count until now.
        causes: why units have no result.
        unexplained: processes whose exit code no result explains.
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
    causes: Dict[UnitKey, str] = field(default_factory=dict)
    unexplained: int = 0
    settings: List[EventLine] = field(default_factory=list)
    _advised: Set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unexplained = sum(
            isinstance(line, EventLine) and line.kind == "unexplained_exit"
            for line in self.job.earlier.lines
        )

    def handle(
        self, live: ProcessHandle, ended: ExitInfo, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> None:
        """Take in the end of a process: its victims, its ending, what is missing and why.

        Args:
            live: with all its lines taken in.
            concurrent: files of the other processes that run.
        """
        number = live.batch.process
        running = self.state.running[number]
        self.settings += live.report.settings
        peak = live.peak(ended, self.memory.peak_bytes.get(number))
        self._observe_command(running, ended, peak, now_s)
        # What was not found was looked for: a framework that is not there finds nothing missing.
        had_results = bool(running.reported() or live.report.vanished)
        had_results |= self._copy_files(live, concurrent, now_s)
        # One that was given no unit had nothing to say.
        had_results |= not running.start.units and not self.state.awaits_listing
        error = REAPER_LOST if ended.is_reaper_lost else ended.error
        output = error or last_output(live.last_output())
        ending = self._classify(live, ended, output, had_results=had_results)
        if ended.is_reaper_lost:
            self.record.append(EventLine("reaper_killed", now_s, number, detail=error))
        stacks = live.stacks()
        if stacks:
            self.record.append(EventLine("stacks", now_s, number, detail="\n\n".join(stacks)))
        stopped_s = live.process.stop_requested_s or now_s
        found = with_open_cases(
            culprit_results(self.state, number, ending, stopped_s), live.report.open_cases
        )
        culprits = tuple(self._with_message(one, live, ended.exit_code, output) for one in found)
        if ended.is_reaper_lost and len(running.start.units) > 1:
            culprits = ()  # who killed it may have passed since: it is searched for by halves
        detail = f"{describe_exit(ended.exit_code)}\n{output}"
        if ending != "completed":
            for culprit in culprits:
                self.observed(culprit)
            if not culprits:
                self.record.append(EventLine("last_output", now_s, number, detail=detail))
        self._record_missing(live, ending, ended.exit_code, now_s, output)
        of_file = self._record_crashing_file(number, ending, ended.exit_code, now_s)
        errors = bool(live.report.errors)
        exit_code = self._framework_exit_code(live, ended)
        unexplained = is_unexplained(running, ending, exit_code, errors=errors)
        if errors and live.batch.listing_file:
            unexplained = False  # it imported what is no file of its units
        why = ""
        if (
            self.files.has_result_globs(running.start.suite)
            and ending == "completed"
            and not running.failed
        ):
            unexplained = False
            if ended.exit_code and not running.recycled:
                self.record.append(self.files.expect_explanation(number, now_s))
                why = f" (exit code {ended.exit_code}: see its result files)"
        if unexplained:
            self.unexplained += 1
            detail = f"{describe_exit(ended.exit_code)}\n{last_error_line(output)}"
            self.record.append(EventLine("unexplained_exit", now_s, number, detail=detail))
        self.observed(ProcessEndLine(number, ending, ended.exit_code, now_s, *peak))
        self.record.sync(now_s, immediately=True)
        if ending != "completed":
            why = f" ({describe_exit(ended.exit_code)})"
        how = "stopped at a checkpoint" if running.at_checkpoint else f"{ending}{why}"
        took = f"{how} after {now_s - live.started_s:.1f} s{describe_peak(peak)}"
        self._print_end(live, took, error)
        if stacks and not culprits:
            self._print_stacks(stacks[0].splitlines())
        for culprit in culprits if ending != "completed" else ():
            self._print_culprit(culprit, has_stacks=bool(stacks))
        if of_file:
            self.console.print_line(of_file)
        self._record_after_tests(live, running, now_s)
        if unexplained and not running.refuses_exit:
            for line in describe_unexplained_exit(number, ended.exit_code, output):
                self.console.print_line(line)

    def _observe_command(
        self, running: ProcessState, ended: ExitInfo, peak: Peak, now_s: float
    ) -> None:
        # A shell's 139 is the death that it hands on, as -11 is.
        by_itself = fatal_signal(ended.exit_code) is None and not running.stopping
        if self.job.is_command and running.open_units and by_itself:
            result = command_result(self.state, running.start.process, ended, now_s, peak)
            message = describe_exit(ended.exit_code) if ended.exit_code else None
            self.observed(replace(result, message=message))

    def _record_after_tests(self, live: ProcessHandle, running: ProcessState, now_s: float) -> None:
        last_s = running.last_activity_s
        if now_s - last_s < AFTER_TESTS_S or not running.reported():
            return
        # Also at the leg's deadline, which comes before the process has refused for long.
        stopped = running.refuses_exit or bool(running.done_s is not None and running.stopping)
        line, text = describe_after_tests(
            live.batch.process, last_s, live.report, now_s, was_stopped=stopped
        )
        self.record.append(line)
        self.console.print_line(text)

    def _with_message(
        self, culprit: Result, live: ProcessHandle, exit_code: int, output: str
    ) -> Result:
        running = self.state.running[live.batch.process]
        unit = self.state.position(culprit.key.unit_key)
        assert unit is not None
        message = describe_culprit(
            culprit,
            self.state.units[unit].timeout_s,
            running,
            exit_code=exit_code,
            output=output,
            quote=not self.job.executor(running.start.suite).reports_starts,
            stacks=live.stacks(),
            interrupted=live.report.interrupted.get(culprit.key.unit_key, ""),
        )
        return replace(culprit, message=message)

    def _framework_exit_code(self, live: ProcessHandle, ended: ExitInfo) -> int:
        """That of the process, or of the framework's session in a script that failed with it; 1
        for one that means failed tests.

        `make` ends with 2 where a command of its ends with 1.
        """
        suite = self.job.suites[self.state.running[live.batch.process].start.suite]
        code = ended.exit_code
        if not code or code in NOT_RUN or fatal_signal(code) is not None:
            return code
        if suite.is_script and live.report.session_status:
            return live.report.session_status
        return FAILED if suite.means_failed_tests(code) else code

    def _classify(
        self, live: ProcessHandle, ended: ExitInfo, output: str, *, had_results: bool
    ) -> Ending:
        """How the process ended, by its exit code, its output and what it was doing."""
        running = self.state.running[live.batch.process]
        executor = self.job.executor(running.start.suite)
        exit_code = self._framework_exit_code(live, ended)
        if self.job.is_command:  # an exit code is an answer; a signal is not
            is_normal = fatal_signal(exit_code) is None
        else:
            is_normal = executor.is_normal_exit(exit_code, had_results=had_results)
        return classify_exit(
            running,
            exit_code,
            clean=not ended.error and is_normal,
            out_of_memory=live.killed_for_memory(self.oom_kills())
            or bool(memory_failure(live.last_output().decode("utf-8", "replace"))),
            collecting=live.report.collecting,
            timed_out=executor.hit_own_timeout(ended.exit_code, output),
        )

    def _copy_files(
        self, live: ProcessHandle, concurrent: Sequence[ProcessFiles], now_s: float
    ) -> bool:
        """Copy the files that a process wrote; whether it may have results there."""
        events, may_have = self.files.collect_after(live.batch, concurrent, now_s)
        for event in events:
            self.record.append(event)
            if event.kind != FILE:
                self.console.print_line(f"process {event.process}: {event.detail}")
        return may_have

    def _record_crashing_file(
        self, number: int, ending: Ending, exit_code: int, now_s: float
    ) -> str:
        """Say in the record of each unit of a file that ends its process why it does not run.

        Returns:
            The same of the file; "" where there is none to blame.
        """
        blamed = self.state.units_of_crashing_file(number, ending)
        if not blamed:
            return ""
        file, why = self.state.file_of(blamed[0]), describe_import_crash(ending, exit_code)
        for key in (self.state.units[unit].key for unit in blamed):
            self.causes[key] = why
            self.record.append(EventLine("not_imported", now_s, number, *key, detail=why))
        left = f"{count_of(len(blamed), 'test')} of it cannot run"
        return f"  {file}: it ends its process before the first test, {left}"

    def _record_missing(
        self, live: ProcessHandle, ending: Ending, exit_code: int, now_s: float, output: str
    ) -> None:
        """Say of each unit that this process leaves without a result why that is so."""
        number = live.batch.process
        running = self.state.running[number]
        unfinished = filter(running.may_be_running, running.unfinished_units())
        left = [self.state.units[unit].key for unit in unfinished]
        if ending == "setup_failed":
            why = describe_setup_failure(exit_code, output)
            self.causes.update(dict.fromkeys(left, why))
            self._advise(self.job.executor(running.start.suite).advice(output))
        if running.was_cut_short(ending):
            return  # they run again
        suite = running.start.suite
        for key in left:
            if self.files.has_result_globs(suite):
                self.record.append(self.files.expect_result(key, number, now_s))
                continue
            announces = self.job.executor(suite).reports_starts
            kind = live.report.missing_kind(key, announces=announces)
            name = self.job.suites[suite].framework
            why = describe_missing(kind, live.report, key, framework=name, exit_code=exit_code)
            self.causes[key] = why
            self.record.append(EventLine(kind, now_s, number, *key, detail=why))

    def _advise(self, advice: str) -> None:
        """Once: the next process has the same."""
        if advice and advice not in self._advised:
            self._advised.add(advice)
            self.console.print_line(f"  fix: {advice}")

    def _print_culprit(self, culprit: Result, *, has_stacks: bool) -> None:
        """Name it at once: a leg that dies later has no closing lines."""
        first, *rest = (culprit.message or "").splitlines()
        self.console.print_reason(unit_name(culprit.key.unit_key), first)
        if has_stacks:
            self._print_stacks(rest)

    def _print_stacks(self, lines: Sequence[str]) -> None:
        for line in lines[:SHOWN]:
            self.console.print_line(f"    {line}")

    def _print_end(self, live: ProcessHandle, duration_text: str, error: str) -> None:
        number = live.batch.process
        if self.job.shard.processes != 1:
            self.console.begin(f"process {number}: output")
        self.console.drain_log(live.log)
        failures = b"" if live.report.finished else live.failures()
        if failures:
            self.console.print_line("what failed in it before it ended:")
            self.console.write_raw(failures)
        self.console.end(f"process {number}: {duration_text}")
        if error:
            self.console.print_line(f"  {error}")
