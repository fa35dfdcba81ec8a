"""Main loop of a leg: pass each event to the rules in `policy`, and execute their decisions.

The supervisor has no rule itself. The record contains every line that the rules observed. Every
decision is stored with the number of lines of each file on which it was based, so that a replay of
the record gives the same decisions.
"""

from __future__ import annotations

import os
import time
import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Callable, Final, Mapping, Sequence

from ciguard.errors import ExitCode, InputError, UsageError
from ciguard.model import (
    SLOTS,
    EndLine,
    EventLine,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    StartLine,
)
from ciguard.model.execution import unplanned_settings
from ciguard.model.machine_use import machine_use
from ciguard.run.claim_client import ClaimClient, Claiming
from ciguard.run.exit_handler import ProcessExitHandler
from ciguard.run.frameworks.base import (
    EXTRA_TRY,
    WORKERS_LIMIT,
    Framework,
    environment,
    origin_variables,
)
from ciguard.run.memory.sampler import MemorySampler
from ciguard.run.output.leg_console import CANCELLED_FLUSH_TIMEOUT_S, MAX_NAMED, Console
from ciguard.run.output.view import (
    describe_action,
    describe_initial_event,
    describe_listing,
    describe_machine,
    describe_memory,
    describe_probe,
    describe_progress,
    describe_reason,
    describe_repeats,
    describe_workers,
    not_run_events,
)
from ciguard.run.platforms.base import NOT_STARTED, ExitInfo, Headroom, Platform
from ciguard.run.platforms.current import CURRENT
from ciguard.run.plugin_files import extract_plugins
from ciguard.run.policy.actions import Assign, Claim, Finish, Reason, Recycle, Start, Stop, Wait
from ciguard.run.policy.leg_verdict import LegVerdict, Tally, judge_leg
from ciguard.run.policy.recycling import fitting_workers, process_limit_bytes
from ciguard.run.policy.repeats import MIN_REPEATS
from ciguard.run.policy.rules import decision_line, next_action
from ciguard.run.policy.state import WORKERS, State
from ciguard.run.process.files import defaults_line, write_process_files, write_units
from ciguard.run.process.handle import ProcessHandle
from ciguard.run.process.received_signals import ReceivedSignals
from ciguard.run.result_collector import ResultCollector
from ciguard.run.resume import NO_PRIOR_LEGS, PriorLegs
from ciguard.text import count_of, duration, name_some, unit_name

if TYPE_CHECKING:
    from ciguard.model import LegPolicy, Line, PlannedUnit, Shard, ShardLine, Suite
    from ciguard.run.policy.actions import Decision
    from ciguard.run.record_writer import RecordWriter

FOLLOW_EVERY_S = 0.04
TRACE_CHARACTERS: Final = 3500  # at the end of a traceback; a message has up to 4 KiB
LATE: Final = ("timeout", "deadline")  # endings for which stacks are requested


@dataclass(frozen=True, **SLOTS)
class LegSpec:
    """The task of one leg, with its folders and its environment.

    Attributes:
        executor: returns the framework of a suite.
        record_dir: absolute path of the record.
        scratch_dir: absolute path of the leg's private folder, which contains `inside`.
        is_command: the process itself is the one unit, and its exit code gives the outcome.
        stdin: descriptor from which the one process of a command reads; None for empty input.
        origin_s: start of the leg on the monotonic clock; for a leg that continues others, earlier
            by their time, so that its times follow theirs.
        step_limit_s: time in which units may begin; None: until the deadline.
        predicted_s: predicted wall time of the leg with all its steps; None if unknown.
        initial_events: events that are written before the first decision.
        listing_lines: returns the lines for a listing, if the first process lists the units.
        others_blocks, claim_client: set for a leg that may run units of other shards.
    """

    header: ShardLine
    shard: Shard
    suites: Mapping[str, Suite]
    policy: LegPolicy
    pool_env: Mapping[str, str]
    executor: Callable[[str], Framework]
    record_dir: str
    scratch_dir: str
    environ: Mapping[str, str]
    origin_s: float
    is_command: bool = False
    stdin: int | None = None
    step_limit_s: float | None = None
    predicted_s: float | None = None
    earlier: PriorLegs = NO_PRIOR_LEGS
    initial_events: tuple[EventLine, ...] = ()
    listing_lines: Callable[[bytes], Sequence[EventLine]] = lambda answer: ()  # noqa: ARG005
    platform: Platform = CURRENT
    others_blocks: Mapping[str, tuple[PlannedUnit, ...]] = field(default_factory=dict)
    claim_client: ClaimClient | None = None


class Supervisor:
    """The supervision of one leg, from the first line of its record to the last."""

    def __init__(
        self, job: LegSpec, record: RecordWriter, guardrail: Headroom, console: Console
    ) -> None:
        self._job = job
        self._record = record
        self._guardrail = guardrail
        self._console = console
        self._state = State(
            job.shard,
            job.suites,
            job.policy,
            step_limit_s=job.step_limit_s,
            file_of=lambda unit: job.executor(unit.suite).file_of(unit.unit),
            others_blocks=job.others_blocks,
        )
        self._claiming = Claiming(job.claim_client, self._state, console, self._record_and_observe)
        guarded = job.policy.guard_rail != "off"
        self._instruments = job.platform.instruments(job.environ)
        self._memory = MemorySampler(guardrail, self._instruments, guarded=guarded)
        self._handles: dict[int, ProcessHandle] = {}
        self._lines_read: dict[str, int] = {}  # by file, when the last process ended
        self._followed_s = 0.0
        self._tally = Tally()
        for result in job.earlier.results():
            self._tally.add(result)
        for result in job.earlier.results(ended=False):
            self._tally.hold(result)
        self._sample: SampleLine | None = None
        self._samples: list[SampleLine] = []
        self._signals = ReceivedSignals(job.platform)
        self._streams = job.shard.processes == 1
        self._state_changed = True  # a line was observed since the last decision
        self._until_s: float | None = None  # moment of the next decision without a new line
        self._reported_limitations: set[str] = set()
        self._ended = False  # the record has its end; only extra tries follow
        self._files = ResultCollector(job.suites, job.record_dir, job.earlier)
        self._exit_handler = ProcessExitHandler(
            job,
            self._state,
            record,
            console,
            self._files,
            observed=self._record_and_observe,
            memory=self._memory,
            oom_kills=guardrail.oom_kills,
        )

    def run(self) -> LegVerdict:
        """Supervise until the rules finish the leg, and end every process.

        Raises:
            InputError: the first line of the record could not be written.
            UsageError: the command that is the one unit cannot be executed.
        """
        self._record_and_observe(self._job.header)
        if self._record.dropped:
            what = f"cannot be written: {self._record.problem}"
            raise InputError(what, where=self._job.record_dir, fix="free some space for the record")
        self._job.platform.adopt_orphans()
        for line in self._job.initial_events:
            self._record_and_observe(line)
            if words := describe_initial_event(line):
                self._console.print_line(words)
        self._report_limitations(0.0, *self._job.platform.LIMITATIONS)
        self._claiming.begin()
        # A second signal must not kill the leg before its last line is written.
        with self._signals.listening():
            try:
                verdict = self._end(self._run_to_finish())
                self._probe()
                self._repeat()
                return verdict
            except UsageError:  # the command is no program, so that nothing has run
                raise
            except Exception as error:  # noqa: BLE001  # after any bug the record gets its end
                return self._end_after_bug(error)
            finally:
                self._instruments.close()

    def _run_to_finish(self) -> Finish:
        """Run rounds until the rules finish the leg or a bug ends it, then end every process."""
        try:
            finish = self._step()
            while finish is None:
                finish = self._step(hurry=self._sleep())
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001
            finish = self._internal_error(error)
        finally:
            for live in self._handles.values():
                live.close()
                self._console.drain_log(live.log)
            self._handles.clear()
        return finish

    def _probe(self) -> None:
        """Try new failures again; the leg's ending does not change any more."""
        names = [unit_name(self._state.units[each.unit].key) for each in self._state.extra.probed]
        if names:
            text = f"trying {count_of(len(names), 'new failure')} again: {name_some(names, str)}"
            self._record.append(EventLine("probing", self._now_s(), detail=text))
            self._console.print_line(text)
            self._run_to_finish()
        for name, failure in zip(names, self._state.extra.probed):
            answer = describe_probe(failure, self._state.units)
            self._console.print_reason(f"tried again {name}", answer)

    def _repeat(self) -> None:
        """Repeat new and changed tests that passed; the leg's ending does not change any more."""
        units = {unit: self._state.units[unit] for unit in self._state.extra.repeatable}
        if not units or not self._ended:  # the next step continues the leg
            return
        now_s, until_s = self._now_s(), self._state.policy.repeat_until_s or 0.0
        tests = count_of(len(units), "new or changed test")
        text = f"repeating {tests} until {duration(until_s)}"
        facts = {"limit_s": until_s, "units": len(units)}
        self._record_and_observe(EventLine("repeating", now_s, detail=text, facts=facts))
        for unit in units.values():
            event = EventLine("new_test", now_s, None, *unit.key, reason=unit.change)
            self._record.append(event)
        if self._state.extra.repeated:
            with self._console.group_of_many(text):
                self._run_to_finish()
        enough = sum(each.ended >= MIN_REPEATS for each in self._state.extra.repeated)
        count = f"repeated {enough} of {tests} at least {MIN_REPEATS} times"
        self._console.print_line(f"{count}, until {duration(until_s)}")
        repeated = [each for each in self._state.extra.repeated if each.ended]
        for each in sorted(repeated, key=lambda each: -each.failed)[:MAX_NAMED]:
            name = unit_name(units[each.unit].key)
            self._console.print_reason(f"repeated {name}", describe_repeats(each))

    def _end_after_bug(self, error: Exception) -> LegVerdict:
        """Write the end of the record after a bug in `_end`; return a verdict without results."""
        finish = self._internal_error(error)
        if not self._ended:
            now_s = self._now_s()
            self._record.append(EndLine(finish.ending, now_s, int(ExitCode.INCOMPLETE)))
            self._record.sync(now_s, immediately=True)
        return LegVerdict(ExitCode.INCOMPLETE, finish.ending, {}, (), ())

    def _internal_error(self, error: Exception) -> Finish:
        """Report a bug of ciguard and the processes that the bug ends."""
        now_s, trace = self._now_s(), traceback.format_exc()
        what = f"{type(error).__name__}: {error}"
        detail = trace[-TRACE_CHARACTERS:]
        self._record.append(EventLine("internal_error", now_s, detail=detail))
        for number in self._handles:  # `_run_to_finish` closes them
            detail = "ended with the job"
            self._record.append(EventLine("last_output", now_s, number, detail=detail))
            self._record.append(ProcessEndLine(number, "unknown", None, now_s))
        for running in self._state.running.values():
            keys = (self._state.units[unit].key for unit in running.open_units)
            self._exit_handler.causes.update(dict.fromkeys(keys, "ciguard failed while it ran"))
        self._console.print_line(f"ciguard itself failed, please report it: {what}")
        for line in trace.rstrip().splitlines():
            self._console.print_line(line)
        return Finish("unknown", Reason("internal_error"))

    def _now_s(self) -> float:
        # Rounded as in the record, so that a replay decides at the same moment.
        return round(time.monotonic() - self._job.origin_s, 6)

    def _sleep(self) -> bool:
        """Wait for the next round; return whether a signal or the end of a process ended it."""
        processes = [live.process for live in self._handles.values()]
        return self._job.platform.wait(self._signals.wakeup, processes, self._memory.every_s)

    def _step(self, *, hurry: bool = True) -> Finish | None:
        """Run one round; only hurried rounds, and every other one, read files (expensive)."""
        now_s = self._now_s()
        self._handle_signals()
        if hurry or now_s - self._followed_s >= FOLLOW_EVERY_S:
            self._followed_s = now_s
            for number, live in tuple(self._handles.items()):
                live.process.poll()
                if not live.is_started and live.process.pid is not None:
                    self._process_started(live)
                if live.is_started:  # a start that is assumed precedes the lines
                    self._follow(live)
                if live.process.ended is not None:
                    self._process_ended(number, live, live.process.ended)
            # A test may have removed files of the record, for example by `git clean -fdx`.
            handles = self._handles.values()
            if self._record.is_removed() or any(live.is_removed() for live in handles):
                removed = Reason("record_removed")
                self._console.print_line(f"unknown: {describe_reason(removed)}")
                return Finish("unknown", removed)
        self._sample_memory(now_s)
        self._claiming.poll(now_s)
        finish = self._decide()
        if self._console.due(now_s) and finish is None and not self._ended:
            self._console.show_progress(self._progress_line(now_s), now_s)
        for live in self._handles.values():
            live.process.escalate(now_s)
        self._record.sync(now_s)
        return finish

    def _progress_line(self, now_s: float) -> str:
        """Return the progress in counts of units, earlier legs included, and the running units."""
        reported = self._tally.results_by_unit.keys()
        running = {unit for state in self._state.running.values() for unit in state.open_units}
        return describe_progress(
            len(reported),
            len(reported | {unit.key for unit in self._state.own_units}),
            bad=self._tally.count_bad(),
            times_s=(now_s, self._job.predicted_s),
            sample=self._sample,
            running=[unit_name(self._state.units[unit].key) for unit in sorted(running)],
        )

    def _record_and_observe(self, line: Line) -> None:
        """Write a line of the leg to the record, and pass it to the rules."""
        self._record.append(line)
        self._observe(line)

    def _observe(self, line: Line) -> None:
        self._state.observe(line)
        self._state_changed = True
        if isinstance(line, Result):
            self._tally.add(line)
        elif isinstance(line, StartLine):
            self._tally.start(line)

    def _handle_signals(self) -> None:
        for number in self._signals.drain():
            self._console.flush_timeout_s = CANCELLED_FLUSH_TIMEOUT_S
            self._console.print_line(f"{number.name}: stopping{' at once' * self._signals.hurry}")
            self._record_and_observe(EventLine("signal", self._now_s(), detail=number.name))
            for live in self._handles.values() if self._signals.hurry else ():
                live.process.stop(self._now_s(), immediately=True)

    def _follow(self, live: ProcessHandle, *, last: bool = False) -> None:
        for line in live.lines(self._now_s(), last=last):
            self._observe(line)
            if isinstance(line, StartLine) and line.at_s is None:
                # A timeout needs a time, which is recorded for a replay.
                self._record_and_observe(replace(line, at_s=self._now_s(), received=True))
            elif isinstance(line, EventLine) and line.kind == WORKERS:
                needs = map(self._state.need_bytes, range(len(self._state.units)))
                limit, largest = process_limit_bytes(self._state), max(needs, default=0)
                words = describe_workers(line, limit, largest)
                self._console.print_line(f"process {line.process}: {words}")
            elif isinstance(line, Result) and line.at_s is None and line.wall_s is None:
                self._record.append(
                    EventLine(
                        "received",
                        self._now_s(),
                        line.process,
                        *line.unit_key,
                        detail=line.key.case,
                    )
                )
        for peak in live.peaks():
            self._record.append(peak)
        content = live.listing() if self._state.awaits_listing else None
        if content is not None:
            lines = self._job.listing_lines(content)
            process = live.batch.process
            for line in lines:
                self._record_and_observe(replace(line, at_s=self._now_s(), process=process))
            self._console.print_line(describe_listing(lines[-1].facts))
        if self._streams:
            self._console.follow(live.log)

    def _sample_memory(self, now_s: float) -> None:
        trees = {number: live.tree for number, live in self._handles.items()}
        sample = self._memory.sample(now_s, trees, awaited=now_s < self._state.memory_back_s)
        if sample is not None:
            self._sample = sample
            self._observe(sample)
            self._report_limitations(now_s, self._instruments.limitation)
        self._write_samples(self._memory.due(now_s))

    def _write_samples(self, samples: Sequence[SampleLine]) -> None:
        for sample in samples:
            self._record.append(sample)
        if self._job.is_command:  # the summary of a command uses them
            self._samples += samples

    def _process_started(self, live: ProcessHandle) -> None:
        """Process a start; if the program reports no starts, a single unit begins now."""
        live.is_started, now_s = True, self._now_s()
        start = self._state.running[live.batch.process].start
        if len(start.units) == 1 and not self._job.executor(start.suite).reports_starts:
            suite, variant, unit = self._state.units[start.units[0]].key
            assumed = None if self._job.is_command else True
            self._record_and_observe(StartLine(unit, suite, variant, start.process, now_s, assumed))
        self._report_limitations(now_s, live.process.limitation)

    def _process_ended(self, number: int, live: ProcessHandle, ended: ExitInfo) -> None:
        """Process the end of a process, with its last lines.

        Raises:
            UsageError: the one command of the leg is no program.
        """
        if self._job.is_command and not live.is_started and not ended.is_reaper_lost:
            fix = "begin a script with #!, or name the program that reads it first"
            raise UsageError(ended.error, where="COMMAND", fix=fix)
        self._write_samples(self._memory.flush())
        self._follow(live, last=True)
        concurrent = [handle.batch for handle in self._handles.values() if handle is not live]
        self._exit_handler.handle(live, ended, concurrent, self._now_s())
        # Among ended processes, decisions need only the last one's counts: its end implies all.
        self._lines_read = live.lines_read()
        live.close()
        del self._handles[number]

    def _decide(self) -> Finish | None:
        """Execute decisions of the rules until they wait or finish the leg."""
        while self._state_changed or (self._until_s is not None and self._now_s() >= self._until_s):
            now_s = self._now_s()
            action = next_action(self._state, now_s)
            if isinstance(action, Wait):
                self._state_changed, self._until_s = False, action.until_s
                return None
            if isinstance(action, Finish):
                # A checkpoint was printed as a warning, and a summary has the command's result.
                is_known = self._job.is_command and action.ending == "completed"
                if not (action.checkpoint or self._ended or is_known):
                    missing = self._state.without_result or self._state.import_crashed
                    is_incomplete = action.ending == "completed" and missing
                    word = "incomplete" if is_incomplete else action.ending
                    self._console.print_line(f"{word}: {describe_reason(action.reason)}")
                return action
            self._execute(action, now_s)
        return None

    def _execute(self, action: Decision, now_s: float) -> None:
        self._write_samples(self._memory.flush())
        seen = dict(self._lines_read)
        for live in self._handles.values():
            seen.update(live.lines_read())
        line = decision_line(action, now_s, seen, self._state.units)
        self._state.apply(action)
        if isinstance(action, Start):
            assert isinstance(line, ProcessLine)
            self._start(action, line, now_s)
            return
        assert isinstance(line, EventLine)
        if isinstance(action, Assign):
            self._assign(action.start, line)
            return
        self._record.append(replace(line, detail=describe_reason(action.reason)))
        self._console.print_line(describe_action(action, self._state.units))
        if isinstance(action, Claim):
            self._claiming.ask(action)
        elif isinstance(action, Recycle):
            self._handles[action.process].request_stop()
        elif isinstance(action, Stop):
            live = self._handles[action.process]
            if action.ending in LATE and not action.checkpoint:
                live.process.request_stacks(live.batch.stacks_file)
            # A unit may catch the interruption, and no further unit must follow.
            live.request_stop()
            # An extra try that the deadline ends has no result to wait for.
            at_once = self._signals.hurry or action.ending == "memory_guard"
            at_once |= self._ended and action.ending == "deadline"
            live.process.stop(now_s, immediately=at_once)

    def _assign(self, start: Start, line: EventLine) -> None:
        """Give units to the waiting process; an empty list ends the process."""
        self._record.append(line)
        live = self._handles[start.process]
        tests = count_of(len(start.units), "test")
        self._console.print_line(
            f"process {start.process}: {tests}, {describe_reason(start.reason)}"
        )
        try:
            write_units(live.batch, [self._state.units[unit] for unit in start.units])
        except OSError as error:
            self._console.print_line(f"process {start.process} cannot be given them: {error}")
            live.process.stop(self._now_s(), immediately=True)

    def _start(self, action: Start, line: ProcessLine, now_s: float) -> None:
        tests = f"{count_of(len(action.units), 'test')}, " if action.units else ""
        what = f"{tests}{describe_reason(action.reason)}"
        title = f"process {action.process}: {'the command' if self._job.is_command else what}"
        if self._streams:
            self._console.begin(title)
        else:
            self._console.print_line(title)
        try:
            live = self._spawn(action, now_s)
        except OSError as error:
            self._record.append(line)
            detail = f"could not be started: {error}"
            self._console.end(f"process {action.process} {detail}")
            keys = (self._state.units[unit].key for unit in action.units)
            self._exit_handler.causes.update(dict.fromkeys(keys, f"its process {detail}"))
            self._record.append(EventLine("last_output", now_s, action.process, detail=detail))
            self._record_and_observe(
                ProcessEndLine(action.process, "setup_failed", NOT_STARTED, now_s)
            )
            return
        self._handles[action.process] = live
        self._record.append(replace(line, pid=live.process.root))

    def _report_limitations(self, now_s: float, *limitations: str) -> None:
        """Record and print once each fact that cannot be measured or guarded on this machine."""
        for limitation in limitations:
            if limitation and limitation not in self._reported_limitations:
                self._reported_limitations.add(limitation)
                self._record.append(EventLine("unavailable", now_s, detail=limitation))
                self._console.print_line(f"not available in this job: {limitation}")

    def _spawn(self, action: Start, now_s: float) -> ProcessHandle:
        """Write the files of a process and start it.

        Raises:
            OSError: a file cannot be written, or the process cannot be started.
        """
        job, suite = self._job, self._job.suites[action.suite]
        units = [self._state.units[unit] for unit in action.units]
        counts = self._state.tries
        tries = {
            self._state.units[unit].unit: counts[unit] for unit in action.units if unit in counts
        }
        extract_plugins(os.path.join(job.scratch_dir, "inside"))  # if a test has removed them
        batch = write_process_files(
            units if units or not self._state.awaits_listing else None,
            suite_key=(action.suite, action.variant),
            process=action.process,
            header=job.header,
            record=job.record_dir,
            private=job.scratch_dir,
            tries_before=tries,
            origin_s=job.origin_s,
        )
        self._files.snapshot(action.suite)
        invocation = job.executor(action.suite).execution(suite, action.variant, batch)
        env = environment(job.environ, suite, action.variant, invocation, job.pool_env)
        env.update(origin_variables(job.origin_s))
        if self._ended:
            # Coverage data of an extra try would replace the data of all tests.
            env.update({EXTRA_TRY: "1", "COVERAGE_FILE": os.path.join(job.scratch_dir, "extra")})
        if job.executor(action.suite).has_workers and suite.workers == "auto":
            chosen = action.units or range(len(self._state.units))  # before a listing: all planned
            env[WORKERS_LIMIT] = str(fitting_workers(self._state, chosen) or "")
        return ProcessHandle(
            invocation.argv,
            env,
            os.path.abspath(suite.cwd),
            batch,
            defaults_line(job.header, action.suite, action.variant, action.process),
            platform_parts=(job.platform, self._instruments, self._guardrail),
            started_s=now_s,
            stdin=job.stdin,
        )

    def _end(self, finish: Finish) -> LegVerdict:
        """Judge the leg, write the last lines of its record and print its summary."""
        planned = self._state.own_units
        verdict = judge_leg(
            self._tally,
            planned,
            finish.ending,
            dropped=self._record.dropped,
            unexplained=self._exit_handler.unexplained,
            in_files=self._files.units,
            failed_files=self._files.failed,
            checkpoint=finish.checkpoint,
            signalled=self._signals.exit_code,
            settings=unplanned_settings(self._exit_handler.settings, self._job.suites),
        )
        now_s = self._now_s()
        if verdict.checkpoint:
            # No end line is written, because the leg continues in the next step.
            self._record.append(EventLine("paused", now_s, detail=describe_reason(finish.reason)))
        else:
            if verdict.ending != "completed":
                not_run = [key for key in verdict.missing if key not in self._exit_handler.causes]
                reason = f"{verdict.ending}: {describe_reason(finish.reason)}"
                for event in not_run_events(not_run, len(planned), reason, now_s):
                    self._record.append(event)
            ending = "disk_full" if self._record.dropped else verdict.ending
            self._ended = True
            self._record_and_observe(EndLine(ending, now_s, int(verdict.exit_code), verdict.counts))
        self._record.sync(now_s, immediately=True)
        if self._record.dropped:
            lost = f"{count_of(self._record.dropped, 'line')} of the record could not be written"
            self._console.print_line(f"{lost}: {self._record.problem}")
        name = f"shard {self._job.shard.key}" if self._job.shard.key else "command"
        wall_s = now_s - self._state.began_s
        is_command, peak_bytes = self._job.is_command, self._memory.tree_peak_bytes
        collects = is_command and self._job.suites[""].results
        total_s = now_s if self._job.earlier.legs else None
        self._console.print_summary(
            name,
            verdict,
            (wall_s, total_s),
            self._exit_handler.causes,
            self._job.suites,
            copied_files=self._files.copied if collects else None,
            memory="" if is_command else describe_memory(peak_bytes, self._memory.gpu_peak_bytes),
        )
        if is_command:
            result = next((one for (one, *_) in self._tally.results_by_unit.values()), None)
            use, cpus = machine_use(self._samples), self._job.header.runner.cpus
            for line in describe_machine(use, peak_bytes, result, cpus):
                self._console.print_line(line)
        return verdict
