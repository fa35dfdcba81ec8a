"""Which units ended in legs of a shard that went before, and what is kept of their lines. Pure.

A unit is over when it is not unfinished (`model/attempts.py`) and no further case of it can follow.
"""

from __future__ import annotations

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

from ciguard.codec.record import encode
from ciguard.model import (
    BAD_OUTCOMES,
    SLOTS,
    EndLine,
    EventLine,
    MetricLine,
    PeakLine,
    ProcessEndLine,
    ProcessLine,
    Result,
    ShardLine,
    StartLine,
    UnitKey,
)
from ciguard.model.attempts import resolve_attempts
from ciguard.run.wording import counted, short_name

if TYPE_CHECKING:
    from typing import Dict, FrozenSet, List, Set, Tuple

    from ciguard.model import Line

Kept = Union[StartLine, Result, PeakLine, ProcessLine, ProcessEndLine, EventLine, MetricLine]
KEPT: Final = (StartLine, Result, PeakLine, ProcessLine, ProcessEndLine, EventLine, MetricLine)
NAMED: Final = 3  # units in a sentence
FAILED_BEFORE: Final = "failed_before"
# Kinds of events that end with it.
OF_ONE_STEP: Final = ("resumed", "patient", "not_run", FAILED_BEFORE)


@dataclass(frozen=True, **SLOTS)
class OldLeg:
    """What one leg left in a folder: its shard line, if that is there, and by file its lines."""

    header: ShardLine
    files: Mapping[str, Sequence[Line]]
    folder: str = ""


@dataclass(frozen=True, **SLOTS)
class Copy:
    """A result file in an old record's folder; its process is another number `now`."""

    folder: str
    process: int
    now: int
    name: str


@dataclass(frozen=True, **SLOTS)
class Earlier:
    """What the earlier legs of a shard come to, as one.

    Attributes:
        lines: of all of them, each once; no two legs share a process number.
        ended: units that need not run again.
        again: units with a result that do: those that failed and have tries left, and what ran
            before them in their process.
        failed: of those that failed, each process in which they did.
        processes: the highest number of a process.
        wall_s: how long they lived: the clock of the next leg goes on from here.
        copies: result files that belong to the lines.
        began_s: when the first of them began, on that clock: above 0 where it went on from others.
    """

    legs: int = 0
    lines: tuple[Kept, ...] = ()
    ended: FrozenSet[UnitKey] = frozenset()
    again: FrozenSet[UnitKey] = frozenset()
    failed: tuple[tuple[UnitKey, int], ...] = ()
    processes: int = 0
    wall_s: float = 0.0
    began_s: float = 0.0
    copies: tuple[Copy, ...] = ()

    def results(self) -> tuple[Result, ...]:
        """Those of units that ended, or have a result that counts until they run again."""
        return tuple(result for result in self._results() if self._counts(result))

    def results_to_supersede(self) -> tuple[Result, ...]:
        """Those of units that have to run again."""
        return tuple(result for result in self._results() if not self._counts(result))

    def _results(self) -> Iterator[Result]:
        return (line for line in self.lines if isinstance(line, Result))

    def _counts(self, result: Result) -> bool:
        return result.key.unit_key in self.ended or result.key.unit_key in self.again


NOTHING: Final = Earlier()


def joined(legs: Sequence[OldLeg], tries: int = 1) -> Earlier:
    """All legs as one; a leg that went on from another has that one's lines too, once here.

    Args:
        tries: executions that the plan gives a unit that fails.
    """
    taken: Set[Hashable] = set()
    files: List[List[Kept]] = []
    copies: List[Copy] = []
    highest, wall_s = 0, 0.0
    for leg in sorted(legs, key=_order):
        new = [
            [one for one in map(_kept, lines) if one is not None and _fact(one) not in taken]
            for lines in leg.files.values()
        ]
        for lines in leg.files.values():
            wall_s = max([wall_s, *(getattr(line, "at_s", None) or 0.0 for line in lines)])
        taken.update(_fact(one) for kept in new for one in kept)
        numbers = [_number(one) for kept in new for one in kept if _number(one)]
        # A leg that began anew counted its processes from 1 again.
        shift = highest if numbers and min(numbers) <= highest else 0
        files += [[_shifted(one, shift) for one in kept] for kept in new]
        copies += [
            Copy(leg.folder, one.process, one.process + shift, one.detail)
            for kept in new
            for one in kept
            if isinstance(one, EventLine) and one.kind == "result_file" and one.process
        ]
        highest = max([highest, *(number + shift for number in numbers)])
    together = tuple(one for kept in files for one in kept)
    began_s = min(map(_began_s, legs), default=0.0)
    over = ended(files)
    results = [line for line in together if isinstance(line, Result)]
    failed = with_tries_left(results, over, tries)
    again = company(results, over, failed)
    return Earlier(
        legs=len(legs),
        lines=together,
        ended=over - again,
        again=again,
        failed=tuple((key, process) for key in sorted(failed) for process in failed[key]),
        processes=highest,
        wall_s=wall_s,
        began_s=began_s,
        copies=tuple(copies),
    )


def with_tries_left(
    results: Sequence[Result], over: AbstractSet[UnitKey], tries: int
) -> dict[UnitKey, tuple[int, ...]]:
    """Of units that failed last, and less often than they may: the processes in which they did."""
    if tries <= 1:
        return {}
    failed: Dict[UnitKey, Set[int]] = {}
    last: Dict[UnitKey, int] = {}
    for result in results:
        key, process = result.key.unit_key, result.process or 0
        last[key] = max(process, last.get(key, 0))
        if result.outcome in BAD_OUTCOMES and result.went_wrong:
            failed.setdefault(key, set()).add(process)
    return {
        key: tuple(sorted(found))
        for key, found in failed.items()
        if key in over and last[key] in found and len(found) < tries
    }


def company(
    results: Sequence[Result],
    over: AbstractSet[UnitKey],
    failed: Mapping[UnitKey, Sequence[int]],
) -> FrozenSet[UnitKey]:
    """The units that failed, with all that ran before them in their last process.

    By itself one would pass wherever another unit's leftovers made it fail.
    """
    until: Dict[int, float] = {}
    for result in results:
        key, process = result.key.unit_key, result.process or 0
        if key in failed and failed[key][-1] == process:
            until[process] = max(result.at_s or 0.0, until.get(process, 0.0))
    before = {
        result.key.unit_key
        for result in results
        if (result.at_s or 0.0) <= until.get(result.process or 0, -1.0)
    }
    return frozenset((before & over) | failed.keys())


def runs_again(earlier: Earlier) -> str:
    """Which units with a result run again, and why; "" for none. The rest of a sentence."""
    failed = sorted({key for key, _ in earlier.failed})
    if not failed:
        return ""
    names = ", ".join(map(short_name, failed[:NAMED]))
    more = f" and {len(failed) - NAMED} more" if len(failed) > NAMED else ""
    one = len(failed) == 1
    said = f"{counted(len(failed), 'failed unit')} with tries left run{'s' * one} again"
    beside = len(earlier.again) - len(failed)
    before = f", after the {beside} that ran before {'it' if one else 'them'} in the same process"
    return f"; {said}{before if beside else ''}: {names}{more}"


def _began_s(leg: OldLeg) -> float:
    lines = (line for lines in leg.files.values() for line in lines)
    resumed = (one for one in lines if isinstance(one, EventLine) and one.kind == "resumed")
    return next((one.at_s or 0.0 for one in resumed), 0.0)


def last_one_ended(legs: Sequence[OldLeg]) -> bool:
    """Whether the newest attempt ended by itself: then whoever runs it again means all of it."""
    newest = max((leg.header.run_attempt or 0 for leg in legs), default=0)
    return any(
        isinstance(line, EndLine) and line.ending == "completed"
        for leg in legs
        if (leg.header.run_attempt or 0) == newest
        for lines in leg.files.values()
        for line in lines
    )


def _order(leg: OldLeg) -> tuple[int, str]:
    return leg.header.run_attempt or 0, leg.header.started_at or ""


def _kept(line: Line) -> Kept | None:
    """The line without what refers to files that do not come along; None for what stays behind."""
    if not isinstance(line, KEPT) or (isinstance(line, EventLine) and line.kind in OF_ONE_STEP):
        return None
    if isinstance(line, (ProcessLine, EventLine)) and line.seen:
        return replace(line, seen={})
    return line


def _number(line: Kept) -> int:
    return 0 if isinstance(line, MetricLine) else line.process or 0


def _shifted(line: Kept, shift: int) -> Kept:
    if isinstance(line, MetricLine) or not line.process or not shift:
        return line
    return replace(line, process=line.process + shift)


def _fact(line: Kept) -> Hashable:
    """What tells a line from all others whatever number its process got; times have six digits."""
    if isinstance(line, StartLine):
        return line.suite, line.variant, line.unit, line.at_s
    if isinstance(line, Result):
        return line.key, line.outcome, line.try_number, line.at_s, line.wall_s
    return encode(line if isinstance(line, MetricLine) else replace(line, process=0))


def _overlapping(lines: Sequence[Line]) -> Set[int]:
    """Processes in which a unit began while another had begun and had no result yet."""
    found: Set[int] = set()
    silent: Dict[int, Set[UnitKey]] = {}
    for line in lines:
        if not isinstance(line, (StartLine, Result)):
            continue
        key, process = UnitKey(line.suite, line.variant, line.unit), line.process or 0
        begun = silent.setdefault(process, set())
        if isinstance(line, Result):
            begun.discard(key)
        elif line.heard:
            continue  # the leg's own word, apart from the program's lines
        elif begun - {key}:
            found.add(process)
        else:
            begun.add(key)
    return found


def ended(files: Sequence[Sequence[Line]]) -> FrozenSet[UnitKey]:
    """The units that are over.

    Args:
        files: lines in the order in which they were written to each file, with suite, variant and
            process in them.
    """
    last: Dict[UnitKey, int] = {}
    in_files: Set[Tuple[int, UnitKey]] = set()
    over: Set[Tuple[int, UnitKey]] = set()
    completed: Set[int] = set()
    results: Dict[UnitKey, List[Result]] = {}
    for lines in files:
        at: Dict[int, UnitKey] = {}
        overlapping = _overlapping(lines)
        for line in lines:
            if isinstance(line, ProcessEndLine) and line.ending == "completed":
                completed.add(line.process)
            if isinstance(line, EventLine) and line.kind == "in_files":
                key, process = UnitKey(line.suite, line.variant, line.unit or ""), line.process or 0
                last[key] = max(process, last.get(key, 0))
                in_files.add((process, key))
            if not isinstance(line, (StartLine, Result)):
                continue
            key, process = UnitKey(line.suite, line.variant, line.unit), line.process or 0
            last[key] = max(process, last.get(key, 0))
            # Where the next one begins this one was over, unless they run side by side.
            if at.get(process, key) != key and process not in overlapping:
                over.add((process, at[process]))
            at[process] = key
            if isinstance(line, Result):
                results.setdefault(key, []).append(line)
                if line.case in ("", line.unit):
                    over.add((process, key))
    closed = (key for key in results if (last[key], key) in over or last[key] in completed)
    judged = (
        key for key in closed if resolve_attempts(results[key], last[key]).status != "unfinished"
    )
    return frozenset({*judged, *(key for process, key in in_files if process == last[key])})
