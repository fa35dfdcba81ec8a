"""What legs left that began a shard before: which units ended, and what is kept of their lines.

A unit is over when it is not unfinished (`model/attempts.py`) and no further case of it can follow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import (
    TYPE_CHECKING,
    AbstractSet,
    Final,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
    Union,
)

from ciguard.codec.record.lines import LineError, decode, encode
from ciguard.errors import InputError
from ciguard.model import (
    BAD_OUTCOMES,
    SLOTS,
    DefaultsLine,
    EndLine,
    EventLine,
    MetricLine,
    PeakLine,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.model.attempts import resolve_attempts
from ciguard.model.listings import LISTING_EVENT_KINDS
from ciguard.run.policy.process_state import UnitProgress

if TYPE_CHECKING:
    from typing import Dict, FrozenSet, List, Set, Tuple

    from ciguard.model import Line, PlannedUnit, Shard

StoredLine = Union[StartLine, Result, PeakLine, ProcessLine, ProcessEndLine, EventLine, MetricLine]
PRIOR_LEGS_FILE: Final = "earlier.jsonl"
# Kinds of events that end with it: the next one lists again.
STEP_EVENT_KINDS: Final = (
    *("resumed", "grace_used", "not_run", "failed_previously"),
    *LISTING_EVENT_KINDS,
)


@dataclass(frozen=True, **SLOTS)
class PriorLeg:
    """What one leg left in a folder: its shard line, if that is there, and by file its lines."""

    header: ShardLine
    files: Mapping[str, Sequence[Line]]
    folder: str = ""


@dataclass(frozen=True, **SLOTS)
class PriorResultFile:
    """A result file in an old record's folder; its process is another number `now`."""

    folder: str
    process: int
    now: int
    name: str


@dataclass(frozen=True, **SLOTS)
class PriorLegs:
    """What the earlier legs of a shard come to, as one.

    Attributes:
        lines: of all of them, each once; no two legs share a process number.
        finished: units that need not run again.
        failed: units that run again, as they failed and have tries left; with each process in
            which they did.
        processes: the highest number of a process.
        wall_s: how long they lived: the clock of the next leg goes on from here.
        copies: result files that belong to the lines.
        began_s: when the first of them began, on that clock: above 0 where it went on from others.
    """

    legs: int = 0
    lines: tuple[StoredLine, ...] = ()
    finished: FrozenSet[UnitKey] = frozenset()
    failed: tuple[tuple[UnitKey, int], ...] = ()
    processes: int = 0
    wall_s: float = 0.0
    began_s: float = 0.0
    copies: tuple[PriorResultFile, ...] = ()

    @property
    def ended(self) -> FrozenSet[UnitKey]:
        """The units with a result that counts, if only until they run again."""
        return self.finished | {key for key, _ in self.failed}

    def results(self) -> tuple[Result, ...]:
        """Return the results of units that ended."""
        ended = self.ended
        return tuple(result for result in self._results() if result.key.unit_key in ended)

    def results_to_supersede(self) -> tuple[Result, ...]:
        """Return the results of units that did not end."""
        ended = self.ended
        return tuple(result for result in self._results() if result.key.unit_key not in ended)

    def _results(self) -> Iterator[Result]:
        return (line for line in self.lines if isinstance(line, Result))


NO_PRIOR_LEGS: Final = PriorLegs()


def merge_legs(
    legs: Sequence[PriorLeg], tries: int = 1, closing: AbstractSet[str] = frozenset()
) -> PriorLegs:
    """All legs as one; a leg that went on from another has that one's lines too, once here.

    Args:
        tries: executions that the plan gives a unit that fails.
        closing: suites whose programs say when a unit is over.
    """
    seen: Set[Hashable] = set()
    files: List[List[StoredLine]] = []
    copies: List[PriorResultFile] = []
    highest, wall_s = 0, 0.0
    for leg in sorted(legs, key=_order):
        new = [
            [
                one
                for one in map(_stored_line, lines)
                if one is not None and _identity(one) not in seen
            ]
            for lines in leg.files.values()
        ]
        for lines in leg.files.values():
            wall_s = max([wall_s, *(getattr(line, "at_s", None) or 0.0 for line in lines)])
        seen.update(_identity(one) for new_lines in new for one in new_lines)
        numbers = [_number(one) for new_lines in new for one in new_lines if _number(one)]
        # A leg that began anew counted its processes from 1 again.
        shift = highest if numbers and min(numbers) <= highest else 0
        files += [[_renumbered(one, shift) for one in new_lines] for new_lines in new]
        copies += [
            PriorResultFile(leg.folder, one.process, one.process + shift, one.detail)
            for new_lines in new
            for one in new_lines
            if isinstance(one, EventLine) and one.kind == "result_file" and one.process
        ]
        highest = max([highest, *(number + shift for number in numbers)])
    lines_in_order = tuple(one for new_lines in files for one in new_lines)
    began_s = min(map(_began_s, legs), default=0.0)
    finished = finished_units(files, closing)
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
    """Of units that failed last, and less often than they may: the processes in which they did."""
    if tries <= 1:
        return {}
    failed: Dict[UnitKey, Set[int]] = {}
    last: Dict[UnitKey, int] = {}
    for result in results:
        key, process = result.key.unit_key, result.process or 0
        last[key] = max(process, last.get(key, 0))
        if result.outcome in BAD_OUTCOMES and result.is_failure:
            failed.setdefault(key, set()).add(process)
    return {
        key: tuple(sorted(found))
        for key, found in failed.items()
        if key in finished and last[key] in found and len(found) < tries
    }


def _began_s(leg: PriorLeg) -> float:
    lines = (line for lines in leg.files.values() for line in lines)
    resumed = (one for one in lines if isinstance(one, EventLine) and one.kind == "resumed")
    return next((one.at_s or 0.0 for one in resumed), 0.0)


def last_one_ended(legs: Sequence[PriorLeg]) -> bool:
    """Whether the newest attempt ended by itself: then whoever runs it again means all of it."""
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
    """The line without what refers to files that do not come along; None for what is not kept."""
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
    """What tells a line from all others whatever number its process got; times have six digits."""
    if isinstance(line, StartLine):
        return line.suite, line.variant, line.unit, line.at_s
    if isinstance(line, Result):
        return line.key, line.outcome, line.try_number, line.at_s, line.wall_s
    return encode(line if isinstance(line, MetricLine) else replace(line, process=0))


def finished_units(
    files: Sequence[Sequence[Line]], closing: AbstractSet[str] = frozenset()
) -> FrozenSet[UnitKey]:
    """The units that are over.

    Args:
        closing: suites whose programs say when a unit is over.
        files: lines in the order in which they were written to each file, with suite, variant and
            process in them.
    """
    last: Dict[UnitKey, int] = {}
    in_files: Set[Tuple[int, UnitKey]] = set()
    over: Set[Tuple[int, UnitKey]] = set()
    completed: Set[int] = set()
    results: Dict[UnitKey, List[Result]] = {}
    for lines in files:
        progress: Dict[int, UnitProgress[UnitKey]] = {}
        for line in lines:
            if isinstance(line, ProcessEndLine) and line.ending == "completed":
                completed.add(line.process)
            if isinstance(line, EventLine) and line.kind == "in_files":
                key, process = UnitKey(line.suite, line.variant, line.unit or ""), line.process or 0
                last[key] = max(process, last.get(key, 0))
                in_files.add((process, key))
            if isinstance(line, EventLine) and line.kind == "closed" and line.suite in closing:
                key, process = UnitKey(line.suite, line.variant, line.unit or ""), line.process or 0
                progress.setdefault(process, UnitProgress(closes=True)).close(key)
            if not isinstance(line, (StartLine, Result)):
                continue
            key, process = UnitKey(line.suite, line.variant, line.unit), line.process or 0
            last[key] = max(process, last.get(key, 0))
            one = progress.setdefault(process, UnitProgress(closes=line.suite in closing))
            if isinstance(line, Result):
                results.setdefault(key, []).append(line)
                one.report(key, line)
            elif not line.received:  # the leg's own word, apart from the program's lines
                one.begin(key, line.at_s or 0.0)
        over.update((process, key) for process, one in progress.items() for key in one.finished)
    closed = (
        key
        for key in results
        if (last[key], key) in over or (last[key] in completed and key.suite not in closing)
    )
    conclusive = (key for key in closed if resolve_attempts(results[key], last[key]).is_over)
    return frozenset({*conclusive, *(key for process, key in in_files if process == last[key])})


def read_prior_legs(
    folders: Sequence[str],
    head: ShardLine,
    *,
    continues_attempt: bool,
    unless_ended: bool = False,
    tries: int = 1,
    closing: AbstractSet[str] = frozenset(),
) -> tuple[PriorLegs, ShardLine]:
    """What earlier legs of this shard left below some folders, and the shard line of the next.

    A leg of the same run and attempt goes on under the same shard line: it is one leg, in parts.

    Args:
        head: the shard line of the leg that is to run.
        continues_attempt: there has to be such a part.
        unless_ended: nothing is taken from earlier attempts of which the last ended by itself.
        tries, closing: as of `merge_legs`.

    Raises:
        InputError: a record is of another plan, run or commit, or cannot be read; or
            `continues_attempt`, and nothing is there.
    """
    legs = [leg for folder in folders for leg in _read_legs(folder, head)]
    same = [leg for leg in legs if leg.header.run_attempt == head.run_attempt]
    if continues_attempt and not same:
        what = f"no record of shard {head.shard} of this attempt"
        fix = "pass the --record folder of the earlier step"
        raise InputError(what, where=", ".join(folders), fix=fix)
    taken = same if continues_attempt or (unless_ended and last_one_ended(legs)) else legs
    found = merge_legs(taken, tries, closing)
    ours = [leg.header for leg in same if leg.header.run_id == head.run_id]
    known = [header for header in ours if header.started_at]
    return found, (known[-1] if known else head)


def with_claimed_units(
    shard: Shard, prior: PriorLegs, others: Mapping[str, tuple[PlannedUnit, ...]]
) -> Shard:
    """The shard with the units of other shards that earlier legs of it claimed: it alone runs them.

    Args:
        others: blocks of other shards, by name.
    """
    lines = (line for line in prior.lines if isinstance(line, EventLine))
    blocks = dict.fromkeys(line.block or "" for line in lines if line.kind == "claimed")
    claimed = (unit for block in blocks for unit in others.get(block, ()))
    return replace(shard, units=(*shard.units, *claimed))


def write_prior_legs(prior: PriorLegs, head: ShardLine, folder: str) -> None:
    """Lay all that is kept of them into the new record: it is whole without the old ones.

    Raises:
        InputError: it cannot be written.
    """
    place = os.path.join(folder, PRIOR_LEGS_FILE)
    owner = DefaultsLine(head.plan_id, head.shard, head.run_id, head.run_attempt)
    try:
        with open(place, "wb") as stream:
            stream.writelines(encode(line) for line in (owner, *prior.lines))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        what = f"cannot be written: {error.strerror or error}"
        raise InputError(what, where=place, fix="free some space for the record") from error


def _read_legs(folder: str, head: ShardLine) -> Iterator[PriorLeg]:
    """The legs of this shard below a folder; a record's files lie in one folder, and no others.

    Raises:
        InputError: as of `read_prior_legs`; or a folder has files of several records.
    """
    for place, folders, names in os.walk(folder):
        folders.sort()
        files = {}
        for name in sorted(names):
            path = os.path.join(place, name)
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
            fix = "download each artifact into a folder of its own"
            raise InputError("has files of several records", where=place, fix=fix)
        if owners and owners[0][0].shard == head.shard:
            yield PriorLeg(_header([line for line, _ in owners]), files, place)


def _lines(path: str) -> List[Line]:
    """What of a file can be read: its leg may have been killed at any byte."""
    found: List[Line] = []
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
                    found.append(line)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error
    return found


def _header(owners: Sequence[Union[ShardLine, DefaultsLine]]) -> ShardLine:
    """The shard line of a record; where that is lost, what its other files say."""
    for line in owners:
        if isinstance(line, ShardLine):
            return line
    line = owners[0]
    return ShardLine(line.plan_id, line.shard, run_id=line.run_id, run_attempt=line.run_attempt)


def _check(line: Union[ShardLine, DefaultsLine], head: ShardLine, path: str) -> None:
    """Refuse what is not of this plan, run and commit.

    Raises:
        InputError: naming both.
    """
    theirs: List[Tuple[str, object, object]] = [("plan", line.plan_id, head.plan_id)]
    if line.run_id and head.run_id:
        theirs.append(("run", line.run_id, head.run_id))
    if isinstance(line, ShardLine) and line.tested_sha and head.tested_sha:
        theirs.append(("commit", line.tested_sha, head.tested_sha))
    for word, their, our in theirs:
        if their != our:
            fix = "pass a folder with records of this plan's run only"
            raise InputError(f"is of {word} {their or 'none'}, not {our}", where=path, fix=fix)
