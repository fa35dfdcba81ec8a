"""What is written down and said when a tested process has ended: victims, ending, missing units."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Callable, Final, Sequence

from ciguard.model import EventLine, ProcessEndLine
from ciguard.run.causes import cause
from ciguard.run.endings import (
    died,
    ending_of,
    exit_words,
    is_unexplained,
    killed_by,
    last_output,
    of_the_whole,
    unexplained_words,
)
from ciguard.run.peaks import in_words
from ciguard.run.platforms.base import KEEPER_LOST
from ciguard.run.resultfiles import FILE
from ciguard.run.wording import counted, last_line, last_words, short_name

if TYPE_CHECKING:
    from typing import Dict, Set

    from ciguard.model import Ending, Line, Result, UnitKey
    from ciguard.run.console import Console
    from ciguard.run.frameworks.base import Batch
    from ciguard.run.job import Job
    from ciguard.run.live import Live
    from ciguard.run.memory import MemoryWatch
    from ciguard.run.platforms.base import Ended
    from ciguard.run.record import RecordFile
    from ciguard.run.resultfiles import ResultFiles
    from ciguard.run.state import State


SHOWN: Final = 8  # lines of where a stopped test stood


class Aftermath:
    """Of all processes of a leg, one after the other.

    Args:
        observed: writes a line that the rules look at. oom_kills: the kernel's count by now.

    Attributes:
        causes: why units have no result.
        unexplained: processes whose exit code no result explains.
    """

    def __init__(
        self,
        job: Job,
        state: State,
        record: RecordFile,
        console: Console,
        files: ResultFiles,
        *,
        observed: Callable[[Line], None],
        memory: MemoryWatch,
        oom_kills: Callable[[], int],
    ) -> None:
        self._job = job
        self._state = state
        self._record = record
        self._console = console
        self._files = files
        self._observed = observed
        self._memory = memory
        self._oom_kills = oom_kills
        self.causes: Dict[UnitKey, str] = {}
        self._advised: Set[str] = set()
        self.unexplained = sum(
            isinstance(line, EventLine) and line.kind == "unexplained_exit"
            for line in job.earlier.lines
        )

    def of(self, live: Live, ended: Ended, others: Sequence[Batch], now_s: float) -> None:
        """Take in the end of a process: its victims, its ending, what is missing and why.

        Args:
            live: with all its lines taken in.
            others: what the other processes that run were told.
        """
        number = live.batch.process
        running = self._state.running[number]
        peak = live.peak(ended, self._memory.peak_bytes.get(number))
        # A shell's 139 is the death that it hands on, as -11 is.
        by_itself = killed_by(ended.exit_code) is None and not running.stopping
        if self._job.whole and running.open and by_itself:
            self._observed(of_the_whole(self._state, number, ended, now_s, peak))
        executor = self._job.executor(running.start.suite)
        # What was not found was looked for: a framework that is not there finds nothing missing.
        had_results = bool(running.closed or running.reported or live.said.vanished)
        had_results |= self._copy_files(live, others, now_s)
        output = ended.error or last_output(live.last_output())
        ending = ending_of(
            running,
            ended.exit_code,
            clean=not ended.error and executor.is_clean(ended.exit_code, had_results=had_results),
            out_of_memory=live.killed_for_memory(self._oom_kills()),
            collecting=live.said.collecting,
            timed_out=executor.says_timeout(ended.exit_code, output),
        )
        stacks = live.stacks()
        if stacks:
            self._record.append(EventLine("stacks", now_s, number, detail="\n\n".join(stacks)))
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
        if ended.error == KEEPER_LOST and len(running.start.units) > 1:
            victims = ()  # who killed it may have passed since: it is searched for by halves
        detail = f"{exit_words(ended.exit_code)}\n{output}"
        if ending != "completed":
            for victim in victims:
                self._observed(victim)
            if not victims:
                self._record.append(EventLine("last_output", now_s, number, detail=detail))
        self._name_causes(live, ending, ended.exit_code, now_s, output)
        of_file = self._blame_file(number, ending, ended.exit_code, now_s)
        errors = bool(live.said.errors)
        unexplained = is_unexplained(running, ending, ended.exit_code, errors=errors)
        why = ""
        if self._files.writes(running.start.suite) and ending == "completed" and not running.bad:
            unexplained = False
            if ended.exit_code and not running.recycled:
                event = self._files.explains(number, ended.exit_code, now_s)
                self._record.append(event)
                why = f" ({event.detail})"
        if unexplained:
            self.unexplained += 1
            detail = f"{exit_words(ended.exit_code)}\n{last_words(output)}"
            self._record.append(EventLine("unexplained_exit", now_s, number, detail=detail))
        self._observed(ProcessEndLine(number, ending, ended.exit_code, now_s, *peak))
        self._record.sync(now_s, at_once=True)
        if ending != "completed":
            why = f" ({exit_words(ended.exit_code)})"
        how = "stopped, as asked," if running.at_checkpoint else f"{ending}{why}"
        took = f"{how} after {now_s - live.started_s:.1f} s{in_words(peak)}"
        self._say_end(live, took, output if ended.error else "")
        if stacks and not victims:
            self._say_standing(stacks[0].splitlines())
        for victim in victims if ending != "completed" else ():
            self._say_victim(victim, standing=bool(stacks))
        if of_file:
            self._console.say(of_file)
        if unexplained:
            self._console.say(unexplained_words(number, ended.exit_code, output))

    def _copy_files(self, live: Live, others: Sequence[Batch], now_s: float) -> bool:
        """Copy the files that a process wrote; whether it may have results there."""
        events, may_have = self._files.behind(live.batch, others, now_s)
        for event in events:
            self._record.append(event)
            if event.kind != FILE:
                self._console.say(f"process {event.process}: {event.detail}")
        return may_have

    def _blame_file(self, number: int, ending: Ending, exit_code: int, now_s: float) -> str:
        """Say in the record of each unit of a file that ends its process why it does not run.

        Returns:
            The same of the file; "" where there is none to blame.
        """
        blamed = self._state.of_a_file_to_blame(number, ending)
        if not blamed:
            return ""
        file, how = self._state.file_of(blamed[0]), f"{ending}, {exit_words(exit_code)}"
        why = f"it could not be imported: a process that read no other file ended ({how})"
        for key in (self._job.shard.units[unit].key for unit in blamed):
            self.causes[key] = why
            self._record.append(EventLine("not_imported", now_s, number, *key, detail=why))
        left = f"{counted(len(blamed), 'unit')} of it cannot run"
        return f"  {file}: it ends its process before the first test, {left}"

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
            self.causes.update(dict.fromkeys(left, what))
            self._advise(self._job.executor(running.start.suite).advice(output))
        if running.was_disturbed(ending):
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
            self.causes[key] = event.detail
            self._record.append(replace(event, at_s=now_s, process=number))

    def _advise(self, advice: str) -> None:
        """Once: the next process has the same."""
        if advice and advice not in self._advised:
            self._advised.add(advice)
            self._console.say(f"  fix: {advice}")

    def _say_victim(self, victim: Result, *, standing: bool) -> None:
        """Name it at once: a leg that dies later has no closing lines."""
        first, *rest = (victim.message or "").splitlines()
        self._console.say(f"  {short_name(victim.key.unit_key)}: {first}")
        if standing:
            self._say_standing(rest)

    def _say_standing(self, lines: Sequence[str]) -> None:
        for line in lines[:SHOWN]:
            self._console.say(f"    {line}")

    def _say_end(self, live: Live, took: str, error: str) -> None:
        number = live.batch.process
        if self._job.shard.processes != 1:
            self._console.begin(f"process {number}: output")
        self._console.take(live.log)
        hidden = live.log.shown_bytes is not None
        failures = live.failures() if hidden or not live.said.finished else b""
        if failures:
            self._console.say("what failed in it before it ended:")
            self._console.pass_on(failures)
        self._console.end(f"process {number}: {took}")
        if hidden:
            self._console.say(f"  what it printed on being stopped is in {live.log.name}")
        if error:
            self._console.say(f"  {error}")
