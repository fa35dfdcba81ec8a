"""What a leg's rules look at: its running processes and its units. Changes by two doors.

A `State` is told lines of the record (`observe`) and its own decisions (`apply`), and nothing else,
so that a real record can be replayed to the same decisions in the same order. Rules: `rules.py`.
Standard library only, Python 3.8+ (travels in the leg).
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Callable, Final, Iterator, Mapping, Sequence

from ciguard.model import (
    BAD_OUTCOMES,
    MEMORY_ENDINGS,
    Ending,
    EventLine,
    Line,
    PlannedUnit,
    ProcessEndLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.run.policy.actions import NO_TIME_S, Action, Assign, Claim, Recycle, Start, Stop, Warn
from ciguard.run.policy.bisect import crashing_file, died_unattributed
from ciguard.run.policy.block_claims import claims_of
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.reruns import Rerun, isolated_reruns, process_rerun

if TYPE_CHECKING:
    from ciguard.model import LegPolicy, Shard, Suite

MIB: Final = 1 << 20
# Of the events that a tested process reports, those that the rules look at.
PAUSED: Final = "unit_paused"
OBSERVED_EVENTS: Final = ("closed", "second_session", "thread_left", PAUSED)
CLAIM_EVENTS: Final = ("claimed", "taken", "claims_ended")
NO_BLOCKS: Final[Mapping[str, "tuple[PlannedUnit, ...]"]] = {}
# What a killed process held comes back within half a second; what does not is held by others.
MEMORY_BACK_S: Final = 2.0
UNKNOWN_BASE_BYTES: Final = 50 * MIB  # a Python with a test framework and nothing else: 40-60 MiB
UNKNOWN_DELTA_BYTES: Final = 50 * MIB  # most tests need less; the guard rail is for the others


class State:
    """All that the rules look at. Changes by `observe` and `apply` only.

    Args:
        shard: the units in the order in which they are wanted.
        suites: of the plan; for the base memory of their processes.
        policy: of the plan.
        for_s: how long after the step's start units may be begun; None: without end.
        file_of: of a unit whose framework announces it, the file that is read before; else "".
        others_blocks: of other shards, by name, those that this leg may be given.
    """

    def __init__(
        self,
        shard: Shard,
        suites: Mapping[str, Suite],
        policy: LegPolicy,
        *,
        for_s: float | None = None,
        file_of: Callable[[PlannedUnit], str] = lambda unit: "",  # noqa: ARG005
        others_blocks: Mapping[str, tuple[PlannedUnit, ...]] = NO_BLOCKS,
    ) -> None:
        self.units: tuple[PlannedUnit, ...] = shard.units
        self.suite_key = shard.suite_key
        self.awaits_listing = policy.lists
        self.idle: int | None = None  # the process that has listed, and waits for its units
        self.cannot_list = False  # a process ended by itself and listed nothing: so would others
        self._listed: list[UnitKey] = []  # until the end of the listing
        self._timeouts_s = {name: suite.timeout_s for name, suite in suites.items()}
        self._declared_peaks = {name: suite.declared_peaks for name, suite in suites.items()}
        self.processes = max(1, shard.processes)
        self.budget_bytes = shard.budget_bytes
        self.policy = policy
        self.for_s = for_s
        self.began_s = 0.0  # this step, on the clock of a leg that may have had others
        self.base_bytes = {
            name: UNKNOWN_BASE_BYTES if suite.base_bytes is None else suite.base_bytes
            for name, suite in suites.items()
        }
        self._closing = frozenset(name for name, suite in suites.items() if suite.closes_units)
        # A script goes on after the session of its tests.
        self._scripts = frozenset(name for name, suite in suites.items() if suite.is_script)
        self.writes_result_files = frozenset(
            name for name, suite in suites.items() if suite.results
        )
        self.claims = claims_of(shard, others_blocks)
        self.waiting: list[int] = list(range(shard.own_count))  # positions, ascending
        self.running: dict[int, ProcessState] = {}
        self.tries: dict[int, int] = {}  # unit -> executions that ended
        self.failures: dict[int, int] = {}  # unit -> those that went wrong
        self.reruns: list[Rerun] = []  # processes to come when nothing waits any more
        self.ran_isolated: set[int] = set()  # units that ran alone after their first run
        self.started = 0
        self.fruitless_processes = 0
        self.crashing_files = 0  # to blame, since others ran
        self.suspects: tuple[int, ...] = ()  # one of them killed a process that named none
        self.was_suspected: set[int] = set()  # all that ever were, and have not finished since
        self.bisects_files = False  # nothing had begun: it is a file of theirs
        self.import_crashed: set[int] = set()  # their file ends each process before its first unit
        self._file_of = file_of
        self.interrupted: Ending | None = None
        self.has_second_session = False  # so no result of the leg counts as complete
        self.memory_bytes: int | None = None
        self.headrooms: tuple[tuple[float, int], ...] = ()  # of the last two samples, with at_s
        self.memory_back_s = float("-inf")  # until then nothing starts where memory is short
        self.process_bytes: dict[int, int] = {}
        self.warned: set[str] = set()  # kinds that were said
        self.grace_used = False  # a step before this one stopped what did not end at its checkpoint
        self.without_result: set[int] = set()  # a process ended by itself without a result of them
        self._position: dict[UnitKey, int] | None = None  # a simulation never asks for it

    @property
    def busy(self) -> Mapping[int, ProcessState]:
        """The running processes that have units."""
        if self.idle is None:
            return self.running
        return {number: one for number, one in self.running.items() if number != self.idle}

    @property
    def own_units(self) -> tuple[PlannedUnit, ...]:
        """What this leg is to run, as far as is known: without what moved to others."""
        moved = self.claims.moved_units
        return tuple(unit for place, unit in enumerate(self.units) if place not in moved)

    def remaining_s(self, now_s: float) -> float:
        """Until the leg's deadline."""
        limit_s = self.policy.deadline_s
        return float("inf") if limit_s is None else self.began_s + limit_s - now_s

    def need_bytes(self, unit: int) -> int:
        """What one unit needs in a fresh process."""
        planned = self.units[unit]
        delta = planned.peak_delta_bytes
        return self.base_bytes[planned.suite] + (UNKNOWN_DELTA_BYTES if delta is None else delta)

    def file_of(self, unit: int) -> str:
        """The file that is read before the unit is announced; "" where it may not be."""
        return self._file_of(self.units[unit])

    def units_of_crashing_file(self, process: int, ending: Ending) -> tuple[int, ...]:
        """The units of the file that a process died of, wherever they wait; to be asked before.

        Those that ran in an earlier process keep its results.
        """
        running = self.running[process]
        file = crashing_file(running, ending, self.was_suspected, self.file_of)
        if not file:
            return ()
        start = running.start
        found = {
            unit
            for unit in self.waiting
            if self.file_of(unit) == file
            and (self.units[unit].suite, self.units[unit].variant) == (start.suite, start.variant)
        }
        return tuple(sorted({*start.units, *found} - self.tries.keys()))

    def culprits(self, process: int) -> tuple[int, ...]:
        """The units to blame for an abnormal end: one by name, else all that it was at.

        A process that had one unit and said nothing died of that one, if it need not announce it.
        """
        running = self.running[process]
        at = {*running.open_units, *running.has_result}
        if running.overlap and running.open_units:
            at = set(running.open_units)
        if not at and not running.wrote_lines and len(running.start.units) == 1:
            at.update(unit for unit in running.start.units if not self.file_of(unit))
        named = at if running.stop_unit is None else at & {running.stop_unit}
        return tuple(sorted(named | running.finished_late))

    def position(self, key: UnitKey) -> int | None:
        """Where a unit stands in the shard; None for one that is not planned here."""
        if self._position is None:
            self._position = {unit.key: index for index, unit in enumerate(self.units)}
        return self._position.get(key)

    def observe(self, line: Line) -> None:
        """Take in one line of the record; lines that decide nothing are let pass."""
        if isinstance(line, StartLine):
            self._observe_start(line)
        elif isinstance(line, Result):
            self._observe_result(line)
        elif isinstance(line, ProcessEndLine):
            self._observe_end(line)
        elif isinstance(line, SampleLine):
            if line.headroom_bytes is not None:
                self.headrooms = (*self.headrooms[-1:], (line.at_s, line.headroom_bytes))
            self.process_bytes = {int(key): size for key, size in line.process_bytes.items()}
            for process, size in self.process_bytes.items():
                if process in self.running:
                    running = self.running[process]
                    running.max_bytes = max(size, running.max_bytes)
        elif isinstance(line, ShardLine):
            self.memory_bytes = line.runner.memory_bytes
        elif isinstance(line, EventLine) and line.kind == "signal":
            self.interrupted = "cancelled"
        elif isinstance(line, EventLine) and line.kind == "second_session":
            self.has_second_session = True
        elif isinstance(line, EventLine) and line.kind == "resumed":
            self.began_s = line.at_s or 0.0
            self.started = line.process or 0
        elif isinstance(line, EventLine) and line.kind == "failed_previously":
            unit = self.position(UnitKey(line.suite, line.variant, line.unit or ""))
            if unit is not None:
                self.tries[unit] = self.tries.get(unit, 0) + 1
                self.failures[unit] = self.failures.get(unit, 0) + 1
        elif isinstance(line, EventLine) and line.kind == "grace_used":
            self.grace_used = True
        elif isinstance(line, EventLine) and line.kind == "closed":
            self._observe_closed(line)
        elif isinstance(line, EventLine) and line.kind == "thread_left":
            holder = self.running.get(line.process or 0)
            if holder is not None and holder.start.suite not in self._scripts:
                holder.thread_left_s = line.at_s
        elif isinstance(line, EventLine) and line.kind == PAUSED:
            self._observe_paused(line)
        elif isinstance(line, EventLine) and line.kind in CLAIM_EVENTS:
            self._observe_claim(line)
        elif isinstance(line, EventLine) and self.awaits_listing:
            self._observe_listing(line)

    def _observe_claim(self, line: EventLine) -> None:
        """Take in a block that this leg runs, or one that another does."""
        units = self.claims.observe(line)
        if units is None:
            begin, others = len(self.units), self.claims.others[line.block or ""]
            self.units += tuple(others)
            units, self._position = tuple(range(begin, len(self.units))), None
        self.waiting = sorted({*self.waiting, *units})

    def _observe_listing(self, line: EventLine) -> None:
        """Take the shard's units, in the order in which they are listed."""
        if line.kind == "listed":
            self._listed.append(UnitKey(line.suite, line.variant, line.unit or ""))
        elif line.kind == "listing":
            planned = {unit.key: unit for unit in self.units}
            self.units = tuple(planned.get(key) or self._new_unit(key) for key in self._listed)
            self.waiting, self._position = list(range(len(self.units))), None
            self.awaits_listing, self.idle = False, line.process

    def _new_unit(self, key: UnitKey) -> PlannedUnit:
        suite, variant, unit = key
        peaks = (
            one.peak_delta_bytes
            for one in self._declared_peaks[suite]
            if one.units == unit or fnmatch.fnmatchcase(unit, one.units)
        )
        return PlannedUnit(
            unit,
            suite,
            variant,
            peak_delta_bytes=next(peaks, None),
            timeout_s=self._timeouts_s[suite],
            has_history=False,
        )

    def _observe_start(self, line: StartLine) -> None:
        running = self.running.get(line.process or 0)
        unit = self.position(UnitKey(line.suite, line.variant, line.unit))
        if running is None or unit is None:
            return
        running.wrote_lines = running.wrote_lines or not line.assumed
        # Without a time, the leg says when it heard of it in a line of its own.
        sizes = (line.rss_before_bytes, self.process_bytes.get(line.process or 0))
        known = [size for size in sizes if size is not None]
        if known and unit not in running.open_units:
            running.rss_before_bytes[unit] = max(
                known
            )  # the tree may hold more than the process says
        if line.file is not None:
            running.code_positions[unit] = (line.file, line.line)
        known_s = running.open_units.get(unit, running.received.get(unit, NO_TIME_S))
        if line.received and line.at_s is not None:
            # A replay meets it before the program's own line, of which alone a unit begins.
            running.received[unit] = line.at_s
            if unit in running.open_units:
                running.open_units[unit] = line.at_s
        else:
            running.begin(unit, known_s if line.at_s is None else line.at_s)
            running.done_s = None  # it was paused
            running.max_bytes = 0

    def _observe_result(self, line: Result) -> None:
        running = self.running.get(line.process or 0)
        unit = self.position(line.key.unit_key)
        if running is None or unit is None:
            return
        if self._is_late(running, unit, line):
            running.finished_late.add(unit)
        if running.report(unit, line):
            running.note_finished(line.at_s)
        running.last_activity_s = max(running.last_activity_s, line.at_s or 0.0)
        running.wrote_lines = running.wrote_lines or line.outcome != "died"
        if line.outcome == "died":
            running.died[unit] = line
        if line.ending == "deadline":
            running.stopped.add(unit)
        elif line.outcome in BAD_OUTCOMES:
            running.failed.add(unit)
            running.last_failure_s = max(running.last_failure_s, line.at_s or 0.0)
        if line.rss_before_bytes is not None and (line.at_s or 0.0) >= running.resident_s:
            running.resident_bytes = line.rss_before_bytes + (line.retained_bytes or 0)
            running.resident_s = line.at_s or 0.0

    def _observe_closed(self, line: EventLine) -> None:
        running = self.running.get(line.process or 0)
        unit = self.position(UnitKey(line.suite, line.variant, line.unit or ""))
        if running is not None and unit is not None and running.closes:
            running.wrote_lines = True
            running.last_activity_s = max(running.last_activity_s, line.at_s or 0.0)
            running.close(unit)
            running.note_finished(line.at_s or running.last_activity_s)

    def _observe_paused(self, line: EventLine) -> None:
        """A unit waits for others: it is not running, so that no limit and no death is its own."""
        running = self.running.get(line.process or 0)
        unit = self.position(UnitKey(line.suite, line.variant, line.unit or ""))
        if running is not None and unit is not None:
            running.open_units.pop(unit, None)

    def _is_late(self, running: ProcessState, unit: int, line: Result) -> bool:
        """Whether a unit swallowed its interruption, or was just done when it came: it is over."""
        limit_s = self.units[unit].timeout_s
        if running.stopping != "timeout" or running.stop_unit != unit or line.outcome == "died":
            return False
        if limit_s is None or line.at_s is None:
            return False
        return line.at_s - running.open_units.get(unit, NO_TIME_S) > limit_s

    def _observe_end(self, line: ProcessEndLine) -> None:
        running = self.running.get(line.process)
        if running is None:
            return
        blamed = self.units_of_crashing_file(line.process, line.ending)
        del self.running[line.process]
        self.process_bytes.pop(line.process, None)
        if not running.start.units:
            self.fruitless_processes += self.awaits_listing
            self.cannot_list = self.awaits_listing and line.ending == "completed"
            self.idle = None
            if line.ending in MEMORY_ENDINGS:
                self.headrooms, self.memory_back_s = (), (line.at_s or 0.0) + MEMORY_BACK_S
            return
        if line.ending == "completed":
            running.close_reported()
        self._bisect(running, line.ending, file_found=bool(blamed))
        for unit in running.finished - running.stopped:
            self.tries[unit] = self.tries.get(unit, 0) + 1
        for unit in running.finished & running.failed:
            self.failures[unit] = self.failures.get(unit, 0) + 1
        disturbed = running.was_cut_short(line.ending)
        rest = running.unfinished_units()
        self.import_crashed.update(blamed)
        waits = {
            *self.waiting,
            *running.stopped,
            *(rest if disturbed else ()),
        } - self.import_crashed
        if disturbed and not running.has_started_unit():  # what ran before keeps its results
            waits -= self._repeated(running)
        self.waiting = sorted(waits)
        if not disturbed:
            # Where a program writes files of its own, those may have it: the leg reads none.
            silent = (
                unit for unit in rest if self.units[unit].suite not in self.writes_result_files
            )
            self.without_result.update(unit for unit in silent if unit not in self.tries)
        self._plan_reruns(running, line)

    def _plan_reruns(self, running: ProcessState, line: ProcessEndLine) -> None:
        """Note what of an ended process is to be executed again."""
        if line.ending in MEMORY_ENDINGS:
            self.headrooms, self.memory_back_s = (), (line.at_s or 0.0) + MEMORY_BACK_S
        most = self.budget_bytes or self.memory_bytes
        base = self.base_bytes[running.start.suite]
        alone = isolated_reruns(running, base, most, self.ran_isolated)
        self.ran_isolated.update(unit for one in alone for unit in one.units)
        left_out = frozenset(unit for one in alone for unit in one.units)
        rerun = process_rerun(
            running, left_out, self.failures, self.policy.max_tries, line.at_s or 0.0
        )
        self.reruns += [*alone, *([rerun] if rerun else [])]
        if (
            line.ending != "completed"
            and not running.has_started_unit()
            and self._repeated(running)
        ):
            start = running.start
            self.reruns.append(Rerun(start.units, start.reason, start.repeats, start.isolated))

    def _repeated(self, running: ProcessState) -> set[int]:
        """The units of a process that executes them again; none of one that executes others."""
        units = set(running.start.units)
        return units if units <= self.tries.keys() else set()

    def _bisect(self, running: ProcessState, ending: Ending, *, file_found: bool) -> None:
        """Narrow down what kills processes that do not say what they are at.

        Args:
            file_found: a file is known to end its process.
        """
        units = running.start.units
        searched = (len(units) > 1 or bool(self.file_of(units[0]))) and not self._repeated(running)
        silent = searched and died_unattributed(running, ending) and not file_found
        if running.finished and running.wrote_lines:
            self.fruitless_processes = self.crashing_files = 0
        elif file_found and self.tries:
            self.crashing_files += 1  # others of it run: what is left is worth another look
        elif not silent and ending != "completed":  # one that completed leaves nothing to repeat
            self.fruitless_processes += 1
        over = file_found or bool(running.died)
        suspects = running.unfinished_units() if silent else () if over else self.suspects
        self.suspects = tuple(unit for unit in suspects if unit not in running.finished)
        self.was_suspected.update(suspects if silent else ())
        self.was_suspected -= running.finished
        if silent:
            self.bisects_files = not running.has_started_unit()

    def apply(self, action: Action) -> None:
        """Take in a decision of `next_action` that is being carried out."""
        if isinstance(action, Start):
            taken = set(action.units)
            self.waiting = [unit for unit in self.waiting if unit not in taken]
            if self.reruns and self.reruns[0].starts(action):
                del self.reruns[0]
            self.running[action.process] = ProcessState(
                action,
                action.suite in self._closing,
                longest_s=self._longest_s(action),
                last_activity_s=action.at_s,
            )
            for running in self.running.values():
                running.had_concurrent_process = len(self.running) > 1
            self.started = action.process
        elif isinstance(action, Assign):
            taken = set(action.start.units)
            self.waiting = [unit for unit in self.waiting if unit not in taken]
            running = self.running[action.start.process]
            running.start, running.last_activity_s = action.start, action.start.at_s
            running.longest_s = self._longest_s(action.start)
            running.done_s = None if action.start.units else action.start.at_s
            self.idle = None
        elif isinstance(action, Stop):
            self.running[action.process].stopping = action.ending
            self.running[action.process].stop_unit = action.unit
            self.running[action.process].at_checkpoint = action.checkpoint
            self.running[action.process].refuses_exit = action.reason.kind == "no_exit"
            if action.ending == "memory_guard":
                self.headrooms = ()  # the next kill needs two samples of its own
        elif isinstance(action, Recycle):
            self.running[action.process].recycled = True
        elif isinstance(action, Claim):
            self.claims.status = "asked"
        elif isinstance(action, Warn):
            self.warned.add(action.reason.kind)
            if action.reason.kind == "rerun_skipped":
                del self.reruns[0]

    def _longest_s(self, start: Start) -> float:
        limits = (self.units[unit].timeout_s for unit in start.units)
        return max((NO_TIME_S if one is None else one for one in limits), default=NO_TIME_S)

    def finish_for_simulation(self, process: int) -> None:
        """For simulation: the process has finished all its units."""
        running = self.running[process]
        running.finished.update(running.start.units)
        running.wrote_lines = True
        self._observe_end(ProcessEndLine(process, "completed"))


def predicted_peak_bytes(state: State, units: Sequence[int]) -> int:
    """Peak of one process that runs these units in order; 0 without any."""
    base_bytes = state.base_bytes[state.units[units[0]].suite] if units else 0
    return max(base_bytes, *unit_peaks_bytes(state, units), 0)


def unit_peaks_bytes(state: State, units: Sequence[int]) -> Iterator[int]:
    """Peak of one process during each of these units: base + retained so far + own delta.

    A unit that retained less than nothing is taken to retain nothing: it may have freed what only
    its predecessor of that day had allocated.
    """
    resident = state.base_bytes[state.units[units[0]].suite] if units else 0
    for unit in units:
        planned = state.units[unit]
        delta = planned.peak_delta_bytes
        yield resident + (UNKNOWN_DELTA_BYTES if delta is None else delta)
        resident += max(0, planned.retained_bytes or 0)
