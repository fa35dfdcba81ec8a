"""Earlier legs of a shard (steps of this job, or earlier attempts): their lines and finished units.

A unit is finished if its result is conclusive (`model/attempts.py`) and no further case of it can
follow (`policy/process_state.py`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import AbstractSet, Final, Hashable, Iterator, Mapping, Sequence, Union

from ciguard.codec.record.lines import LineError, decode, encode
from ciguard.errors import InputError
from ciguard.model import (
    BAD_OUTCOMES,
    SLOTS,
    DefaultsLine,
    EndLine,
    EventLine,
    Line,
    MetricLine,
    PeakLine,
    PlannedUnit,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    Shard,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.model.attempts import resolve_attempts
from ciguard.model.listings import LISTING_EVENT_KINDS
from ciguard.model.probes import split_probes
from ciguard.run.policy.process_state import UnitProgress

StoredLine = Union[StartLine, Result, PeakLine, ProcessLine, ProcessEndLine, EventLine, MetricLine]
PRIOR_LEGS_FILE: Final = "earlier.jsonl"
# Kinds of events that are valid only for their own step, and are not carried on.
STEP_EVENT_KINDS: Final = (
    *("resumed", "grace_used", "not_run", "failed_previously"),
    *LISTING_EVENT_KINDS,
)


@dataclass(frozen=True, **SLOTS)
class PriorLeg:
    """One earlier leg: its shard line and its lines by file, from a folder."""

    header: ShardLine
    files: Mapping[str, Sequence[Line]]
    folder: str = ""


@dataclass(frozen=True, **SLOTS)
class PriorFile:
    """A file of results or coverage in an old record; its process gets the number `new_process`."""

    folder: str
    kind: str  # of its event
    process: int
    new_process: int
    name: str


@dataclass(frozen=True, **SLOTS)
class PriorLegs:
    """All earlier legs of a shard, merged into one.

    Attributes:
        lines: lines of all legs, each once; no two legs share a process number.
        finished: units that need not run again.
        failed: units that run again, because they failed and have tries left; with each process in
            which they failed.
        processes: highest number of a process.
        wall_s: time of all legs; the clock of the next leg continues from here.
        began_s: start of the first leg on that clock: above 0 if it resumed other legs.
        copies: files that belong to the lines.
    """

    legs: int = 0
    lines: tuple[StoredLine, ...] = ()
    finished: frozenset[UnitKey] = frozenset()
    failed: tuple[tuple[UnitKey, int], ...] = ()
    processes: int = 0
    wall_s: float = 0.0
    began_s: float = 0.0
    copies: tuple[PriorFile, ...] = ()

    @property
    def ended(self) -> frozenset[UnitKey]:
        """The units with a result that counts, at least until they run again."""
        return self.finished | {key for key, _ in self.failed}

    def results(self, *, ended: bool = True) -> tuple[Result, ...]:
        """Return the results of units that ended, or of units that did not."""
        units = self.ended
        results = (line for line in self.lines if isinstance(line, Result))
        return tuple(result for result in results if (result.unit_key in units) == ended)


NO_PRIOR_LEGS: Final = PriorLegs()


def merge_legs(
    legs: Sequence[PriorLeg], tries: int = 1, closing_suites: AbstractSet[str] = frozenset()
) -> PriorLegs:
    """Merge legs into one. A leg that resumed another one repeats its lines, which count once.

    Args:
        tries: executions that the plan gives a unit that fails.
        closing_suites: suites whose programs report the end of each unit.
    """
    seen: set[Hashable] = set()
    files: list[list[StoredLine]] = []
    copies: list[PriorFile] = []
    highest, wall_s = 0, 0.0
    for leg in sorted(legs, key=_order):
        new_files = [
            [
                line
                for line in map(_stored_line, lines)
                if line is not None and _identity(line) not in seen
            ]
            for lines in leg.files.values()
        ]
        for lines in leg.files.values():
            wall_s = max([wall_s, *(getattr(line, "at_s", None) or 0.0 for line in lines)])
        new_lines = [line for lines in new_files for line in lines]
        seen.update(map(_identity, new_lines))
        numbers = [number for number in map(_number, new_lines) if number]
        # A leg that resumed no other one counted its processes from 1 again.
        shift = highest if numbers and min(numbers) <= highest else 0
        files += [[_renumbered(line, shift) for line in lines] for lines in new_files]
        copies += [
            PriorFile(leg.folder, line.kind, line.process, line.process + shift, line.detail)
            for line in new_lines
            if isinstance(line, EventLine)
            and line.process
            and (line.kind == "result_file" or line.reason == "collected")
        ]
        highest = max([highest, *(number + shift for number in numbers)])
    own_files, _ = split_probes(files)
    lines_in_order = tuple(line for lines in own_files for line in lines)
    began_s = min(map(_began_s, legs), default=0.0)
    finished = finished_units(own_files, closing_suites)
    results = [line for line in lines_in_order if isinstance(line, Result)]
    failed = failed_with_tries_left(results, finished, tries)
    return PriorLegs(
        legs=len(legs),
        lines=lines_in_order,
        finished=finished - failed.keys(),
        failed=tuple((key, process) for key in sorted(failed) for process in failed[key]),
        processes=highest,
        wall_s=wall_s,
        began_s=began_s,
        copies=tuple(copies),
    )


def failed_with_tries_left(
    results: Sequence[Result], finished: AbstractSet[UnitKey], tries: int
) -> dict[UnitKey, tuple[int, ...]]:
    """Return the units whose last execution failed and that have tries left, with processes."""
    if tries <= 1:
        return {}
    failed: dict[UnitKey, set[int]] = {}
    last: dict[UnitKey, int] = {}
    for result in results:
        key, process = result.unit_key, result.process or 0
        last[key] = max(process, last.get(key, 0))
        if result.outcome in BAD_OUTCOMES and result.is_failure:
            failed.setdefault(key, set()).add(process)
    return {
        key: tuple(sorted(processes))
        for key, processes in failed.items()
        if key in finished and last[key] in processes and len(processes) < tries
    }


def _began_s(leg: PriorLeg) -> float:
    lines = (line for lines in leg.files.values() for line in lines)
    resumed = (line for line in lines if isinstance(line, EventLine) and line.kind == "resumed")
    return next((line.at_s or 0.0 for line in resumed), 0.0)


def last_attempt_ended(legs: Sequence[PriorLeg]) -> bool:
    """Return whether the newest attempt ended by itself."""
    newest = max((leg.header.run_attempt or 0 for leg in legs), default=0)
    return any(
        isinstance(line, EndLine) and line.ending == "completed"
        for leg in legs
        if (leg.header.run_attempt or 0) == newest
        for lines in leg.files.values()
        for line in lines
    )


def _order(leg: PriorLeg) -> tuple[int, str]:
    return leg.header.run_attempt or 0, leg.header.started_at or ""


def _stored_line(line: Line) -> StoredLine | None:
    """Return the line without references to files that are not kept; None for a line of a step."""
    if isinstance(line, (ShardLine, DefaultsLine, SampleLine, EndLine)):
        return None
    if isinstance(line, EventLine) and line.kind in STEP_EVENT_KINDS:
        return None
    if isinstance(line, (ProcessLine, EventLine)) and line.lines_read:
        return replace(line, lines_read={})
    return line


def _number(line: StoredLine) -> int:
    return 0 if isinstance(line, MetricLine) else line.process or 0


def _renumbered(line: StoredLine, shift: int) -> StoredLine:
    if isinstance(line, MetricLine) or not line.process or not shift:
        return line
    return replace(line, process=line.process + shift)


def _identity(line: StoredLine) -> Hashable:
    """Return a key that identifies a line in all records, without the number of its process."""
    if isinstance(line, StartLine):
        return line.suite, line.variant, line.unit, line.at_s
    if isinstance(line, Result):
        return line.key, line.outcome, line.try_number, line.at_s, line.wall_s
    return encode(line if isinstance(line, MetricLine) else replace(line, process=0))


def finished_units(
    files: Sequence[Sequence[Line]], closing_suites: AbstractSet[str] = frozenset()
) -> frozenset[UnitKey]:
    """Return the finished units: over in their last process, with a conclusive result.

    Args:
        files: lines in the order in which they were written to each file, with suite, variant and
            process in them.
        closing_suites: suites whose programs report the end of each unit.
    """
    last_process: dict[UnitKey, int] = {}
    in_files: set[tuple[int, UnitKey]] = set()
    over: set[tuple[int, UnitKey]] = set()
    completed: set[int] = set()
    results: dict[UnitKey, list[Result]] = {}
    for lines in files:
        progress: dict[int, UnitProgress[UnitKey]] = {}  # by process
        for line in lines:
            if isinstance(line, ProcessEndLine) and line.ending == "completed":
                completed.add(line.process)
            if not isinstance(line, (StartLine, Result, EventLine)):
                continue
            key, process = line.unit_key, line.process or 0
            closes = line.suite in closing_suites
            if isinstance(line, EventLine) and line.kind == "closed" and closes:
                progress.setdefault(process, UnitProgress(closes_units=True)).close(key)
            if isinstance(line, EventLine) and line.kind != "in_files":
                continue
            last_process[key] = max(process, last_process.get(key, 0))
            if isinstance(line, EventLine):
                in_files.add((process, key))
                continue
            units = progress.setdefault(process, UnitProgress(closes_units=closes))
            if isinstance(line, Result):
                results.setdefault(key, []).append(line)
                units.report(key, line)
            elif not line.received:  # a received start is the leg's own line, not the program's
                units.begin(key, line.at_s or 0.0)
        over.update((process, key) for process, units in progress.items() for key in units.finished)
    closed = (
        key
        for key in results
        if (last_process[key], key) in over
        or (last_process[key] in completed and key.suite not in closing_suites)
    )
    conclusive = (
        key for key in closed if resolve_attempts(results[key], last_process[key]).is_over
    )
    filed = (key for process, key in in_files if process == last_process[key])
    return frozenset({*conclusive, *filed})


def read_prior_legs(
    folders: Sequence[str],
    head: ShardLine,
    *,
    continues_attempt: bool,
    unless_ended: bool = False,
    tries: int = 1,
    closing_suites: AbstractSet[str] = frozenset(),
) -> tuple[PriorLegs, ShardLine]:
    """Read the earlier legs of a shard below some folders; return them and the next shard line.

    Legs of the same run attempt share their shard line: they are the steps of one leg.

    Args:
        head: shard line of the leg that is to run.
        continues_attempt: only earlier steps of this attempt count, and there must be one.
        unless_ended: earlier attempts do not count if the last of them ended by itself.
        tries: executions that the plan gives a unit that fails.
        closing_suites: suites whose programs report the end of each unit.

    Raises:
        InputError: a record is of another plan, run or commit, or cannot be read; or there is no
            earlier step, although `continues_attempt`.
    """
    legs = [leg for folder in folders for leg in _read_legs(folder, head)]
    same = [leg for leg in legs if leg.header.run_attempt == head.run_attempt]
    if continues_attempt and not same:
        what = f"no record of shard {head.shard} of this attempt"
        fix = "pass the --record folder of the earlier step"
        raise InputError(what, where=", ".join(folders), fix=fix)
    only_same = continues_attempt or (unless_ended and last_attempt_ended(legs))
    prior = merge_legs(same if only_same else legs, tries, closing_suites)
    headers = [leg.header for leg in same if leg.header.run_id == head.run_id]
    known = [header for header in headers if header.started_at]
    return prior, (known[-1] if known else head)


def with_claimed_units(
    shard: Shard, prior: PriorLegs, others: Mapping[str, tuple[PlannedUnit, ...]]
) -> Shard:
    """Return the shard with the blocks of other shards that its earlier legs claimed.

    Args:
        others: blocks of other shards, by name.
    """
    lines = (line for line in prior.lines if isinstance(line, EventLine))
    blocks = dict.fromkeys(line.block or "" for line in lines if line.kind == "claimed")
    claimed = (unit for block in blocks for unit in others.get(block, ()))
    return replace(shard, units=(*shard.units, *claimed))


def write_prior_legs(prior: PriorLegs, head: ShardLine, folder: str) -> None:
    """Write the lines of the earlier legs into the new record, which is then complete by itself.

    Raises:
        InputError: the file cannot be written.
    """
    path = os.path.join(folder, PRIOR_LEGS_FILE)
    owner = DefaultsLine(head.plan_id, head.shard, head.run_id, head.run_attempt)
    try:
        with open(path, "wb") as stream:
            stream.writelines(encode(line) for line in (owner, *prior.lines))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=path, fix="free some space for the record") from error


def _read_legs(root: str, head: ShardLine) -> Iterator[PriorLeg]:
    """Yield the legs of this shard below a folder; each record has a folder for itself.

    Raises:
        InputError: a record is of another plan, run or commit, or cannot be read; or a folder has
            files of several records.
    """
    for folder, subfolders, names in os.walk(root):
        subfolders.sort()
        files = {}
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(".jsonl") and not os.path.islink(path):
                files[path] = _lines(path)
        owners = [
            (line, path)
            for path, lines in files.items()
            for line in lines
            if isinstance(line, (ShardLine, DefaultsLine))
        ]
        for line, path in owners:
            _check(line, head, path)
        if len({(line.shard, line.run_attempt) for line, _ in owners}) > 1:
            fix = "download each artifact into a separate folder"
            raise InputError("has files of several records", where=folder, fix=fix)
        if owners and owners[0][0].shard == head.shard:
            yield PriorLeg(_header([line for line, _ in owners]), files, folder)


def _lines(path: str) -> list[Line]:
    """Return the lines of a file that can be read: its leg may have been killed at any byte."""
    readable: list[Line] = []
    defaults = DefaultsLine()
    try:
        with open(path, "rb") as stream:
            for content in stream:
                try:
                    line = decode(content.rstrip(b"\n"), defaults)
                except LineError:
                    continue
                if isinstance(line, (ShardLine, DefaultsLine)):
                    defaults = line if isinstance(line, DefaultsLine) else DefaultsLine()
                if line is not None:
                    readable.append(line)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error
    return readable


def _header(owners: Sequence[ShardLine | DefaultsLine]) -> ShardLine:
    """Return the shard line of a record; if it is lost, one from the first line of a process."""
    for line in owners:
        if isinstance(line, ShardLine):
            return line
    line = owners[0]
    return ShardLine(line.plan_id, line.shard, run_id=line.run_id, run_attempt=line.run_attempt)


def _check(line: ShardLine | DefaultsLine, head: ShardLine, path: str) -> None:
    """Refuse a record of another plan, run or commit.

    Raises:
        InputError: names both values.
    """
    pairs: list[tuple[str, object, object]] = [("plan", line.plan_id, head.plan_id)]
    if line.run_id and head.run_id:
        pairs.append(("run", line.run_id, head.run_id))
    if isinstance(line, ShardLine) and line.tested_sha and head.tested_sha:
        pairs.append(("commit", line.tested_sha, head.tested_sha))
    for word, actual, expected in pairs:
        if actual != expected:
            fix = "pass a folder with records of this plan's run only"
            raise InputError(
                f"is of {word} {actual or 'none'}, not {expected}", where=path, fix=fix
            )
