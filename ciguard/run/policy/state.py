"""State of a leg for its rules (rules.py): running processes, pending units, reruns to come.

Only lines of the record (`observe`) and the leg's own decisions (`apply`) change a `State`, so that
the replay of a record gives the same decisions in the same order.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field, replace
from typing import Callable, Collection, Final, Iterator, Literal, Mapping, Sequence

from ciguard.model import (
    BAD_OUTCOMES,
    MEMORY_ENDINGS,
    Ending,
    EndLine,
    EventLine,
    LegPolicy,
    Line,
    PlannedUnit,
    ProcessEndLine,
    Result,
    SampleLine,
    Shard,
    ShardLine,
    StartLine,
    Suite,
    UnitKey,
    repository_path,
)
from ciguard.run.policy.actions import NO_TIME_S, Action, Assign, Claim, Recycle, Start, Stop, Warn
from ciguard.run.policy.bisect import crashing_file, died_unattributed
from ciguard.run.policy.process_state import ProcessState
from ciguard.run.policy.repeats import STOP_S, ExtraTries, repeated_unit
from ciguard.run.policy.reruns import (
    MAX_PROBED,
    PROBE_RATIO,
    NewFailure,
    Rerun,
    isolated_reruns,
    process_rerun,
    with_time_for_probe,
)

MIB: Final = 1 << 20
# Kinds of the events of a tested process that change the state.
PAUSED: Final = "unit_paused"
WORKERS: Final = "workers"
OBSERVED_EVENTS: Final = ("closed", "second_session", "thread_left", WORKERS, PAUSED)
CLAIM_EVENTS: Final = ("claimed", "taken", "claims_ended")
NO_BLOCKS: Final[Mapping[str, "tuple[PlannedUnit, ...]"]] = {}
# The memory of a killed process is free after half a second; what is missing then, others hold.
MEMORY_BACK_S: Final = 2.0
UNKNOWN_BASE_BYTES: Final = 50 * MIB  # a Python with a test framework and nothing else: 40-60 MiB
UNKNOWN_DELTA_BYTES: Final = 50 * MIB  # most tests need less; the guard rail stops the others


class State:
    """Processes, units and memory of one leg. A unit is its position in `units`.

    Args:
        shard: the units in the order in which they run.
        suites: suites of the plan, for memory and timeouts of their units.
        policy: policy of the plan.
        step_limit_s: time after the step's start in which units may begin; None: unlimited.
        file_of: returns the file that is read before the unit is announced; "" if the framework
            does not announce the unit.
        others_blocks: blocks of other shards, by name, that this leg may claim.
    """

    def __init__(
        self,
        shard: Shard,
        suites: Mapping[str, Suite],
        policy: LegPolicy,
        *,
        step_limit_s: float | None = None,
        file_of: Callable[[PlannedUnit], str] = lambda unit: "",  # noqa: ARG005
        others_blocks: Mapping[str, tuple[PlannedUnit, ...]] = NO_BLOCKS,
    ) -> None:
        self.units: tuple[PlannedUnit, ...] = shard.units
        self.suite_key = shard.suite_key
        self.awaits_listing = policy.lists
        self.idle: int | None = None  # process that has listed and waits for its units
        self.cannot_list = False  # a process ended by itself and listed nothing
        self._listed: list[UnitKey] = []  # filled while a process lists
        self._suites = suites
        self.processes = max(1, shard.processes)
        self.budget_bytes = shard.budget_bytes
        self.policy = policy
        self.step_limit_s = step_limit_s
        self.began_s = 0.0  # start of this step; above 0 if the leg had earlier steps
        self.base_bytes = {
            name: UNKNOWN_BASE_BYTES if suite.base_bytes is None else suite.base_bytes
            for name, suite in suites.items()
        }
        self.claims = claims_of(shard, others_blocks)
        self.pending: list[int] = list(range(shard.own_count))  # units to run, ascending
        self.running: dict[int, ProcessState] = {}  # by process number
        self.tries: dict[int, int] = {}  # unit -> executions that ended
        self.failures: dict[int, int] = {}  # unit -> executions that failed
        self.last_failures: dict[int, ProcessState] = {}  # unit -> its last process, if it failed
        self.extra = ExtraTries()  # after the leg's end
        self._end_s = policy.deadline_s  # deadline of the leg, without that of extra tries
        self.reruns: list[Rerun] = []  # processes to start when no unit is pending
        self.ran_isolated: set[int] = set()  # units that ran alone after their first run
        self.started = 0  # number of the last process
        self.fruitless_processes = 0  # in a row, without a finished unit
        self.crashing_files = 0  # in a row, found since a process finished a unit
        # For bisect.py: one of the suspects killed a process without a known culprit.
        self.suspects: tuple[int, ...] = ()
        self.was_suspected: set[int] = set()  # suspects so far that have not finished since
        self.bisects_files = False  # if a process died before its first unit, a file is to blame
        self.import_crashed: set[int] = set()  # units of files that end each process at import
        self._file_of = file_of
        self.interrupted: Ending | None = None
        self.has_second_session = False  # if true, no result of the leg counts as complete
        self.memory_bytes: int | None = None  # of the machine or its tightest cgroup
        self.headrooms: tuple[tuple[float, int], ...] = ()  # at_s and bytes, last two samples
        self.memory_back_s = float("-inf")  # no process starts before, while memory is short
        self.process_bytes: dict[int, int] = {}  # by process number, last sample
        self.warned: set[str] = set()  # kinds of warnings so far
        self.grace_used = False  # an earlier step stopped a process after its grace period
        self.without_result: set[int] = set()  # units that a completed process did not report
        self._position: dict[UnitKey, int] | None = None  # built on demand: not in simulations

    @property
    def busy(self) -> Mapping[int, ProcessState]:
        """The running processes that have units."""
        if self.idle is None:
            return self.running
        return {number: state for number, state in self.running.items() if number != self.idle}

    @property
    def own_units(self) -> tuple[PlannedUnit, ...]:
        """The units that this leg is to run, as far as known: without the units that moved."""
        moved = self.claims.moved_units
        return tuple(unit for position, unit in enumerate(self.units) if position not in moved)

    def remaining_s(self, now_s: float) -> float:
        """Return the time until the leg's deadline; infinite without one."""
        limit_s = self.policy.deadline_s
        return float("inf") if limit_s is None else self.began_s + limit_s - now_s

    def timeout_s(self, unit: int) -> float | None:
        """Return the time that a unit may take now; None for no limit."""
        return self.extra.timeout_s(unit, self.units[unit].timeout_s)

    def need_bytes(self, unit: int) -> int:
        """Return the predicted peak of a fresh process that runs one unit."""
        planned = self.units[unit]
        delta = planned.peak_delta_bytes
        return self.base_bytes[planned.suite] + (UNKNOWN_DELTA_BYTES if delta is None else delta)

    def file_of(self, unit: int) -> str:
        """Return the file that is read before the unit is announced; "" if it is not announced."""
        return self._file_of(self.units[unit])

    def units_of_crashing_file(self, process: int, ending: Ending) -> tuple[int, ...]:
        """Return the units of the file that killed a process, the pending ones included.

        Call this before the end of the process is observed. Units that ran in an earlier process
        are omitted, because they keep their results.
        """
        running = self.running[process]
        file = crashing_file(running, ending, self.was_suspected, self.file_of)
        if not file:
            return ()
        start = running.start
        pending = {
            unit
            for unit in self.pending
            if self.file_of(unit) == file
            and (self.units[unit].suite, self.units[unit].variant) == (start.suite, start.variant)
        }
        return tuple(sorted({*start.units, *pending} - self.tries.keys()))

    def culprits(self, process: int) -> tuple[int, ...]:
        """Return the units to blame for an abnormal end: the unit of the Stop, or all running.

        A process with one unit that wrote no line died of this unit, unless its framework would
        have announced the unit.
        """
        running = self.running[process]
        candidates = {*running.open_units, *running.partial_units}
        if running.has_overlap and running.open_units:
            candidates = set(running.open_units)
        if not candidates and not running.wrote_lines and len(running.start.units) == 1:
            candidates.update(unit for unit in running.start.units if not self.file_of(unit))
        blamed = candidates if running.stop_unit is None else candidates & {running.stop_unit}
        return tuple(sorted(blamed | running.late_units))

    def position(self, key: UnitKey) -> int | None:
        """Return the position of a unit in the shard; None if the shard does not contain it."""
        if self._position is None:
            self._position = {unit.key: index for index, unit in enumerate(self.units)}
        return self._position.get(key)

    def observe(self, line: Line) -> None:
        """Update the state by one line of the record; lines that no rule needs change nothing."""
        if isinstance(line, (StartLine, Result)):
            self._observe_unit(line)
        elif isinstance(line, ProcessEndLine):
            self._observe_end(line)
        elif isinstance(line, SampleLine):
            if line.headroom_bytes is not None:
                self.headrooms = (*self.headrooms[-1:], (line.at_s, line.headroom_bytes))
            self.process_bytes = {int(key): size for key, size in line.process_bytes.items()}
            for process, size in self.process_bytes.items():
                if process in self.running:
                    running = self.running[process]
                    running.max_bytes_in_unit = max(size, running.max_bytes_in_unit)
        elif isinstance(line, ShardLine):
            self.memory_bytes = line.runner.memory_bytes
        elif isinstance(line, EndLine):
            self._observe_leg_end(line)
        elif isinstance(line, EventLine):
            self._observe_event(line)

    def _observe_event(self, line: EventLine) -> None:
        if line.kind == "signal":
            self.interrupted = "cancelled"
        elif line.kind == "second_session":
            self.has_second_session = True
        elif line.kind == "resumed":
            self.began_s = line.at_s or 0.0
            self.started = line.process or 0
        elif line.kind == "failed_previously":
            unit = self.position(line.unit_key)
            if unit is not None:
                self.tries[unit] = self.tries.get(unit, 0) + 1
                self.failures[unit] = self.failures.get(unit, 0) + 1
        elif line.kind == "grace_used":
            self.grace_used = True
        elif line.kind == "repeating":
            self._begin_repeats(line.at_s or 0.0)
        elif line.kind in ("closed", PAUSED):
            self._observe_unit(line)
        elif line.kind == "thread_left":
            running = self.running.get(line.process or 0)
            # A script continues after the session of its tests.
            if running is not None and not self._suites[running.start.suite].is_script:
                running.thread_left_s = line.at_s
        elif line.kind in CLAIM_EVENTS:
            self._observe_claim(line)
        elif self.awaits_listing:
            self._observe_listing(line)

    def _observe_claim(self, line: EventLine) -> None:
        """Process a line about a block that runs in this leg, or in another one."""
        units = self.claims.observe(line)
        if units is None:
            begin, others = len(self.units), self.claims.others[line.block or ""]
            self.units += tuple(others)
            units, self._position = tuple(range(begin, len(self.units))), None
        self.pending = sorted({*self.pending, *units})

    def _observe_listing(self, line: EventLine) -> None:
        """Process a listed unit, or the end of the listing, which replaces the shard's units."""
        if line.kind == "listed":
            self._listed.append(line.unit_key)
        elif line.kind == "listing":
            planned = {unit.key: unit for unit in self.units}
            self.units = tuple(planned.get(key) or self._new_unit(key) for key in self._listed)
            self._mark_new_units(planned.keys())
            self.pending, self._position = list(range(len(self.units))), None
            self.awaits_listing, self.idle = False, line.process

    def _new_unit(self, key: UnitKey) -> PlannedUnit:
        suite, variant, unit = key
        peaks = (
            declared.peak_delta_bytes
            for declared in self._suites[suite].declared_peaks
            if declared.units == unit or fnmatch.fnmatchcase(unit, declared.units)
        )
        return PlannedUnit(
            unit,
            suite,
            variant,
            peak_delta_bytes=next(peaks, None),
            timeout_s=self._suites[suite].timeout_s,
            has_history=False,
        )

    def _mark_new_units(self, planned: Collection[UnitKey]) -> None:
        """Mark listed units as new that are not planned, in files that may have new units."""
        left, files = self.policy.repeat_unplanned, self.policy.repeat_files
        for unit in self.units if left else ():
            path = repository_path(self._suites, unit.suite, self._file_of(unit))
            may_be_new = unit.key not in planned and (not files or not path or path in files)
            if left and may_be_new:
                unit.change, left = "new", left - 1

    def _observe_unit(self, line: StartLine | Result | EventLine) -> None:
        """Process a line about a unit of a running process."""
        running = self.running.get(line.process or 0)
        unit = self.position(line.unit_key)
        if running is None or unit is None:
            return
        if isinstance(line, StartLine):
            self._observe_start(running, unit, line)
        elif isinstance(line, Result):
            self._observe_result(running, unit, line)
        elif line.kind == PAUSED:
            # While the unit waits for others, timeouts and deaths do not count for it.
            running.open_units.pop(unit, None)
            running.partial_units.discard(unit)
        elif running.closes_units:
            running.wrote_lines = True
            running.last_activity_at_s = max(running.last_activity_at_s, line.at_s or 0.0)
            running.close(unit)
            running.note_finished(line.at_s or running.last_activity_at_s)

    def _observe_start(self, running: ProcessState, unit: int, line: StartLine) -> None:
        running.wrote_lines = running.wrote_lines or not line.assumed
        sizes = (line.rss_before_bytes, self.process_bytes.get(line.process or 0))
        known_sizes = [size for size in sizes if size is not None]
        if known_sizes and unit not in running.open_units:
            # The sample covers the whole tree, which may be larger than the process. A unit with a
            # separate process in the tree begins at 0.
            running.rss_before_bytes[unit] = max(known_sizes) if known_sizes[0] else 0
        if line.at_s is not None:
            running.first_start_s = min(line.at_s, running.first_start_s)
        if line.file is not None:
            running.code_positions[unit] = (line.file, line.line)
        known_s = running.open_units.get(unit, running.start_received_s.get(unit, NO_TIME_S))
        # For a start line without a time, the leg writes a second line, marked `received`.
        if line.received and line.at_s is not None:
            # A replay reads this line before the program's line, and only the latter is a start.
            running.start_received_s[unit] = line.at_s
            if unit in running.open_units:
                running.open_units[unit] = line.at_s
        else:
            running.begin(unit, known_s if line.at_s is None else line.at_s)
            running.done_s = None  # a paused unit runs again
            running.max_bytes_in_unit = 0

    def _observe_result(self, running: ProcessState, unit: int, line: Result) -> None:
        if self._is_late(running, unit, line):
            running.late_units.add(unit)
        began_s = running.open_units.get(unit, running.start.at_s)
        if running.report(unit, line):
            running.note_finished(line.at_s)
        running.last_activity_at_s = max(running.last_activity_at_s, line.at_s or 0.0)
        running.wrote_lines = running.wrote_lines or line.outcome != "died"
        if line.outcome == "died":
            running.deaths[unit] = line
        if line.ending == "deadline":
            running.stopped_units.add(unit)
        elif line.outcome == "passed" and self.units[unit].change:
            known = unit in running.open_units and line.at_s is not None
            wall_s = (line.at_s or 0.0) - began_s if known else self.units[unit].wall_s
            running.passed_s[unit] = max(0.0, wall_s) if line.wall_s is None else line.wall_s
        elif line.outcome in BAD_OUTCOMES:
            running.failed_units.add(unit)
            running.failed_s[unit] = (began_s, line.at_s or 0.0)
        if line.rss_before_bytes and (line.at_s or 0.0) >= running.resident_at_s:
            running.resident_bytes = line.rss_before_bytes + (line.retained_bytes or 0)
            running.resident_at_s = line.at_s or 0.0

    def _is_late(self, running: ProcessState, unit: int, line: Result) -> bool:
        """Return whether a unit ended by itself after the decision to stop it for its timeout."""
        limit_s = self.timeout_s(unit)
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
        running.exit_s = max(0.0, (line.at_s or 0.0) - running.last_activity_at_s)
        if line.ending in MEMORY_ENDINGS:
            self.headrooms, self.memory_back_s = (), (line.at_s or 0.0) + MEMORY_BACK_S
        if not running.start.units:
            self.fruitless_processes += self.awaits_listing
            self.cannot_list = self.awaits_listing and line.ending == "completed"
            self.idle = None
            return
        if line.ending == "completed":
            running.close_partial()
        if self.extra.probed or self.extra.repeated:
            ended_s = line.at_s or 0.0
            self.reruns = self.extra.observe_end(running, ended_s, self.remaining_s(ended_s))
            return
        self._bisect(running, line.ending, file_found=bool(blamed))
        for unit in running.finished - running.stopped_units:
            self.tries[unit] = self.tries.get(unit, 0) + 1
            self.last_failures.pop(unit, None)
        for unit in running.finished & running.failed_units:
            self.failures[unit] = self.failures.get(unit, 0) + 1
            # A unit that ran out of memory runs alone in a rerun, if it fits.
            if unit not in running.deaths or running.deaths[unit].ending not in MEMORY_ENDINGS:
                self.last_failures[unit] = running
        was_cut_short = running.was_cut_short(line.ending)
        unfinished = running.unfinished_units()
        suite = self._suites[running.start.suite]
        for unit in running.passed_s.keys() & running.finished:
            repeated = repeated_unit(unit, running, suite, self.units, self.file_of)
            self.extra.repeatable[unit] = repeated
        self.import_crashed.update(blamed)
        pending = {*self.pending, *running.stopped_units, *(unfinished if was_cut_short else ())}
        pending -= self.import_crashed
        if was_cut_short and not running.has_started_unit():  # repeated units keep their results
            pending -= self._repeated(running)
        self.pending = sorted(pending)
        if not was_cut_short:
            # The leg does not read result files of the program, which may have the result.
            self.without_result.update(
                unit
                for unit in unfinished
                if not self._suites[self.units[unit].suite].results and unit not in self.tries
            )
        self._plan_reruns(running, line)

    def _observe_leg_end(self, line: EndLine) -> None:
        """Begin the extra tries of new failures, which have a separate deadline from now on."""
        can_repeat = line.ending == "completed" and self.policy.repeat_until_s is not None
        self.extra.repeatable = {
            unit: repeated
            for unit, repeated in sorted(self.extra.repeatable.items() if can_repeat else ())
            if unit not in self.failures and self._has_tries(unit)
        }
        if line.ending != "completed" or self.policy.probe_s is None:
            return
        spent_s = (line.at_s or 0.0) - self.began_s
        left_s = max(self.policy.probe_s, PROBE_RATIO * spent_s)
        limits_s = (self.policy.deadline_s, self.step_limit_s, spent_s + left_s)
        deadline_s = min(limit_s for limit_s in limits_s if limit_s is not None)
        self.policy = replace(self.policy, deadline_s=deadline_s)
        failures = []
        for unit, running in self.last_failures.items():
            if self._has_tries(unit) and not self.units[unit].fails_on_base:
                failed_again = bool(running.start.repeats) and self.failures[unit] > 1
                failures.append(NewFailure(unit, running, failed_again or None))
        self.extra.probed = with_time_for_probe(failures, deadline_s - spent_s)[:MAX_PROBED]
        self.reruns = [failure.probe for failure in self.extra.probed]

    def _has_tries(self, unit: int) -> bool:
        suite = self._suites[self.units[unit].suite]
        return not (suite.is_script or suite.results)

    def _begin_repeats(self, now_s: float) -> None:
        """Begin the repeats of new and changed units, with a separate deadline from now on."""
        repeat_s = (self.policy.repeat_until_s or 0.0) - STOP_S
        limits_s = (self._end_s, self.step_limit_s, repeat_s)
        deadline_s = min(limit_s for limit_s in limits_s if limit_s is not None)
        self.policy = replace(self.policy, deadline_s=deadline_s)
        self.reruns = self.extra.next_repeat(self.remaining_s(now_s))

    def _plan_reruns(self, running: ProcessState, line: ProcessEndLine) -> None:
        """Add the reruns of an ended process: single units alone, and the process again."""
        most = self.budget_bytes or self.memory_bytes
        base = self.base_bytes[running.start.suite]
        isolated = isolated_reruns(running, base, most, self.ran_isolated)
        isolated_units = frozenset(unit for rerun in isolated for unit in rerun.units)
        self.ran_isolated |= isolated_units
        repeat = process_rerun(running, isolated_units, self.failures, self.policy.max_tries)
        self.reruns += [*isolated, *([repeat] if repeat else [])]
        died_at_start = line.ending != "completed" and not running.has_started_unit()
        if died_at_start and self._repeated(running):
            start = running.start
            self.reruns.append(Rerun(start.units, start.reason, start.repeats, start.isolated))

    def _repeated(self, running: ProcessState) -> set[int]:
        """Return the units of a process if all of them ran before; otherwise an empty set."""
        units = set(running.start.units)
        return units if units <= self.tries.keys() else set()

    def _bisect(self, running: ProcessState, ending: Ending, *, file_found: bool) -> None:
        """Reduce the suspects after the end of a process without a known culprit.

        Args:
            file_found: a file was found that kills its process at import.
        """
        units = running.start.units
        searched = (len(units) > 1 or bool(self.file_of(units[0]))) and not self._repeated(running)
        silent = searched and died_unattributed(running, ending) and not file_found
        if running.finished and running.wrote_lines:
            self.fruitless_processes = self.crashing_files = 0
        elif file_found and self.tries:
            self.crashing_files += 1  # units of other files ran: more of the shard can run
        elif not silent and ending != "completed":  # a completed process leaves nothing to repeat
            self.fruitless_processes += 1
        is_culprit_known = file_found or bool(running.deaths)
        remaining = () if is_culprit_known else self.suspects
        suspects = running.unfinished_units() if silent else remaining
        self.suspects = tuple(unit for unit in suspects if unit not in running.finished)
        self.was_suspected.update(suspects if silent else ())
        self.was_suspected -= running.finished
        if silent:
            self.bisects_files = not running.has_started_unit()

    def apply(self, action: Action) -> None:
        """Update the state by a decision of `next_action` that the leg executes."""
        if isinstance(action, Start):
            taken = set(action.units)
            self.pending = [unit for unit in self.pending if unit not in taken]
            if self.reruns and self.reruns[0].starts(action):
                del self.reruns[0]
            self.running[action.process] = ProcessState(
                action,
                self._suites[action.suite].closes_units,
                longest_timeout_s=self._longest_s(action),
                last_activity_at_s=action.at_s,
            )
            for running in self.running.values():
                running.had_concurrent_process = len(self.running) > 1
            self.started = action.process
        elif isinstance(action, Assign):
            taken = set(action.start.units)
            self.pending = [unit for unit in self.pending if unit not in taken]
            running = self.running[action.start.process]
            running.start, running.last_activity_at_s = action.start, action.start.at_s
            running.longest_timeout_s = self._longest_s(action.start)
            running.done_s = None if action.start.units else action.start.at_s
            self.idle = None
        elif isinstance(action, Stop):
            self.running[action.process].stopping = action.ending
            self.running[action.process].stop_unit = action.unit
            self.running[action.process].at_checkpoint = action.checkpoint
            self.running[action.process].refuses_exit = action.reason.kind == "no_exit"
            if action.ending == "memory_guard":
                self.headrooms = ()  # the next kill needs two new samples
        elif isinstance(action, Recycle):
            self.running[action.process].recycled = True
        elif isinstance(action, Claim):
            self.claims.status = "asked"
        elif isinstance(action, Warn):
            self.warned.add(action.reason.kind)
            if action.reason.kind == "rerun_skipped":
                del self.reruns[0]

    def _longest_s(self, start: Start) -> float:
        timeouts_s = (self.units[unit].timeout_s for unit in start.units)
        return max((NO_TIME_S if s is None else s for s in timeouts_s), default=NO_TIME_S)

    def finish_for_simulation(self, process: int) -> None:
        """End a process of a simulation, as if it had finished all its units."""
        running = self.running[process]
        running.finished.update(running.start.units)
        running.wrote_lines = True
        self._observe_end(ProcessEndLine(process, "completed"))


def predicted_peak_bytes(state: State, units: Sequence[int]) -> int:
    """Return the predicted peak of one process that runs these units in order; 0 without units."""
    base_bytes = state.base_bytes[state.units[units[0]].suite] if units else 0
    return max(base_bytes, *unit_peaks_bytes(state, units), 0)


def unit_peaks_bytes(state: State, units: Sequence[int]) -> Iterator[int]:
    """Yield the predicted peak of one process during each unit: base + retained so far + delta.

    Negative retained memory counts as 0: in the measured run, the unit may have freed memory that
    its predecessor had allocated.
    """
    resident = state.base_bytes[state.units[units[0]].suite] if units else 0
    for unit in units:
        planned = state.units[unit]
        delta = planned.peak_delta_bytes
        yield resident + (UNKNOWN_DELTA_BYTES if delta is None else delta)
        resident += max(0, planned.retained_bytes or 0)


# open: the leg may ask for a block; asked: it waits for an answer; over: it asks no more.
ClaimStatus = Literal["open", "asked", "over"]


@dataclass
class BlockClaims:
    """State of all blocks for one leg.

    Attributes:
        held: own blocks that the leg does not run yet; name -> positions of the units.
        others: blocks of other legs that this leg may get; name -> units.
        moved: own blocks that another leg runs; name -> positions of the units.
        claimed: names of the blocks that this leg got, in this order.
    """

    held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, tuple[PlannedUnit, ...]] = field(default_factory=dict)
    moved: dict[str, tuple[int, ...]] = field(default_factory=dict)
    claimed: list[str] = field(default_factory=list)
    status: ClaimStatus = "over"

    def observe(self, line: EventLine) -> tuple[int, ...] | None:
        """Update the state by a line about blocks.

        Returns:
            Positions of own units that the leg runs from now on; None for a block of another leg,
            whose units are not in the shard yet.
        """
        block = line.block or ""
        if line.kind == "claims_ended":
            self.status = "over"
            freed = sorted(unit for units in self.held.values() for unit in units)
            self.held.clear()
            return tuple(freed)
        if line.kind == "taken":
            if block in self.held:
                self.moved[block] = self.held.pop(block)
            return ()
        if line.kind != "claimed":
            return ()
        if self.status == "asked":
            self.status = "open"
        if block in self.claimed:
            return ()
        self.claimed.append(block)
        own = self.held.pop(block, None) or self.moved.pop(block, None)
        return None if own is None and block in self.others else own or ()

    @property
    def moved_units(self) -> frozenset[int]:
        """Positions of own units that another leg runs."""
        return frozenset(unit for units in self.moved.values() for unit in units)


def claims_of(shard: Shard, others: Mapping[str, tuple[PlannedUnit, ...]]) -> BlockClaims:
    """Return the state of blocks at a leg's start; `others` are blocks that it may run."""
    held, begin = {}, shard.own_count
    for name, units in shard.units_by_block().items():
        held[name] = tuple(range(begin, begin + len(units)))
        begin += len(units)
    return BlockClaims(held, others, status="open" if held or others else "over")
