"""The loop of a leg: tells `policy` what happened, and does what it says. No rule of its own.

Every line that the rules saw is in the record, and every decision says how many lines of each
process's file it had seen, so that the record replays to the same decisions.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Final, Mapping, Optional, Tuple

from ciguard.errors import InputError
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
from ciguard.run.batches import defaults_line, write_batch
from ciguard.run.causes import cause, not_run
from ciguard.run.ended import NOTHING, Earlier
from ciguard.run.endings import died, exit_words, last_output, of_the_whole, unexplained_words
from ciguard.run.frameworks.base import environment, origin_variables
from ciguard.run.live import Live, begin
from ciguard.run.memory import MemoryWatch
from ciguard.run.peaks import in_words
from ciguard.run.platforms.base import NOT_STARTED
from ciguard.run.platforms.table import HERE
from ciguard.run.policy import decision_line, ending_of, is_unexplained, next_action
from ciguard.run.progress import Progress
from ciguard.run.resultfiles import FILE, ResultFiles
from ciguard.run.signals import Signals
from ciguard.run.state import Finish, Recycle, Start, State, Stop, Wait, Warn
from ciguard.run.verdict import Tally, Verdict, verdict
from ciguard.run.wording import counted, key_name, last_line, last_words

if TYPE_CHECKING:
    from typing import Dict, Set, Union

    from ciguard.model import Ending, LegPolicy, Line, Shard, ShardLine, Suite, UnitKey
    from ciguard.run.console import Console
    from ciguard.run.frameworks.base import Executor
    from ciguard.run.peaks import Peak
    from ciguard.run.platforms.base import Ended, Headroom, Platform
    from ciguard.run.record import RecordFile

FOLLOW_EVERY_S = 0.04
LATE: Final = ("timeout", "deadline")  # endings of what ran for too long: where does it stand?


@dataclass(frozen=True, **SLOTS)
class Job:
    """All that a leg works on.

    Attributes:
        folder, private: the record's, and one of the leg's own with `inside` in it; absolute.
        environ: the leg's own environment.
        whole: the process itself is the one unit, and its exit code the outcome.
        origin_s: the leg's start on the clock that cannot be set back; of one that goes on from
            others, so long before that its times follow theirs.
        for_s: how long units may be begun; None: until the deadline.
        predicted_s: wall time of the leg in all its parts; None: nobody knows.
        opening: what is to be said before anything is decided.
    """

    header: ShardLine
    shard: Shard
    suites: Mapping[str, Suite]
    policy: LegPolicy
    pool_env: Mapping[str, str]
    executor: Callable[[str], Executor]  # of a suite
    folder: str
    private: str
    environ: Mapping[str, str]
    origin_s: float
    whole: bool = False
    for_s: Optional[float] = None
    predicted_s: Optional[float] = None
    earlier: Earlier = NOTHING
    opening: Tuple[EventLine, ...] = ()
    platform: Platform = HERE


class Supervisor:
    """One leg, from its first line to its last."""

    def __init__(self, job: Job, record: RecordFile, guardrail: Headroom, console: Console) -> None:
        self._job = job
        self._record = record
        self._guardrail = guardrail
        self._console = console
        self._state = State(job.shard, job.suites, job.policy, for_s=job.for_s)
        guarded = job.policy.guard_rail != "off"
        self._instruments = job.platform.instruments(job.environ)
        self._memory = MemoryWatch(guardrail, self._instruments, guarded=guarded)
        self._live: Dict[int, Live] = {}
        self._seen: Dict[str, int] = {}  # by file, of processes that have ended
        self._followed_s = 0.0
        self._tally = Tally()
        for result in job.earlier.results():
            self._tally.add(result)
        self._total = len(self._tally.by_unit) + len(job.shard.units)
        self._sample: Optional[SampleLine] = None
        self._signals = Signals(job.platform)
        self._streams = job.shard.processes == 1
        self._unasked = True  # something was observed since the rules were asked
        self._until_s: Optional[float] = None
        self._lacks: Set[str] = set()
        self._causes: Dict[UnitKey, str] = {}  # why units have no result
        self._files = ResultFiles(job.suites, job.folder, job.earlier)
        # Processes whose exit code no result explains.
        self._unexplained = sum(
            isinstance(line, EventLine) and line.kind == "unexplained_exit"
            for line in job.earlier.lines
        )

    def run(self) -> Verdict:
        """Supervise until the rules say that the leg is over; every process is gone then.

        Raises:
            InputError: not even the first line of the record could be written.
        """
        self._observed(self._job.header)
        if self._record.dropped:
            what = f"cannot be written: {self._record.problem}"
            raise InputError(what, where=self._job.folder, fix="free some space for the record")
        self._job.platform.adopt_orphans()
        for line in self._job.opening:
            self._observed(line)
            if line.kind != "unplanned":
                self._console.say(f"{line.kind}: {line.detail}")
        self._say_lacks(0.0, *self._job.platform.LACKS)
        try:
            with self._signals.listening():
                finish = self._step()
                while finish is None:
                    finish = self._step(hurry=self._sleep())
        finally:
            for live in self._live.values():
                live.close()
            self._instruments.close()
        return self._end(finish)

    def _now_s(self) -> float:
        # As the record has it: a decision replayed at the time written is the same decision.
        return round(time.monotonic() - self._job.origin_s, 6)

    def _sleep(self) -> bool:
        """Until the next tick, or until somebody calls: then True."""
        processes = [live.process for live in self._live.values()]
        return self._job.platform.wait(self._signals.wakeup, processes, self._memory.every_s)

    def _step(self, *, hurry: bool = True) -> Finish | None:
        """One round; the files, which cost the most, are read in every other one or in a hurry."""
        now_s = self._now_s()
        self._take_signals()
        if hurry or now_s - self._followed_s >= FOLLOW_EVERY_S:
            self._followed_s = now_s
            for number, live in tuple(self._live.items()):
                self._follow(live)
                live.process.poll()
                if live.process.ended is not None:
                    self._bury(number, live, live.process.ended)
        self._look_at_memory(now_s)
        finish = self._decide()
        if self._console.due(now_s) and finish is None:
            self._console.tell(self._progress(now_s), now_s)
        for live in self._live.values():
            live.process.press(now_s)
        self._record.sync(now_s)
        return finish

    def _progress(self, now_s: float) -> Progress:
        done, sample = len(self._tally.by_unit), self._sample
        units = self._job.shard.units
        open_units = sorted({one for each in self._state.running.values() for one in each.open})
        return Progress(
            done=done,
            total=max(done, self._total),
            bad=len(self._tally.bad),
            elapsed_s=now_s,
            predicted_s=self._job.predicted_s,
            tree_bytes=sample.tree_bytes if sample else None,
            headroom_bytes=sample.headroom_bytes if sample else None,
            at=tuple(key_name(units[unit].key) for unit in open_units),
        )

    # --- What happened ---------------------------------------------------------------------------

    def _observed(self, line: Line) -> None:
        """A line of the leg's own that the rules look at."""
        self._record.append(line)
        self._take_in(line)

    def _take_in(self, line: Line) -> None:
        self._state.observe(line)
        self._unasked = True
        if isinstance(line, Result):
            self._tally.add(line)

    def _take_signals(self) -> None:
        for number in self._signals.take():
            self._console.say(f"{number.name}: stopping{' at once' * self._signals.hurry}")
            self._observed(EventLine(kind="signal", at_s=self._now_s(), detail=number.name))
            for live in self._live.values() if self._signals.hurry else ():
                live.process.stop(self._now_s(), at_once=True)

    def _follow(self, live: Live, *, last: bool = False) -> None:
        for line in live.lines(self._now_s(), last=last):
            self._take_in(line)
            if isinstance(line, StartLine) and line.at_s is None:
                # Without a time there is no limit; in the leg's own record, so that it replays.
                self._observed(replace(line, at_s=self._now_s()))
            elif isinstance(line, Result) and line.at_s is None and line.wall_s is None:
                self._record.append(_heard(line, self._now_s()))
        for peak in live.peaks():
            self._record.append(peak)
        if self._streams:
            self._console.follow(live.log, whole=False)

    def _look_at_memory(self, now_s: float) -> None:
        trees = {number: live.tree for number, live in self._live.items()}
        sample = self._memory.look(now_s, trees, awaited=now_s < self._state.memory_back_s)
        if sample is not None:
            self._sample = sample
            self._take_in(sample)
        for written in self._memory.due(now_s):
            self._record.append(written)

    def _write_samples(self) -> None:
        for sample in self._memory.flush():
            self._record.append(sample)

    def _bury(self, number: int, live: Live, ended: Ended) -> None:
        """Take in the end of a process: its last lines, its victims, its ending."""
        self._write_samples()
        self._follow(live, last=True)
        now_s = self._now_s()
        running = self._state.running[number]
        peak = live.peak(ended, self._memory.peak_bytes.get(number))
        if self._job.whole and running.open and ended.exit_code >= 0 and not running.stopping:
            self._observed(of_the_whole(self._state, number, ended, now_s, peak))
        executor = self._job.executor(running.start.suite)
        # What was not found was looked for: a framework that is not there finds nothing missing.
        had_results = bool(running.closed or running.reported or live.said.vanished)
        had_results |= self._copy_files(live, now_s)
        ending = ending_of(
            running,
            ended.exit_code,
            clean=not ended.error and executor.is_clean(ended.exit_code, had_results=had_results),
            out_of_memory=live.killed_for_memory(self._guardrail.oom_kills()),
        )
        output = ended.error or last_output(live.last_output())
        stacks = live.stacks()
        if stacks:
            self._record.append(EventLine("stacks", now_s, number, detail=stacks))
        victims = died(
            self._state,
            number,
            ending,
            exit_code=ended.exit_code,
            now_s=live.process.stopped_s or now_s,
            output=output,
            quote=not executor.ANNOUNCES,
            stacks=stacks,
            interrupted=live.said.interrupted,
        )
        detail = f"{exit_words(ended.exit_code)}\n{output}"
        if ending != "completed":
            for victim in victims:
                self._observed(victim)
            if not victims:
                self._record.append(EventLine("last_output", now_s, number, detail=detail))
        self._name_causes(live, ending, ended.exit_code, now_s, output)
        errors = bool(live.said.errors)
        unexplained = is_unexplained(running, ending, ended.exit_code, errors=errors)
        if self._files.writes(running.start.suite) and ending == "completed" and not running.bad:
            unexplained = False
            if ended.exit_code and not running.recycled:
                self._record.append(self._files.explains(number, ended.exit_code, now_s))
        if unexplained:
            self._unexplained += 1
            detail = f"{exit_words(ended.exit_code)}\n{last_words(output)}"
            self._record.append(EventLine("unexplained_exit", now_s, number, detail=detail))
        self._observed(ProcessEndLine(number, ending, ended.exit_code, now_s, *peak))
        self._record.sync(now_s, at_once=True)
        self._say_end(live, ending, ended, output, peak)
        if unexplained:
            self._console.say(unexplained_words(number, ended.exit_code, output))
        self._seen.update(live.seen())
        live.close()
        del self._live[number]

    def _copy_files(self, live: Live, now_s: float) -> bool:
        """Copy the files that a process wrote; whether it may have results there."""
        others = [one.batch for one in self._live.values() if one is not live]
        events, may_have = self._files.behind(live.batch, others, now_s)
        for event in events:
            self._record.append(event)
            if event.kind != FILE:
                self._console.say(f"process {event.process}: {event.detail}")
        return may_have

    def _name_causes(
        self, live: Live, ending: Ending, exit_code: int, now_s: float, output: str
    ) -> None:
        """Say of each unit that this process leaves without a result why that is so."""
        number = live.batch.process
        running = self._state.running[number]
        unfinished = (unit for unit in running.unfinished() if unit not in running.reported)
        left = [self._job.shard.units[unit].key for unit in unfinished]
        if ending == "setup_failed":
            how = f"{exit_words(exit_code)}): {last_line(output) or 'it printed nothing'}"
            what = f"its process ended before its first result ({how}"
            self._causes.update(dict.fromkeys(left, what))
        if ending != "completed" or running.recycled:
            return  # they get another turn
        suite = running.start.suite
        for key in left:
            if self._files.writes(suite):
                self._record.append(self._files.has(key, number, now_s))
                continue
            event = cause(
                live.said,
                key,
                framework=self._job.suites[suite].framework,
                announces=self._job.executor(suite).ANNOUNCES,
                exit_code=exit_code,
            )
            self._causes[key] = event.detail
            self._record.append(replace(event, at_s=now_s, process=number))

    def _say_end(self, live: Live, ending: str, ended: Ended, output: str, peak: Peak) -> None:
        number = live.batch.process
        if not self._streams:
            self._console.begin(f"process {number}: output")
        self._console.follow(live.log)
        how = ending if ending == "completed" else f"{ending} ({exit_words(ended.exit_code)})"
        wall_s = self._now_s() - live.started_s
        self._console.end(f"process {number}: {how} after {wall_s:.1f} s{in_words(peak)}")
        if ended.error:
            self._console.say(f"  {output}")

    # --- What to do ------------------------------------------------------------------------------

    def _decide(self) -> Finish | None:
        """Ask and carry out, until there is nothing to do but wait."""
        while self._unasked or (self._until_s is not None and self._now_s() >= self._until_s):
            now_s = self._now_s()
            action = next_action(self._state, now_s)
            if isinstance(action, Wait):
                self._unasked, self._until_s = False, action.until_s
                return None
            if isinstance(action, Finish):
                if not action.checkpoint:  # which was said when it was due
                    lacks = action.ending == "completed" and self._state.unanswered
                    word = "incomplete" if lacks else action.ending
                    self._console.say(f"{word}: {action.reason}")
                return action
            self._carry_out(action, now_s)
        return None

    def _carry_out(self, action: Union[Start, Stop, Recycle, Warn], now_s: float) -> None:
        self._write_samples()
        seen = dict(self._seen)
        for live in self._live.values():
            seen.update(live.seen())
        line = decision_line(action, now_s, seen, self._job.shard.units)
        assert line is not None
        if isinstance(action, Start):
            assert isinstance(line, ProcessLine)
            self._state.apply(action)
            self._start(action, line, now_s)
            return
        self._record.append(line)
        self._state.apply(action)
        self._console.say(_in_words(action))
        if isinstance(action, Recycle):
            self._live[action.process].stop_soon()
        elif isinstance(action, Stop):
            if action.ending in LATE:
                self._live[action.process].ask_for_stacks()
            # Also behind this unit: one that swallows the interruption is not to be followed.
            self._live[action.process].stop_soon()
            at_once = self._signals.hurry or action.ending == "memory_guard"
            self._live[action.process].process.stop(now_s, at_once=at_once)

    def _start(self, action: Start, line: ProcessLine, now_s: float) -> None:
        title = f"process {action.process}: {counted(len(action.units), 'unit')}, {action.reason}"
        if self._streams:
            self._console.begin(title)
        else:
            self._console.say(title)
        try:
            live = self._spawn(action, now_s)
        except OSError as error:
            self._record.append(line)
            self._console.end(f"process {action.process} could not be started: {error}")
            detail = f"could not be started: {error}"
            self._record.append(EventLine("last_output", now_s, action.process, detail=detail))
            self._observed(ProcessEndLine(action.process, "setup_failed", NOT_STARTED, now_s))
            return
        self._live[action.process] = live
        self._record.append(replace(line, pid=live.process.pid))
        if live.process.pid is None:
            return
        if len(action.units) == 1 and not self._job.executor(action.suite).ANNOUNCES:
            suite, variant, unit = self._job.shard.units[action.units[0]].key
            assumed = None if self._job.whole else True
            self._observed(StartLine(unit, suite, variant, action.process, now_s, assumed))
        self._say_lacks(now_s, live.process.lack)
        self._say_lacks(now_s, self._instruments.lacks, aloud=False)

    def _say_lacks(self, now_s: float, *lacks: str, aloud: bool = True) -> None:
        """Say once what cannot be measured or guarded here; a number less is for the record."""
        for lack in lacks:
            if lack and lack not in self._lacks:
                self._lacks.add(lack)
                self._record.append(EventLine("lacks", now_s, detail=lack))
                if aloud:
                    self._console.say(f"this leg lacks {lack}")

    def _spawn(self, action: Start, now_s: float) -> Live:
        """Write the batch and start its process. Raises OSError where either cannot be."""
        job, suite = self._job, self._job.suites[action.suite]
        units = [job.shard.units[unit] for unit in action.units]
        tries = {
            job.shard.units[unit].unit: count
            for unit, count in self._state.tries.items()
            if unit in action.units
        }
        batch = write_batch(
            units,
            process=action.process,
            header=job.header,
            record=job.folder,
            private=job.private,
            tries_before=tries,
            origin_s=job.origin_s,
        )
        self._files.before(action.suite)
        invocation = job.executor(action.suite).execution(suite, action.variant, batch)
        env = environment(job.environ, suite, action.variant, invocation, job.pool_env)
        env.update(origin_variables(job.origin_s))
        cwd, here = os.path.abspath(suite.cwd), (job.platform, self._instruments, self._guardrail)
        defaults = defaults_line(job.header, action.suite, action.variant, action.process)
        return begin(invocation.argv, env, cwd, batch, defaults, here=here, now_s=now_s)

    def _end(self, finish: Finish) -> Verdict:
        found = verdict(
            self._tally,
            self._job.shard.units,
            finish.ending,
            dropped=self._record.dropped,
            unexplained=self._unexplained,
            filed=self._files.units,
            failed_files=self._files.failed,
            checkpoint=finish.checkpoint,
            signalled=self._signals.exit_code,
        )
        now_s = self._now_s()
        if found.checkpoint:
            # No end line: whoever reads the record must not take the leg for one that has ended.
            self._record.append(EventLine("paused", now_s, detail=finish.reason))
        else:
            if found.ending != "completed":
                left = [key for key in found.missing if key not in self._causes]
                reason = f"{found.ending}: {finish.reason}"
                for event in not_run(left, len(self._job.shard.units), reason, now_s):
                    self._record.append(event)
            ending = "disk_full" if self._record.dropped else found.ending
            self._record.append(EndLine(ending, now_s, int(found.exit_code), found.counts))
        self._record.sync(now_s, at_once=True)
        if self._record.dropped:
            lost = f"{counted(self._record.dropped, 'line')} of the record could not be written"
            self._console.say(f"{lost}: {self._record.problem}")
        name = f"shard {self._job.shard.key}" if self._job.shard.key else "command"
        self._console.conclude(name, found, now_s - self._state.began_s, self._causes)
        return found


def _heard(result: Result, now_s: float) -> EventLine:
    """When the leg heard of a result whose program measures no time."""
    suite, variant, unit, case = result.key
    return EventLine("heard", now_s, result.process, suite, variant, unit, detail=case)


def _in_words(action: Union[Stop, Recycle, Warn]) -> str:
    if isinstance(action, Warn):
        return f"{action.kind}: {action.reason}"
    if isinstance(action, Recycle):
        return f"process {action.process}: recycled: {action.reason}"
    return f"process {action.process}: {action.ending}: {action.reason}"
