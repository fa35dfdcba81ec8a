"""Extra tries after a leg's end: of its new failures ("probes") and of new tests ("repeats").

Extra tries change no result: `split_probes` separates their lines from the leg's own lines.
`run/policy/reruns.py` and `repeats.py` decide which units are tried, and how. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Iterator, Literal, Mapping, Sequence, get_args

from ciguard.model.attempts import classify_result, resolve_attempts
from ciguard.model.record import EventLine, ProcessEndLine, ProcessLine, Record, Result, StartLine
from ciguard.model.types import MEMORY_ENDINGS, SLOTS, CaseKey, UnitKey

PREFIX: Final = "probe_"  # begins the reason of a probe's process; the kind follows
BEGINS: Final = ("probing", "repeating")  # events before extra tries
MIN_OF_A_KIND: Final = 4  # a test that fails in half of its tries rarely fails 4 times in a row
# The repeats that fail: all ("again"), those alone, or those after tests of the same file.
Dependence = Literal["", "again", "alone", "after"]
DEPENDENCES: Final = tuple(filter(None, get_args(Dependence)))
REPEATS: Final = ("repeat_alone", "repeat_after")  # reasons of processes of a repeat


@dataclass(frozen=True, **SLOTS)
class Probe:
    """One extra try of a unit in a fresh process.

    Attributes:
        kind: "alone"; "again" for after all units that ran before it in its process; "after" for
            directly after one of them, the `predecessor`.
        results: final results of the unit's cases.
    """

    kind: str
    results: tuple[Result, ...]
    predecessor: UnitKey | None = None

    def failed(self, case: CaseKey) -> bool | None:
        """Return whether a case failed; None without a verdict on the case.

        A result of the unit as a whole counts for each case. Any case counts for the unit.
        """
        is_unit = case.case == case.unit
        results = (r for r in self.results if is_unit or r.key.case in (case.case, case.unit))
        statuses = set(map(classify_result, results))
        return "bad" in statuses if statuses & {"bad", "good"} else None


def split_probes(files: Sequence[list[Any]]) -> tuple[Sequence[list[Any]], list[Any]]:
    """Divide the lines of a leg's files into its own lines, by file, and those of extra tries.

    Extra tries have the lines from the first event of `BEGINS` on, and the lines of the processes
    that start after this event. An event `resumed` belongs to no process.
    """
    own: list[list[Any]] = list(files)
    of_leg: list[Any] = []
    for number, lines in enumerate(files):
        if ProcessLine in map(type, lines):  # the others are written by processes
            kinds = (getattr(line, "kind", "") for line in lines)
            begin = next((at for at, kind in enumerate(kinds) if kind in BEGINS), len(lines))
            own[number], of_leg = lines[:begin], of_leg + lines[begin:]
    processes = {line.process for line in of_leg if isinstance(line, ProcessLine)}

    if not processes:
        return own, of_leg

    def is_own(line: Any) -> bool:
        is_resumed = getattr(line, "kind", "") == "resumed"
        return is_resumed or getattr(line, "process", None) not in processes

    of_processes = [line for lines in own for line in lines if not is_own(line)]
    return [list(filter(is_own, lines)) for lines in own], of_processes + of_leg


def probes_of(record: Record) -> Mapping[UnitKey, Sequence[Probe]]:
    """Return the extra tries of each failed unit, in their order, without retries."""
    failed = {result.unit_key for result in record.results if result.is_failure}
    probes: dict[UnitKey, list[Probe]] = {}
    for process, units, results in _tries(record):
        kind = process.reason[len(PREFIX) :]
        is_step = kind == "after" and process.units > 2  # noqa: PLR2004  # of the halving
        if process.reason not in REPEATS and units[-1] in failed and not is_step:
            predecessor = units[0] if kind == "after" else None
            probe = Probe(kind, resolve_attempts(results).cases, predecessor)
            probes.setdefault(units[-1], []).append(probe)
    return probes


def _tries(record: Record) -> Iterator[tuple[ProcessLine, list[UnitKey], list[Result]]]:
    """Yield each process that came to its last unit, its units, and that unit's results. O(n)."""
    lines: dict[int | None, list[StartLine | Result]] = {}
    for line in record.probes:
        if isinstance(line, (StartLine, Result)):
            lines.setdefault(line.process, []).append(line)
    for process in (line for line in record.probes if isinstance(line, ProcessLine)):
        own = lines.get(process.process, [])
        units = list(dict.fromkeys(line.unit_key for line in own))
        results = [line for line in own if isinstance(line, Result) and line.unit_key == units[-1]]
        # A process with fewer units ended before its last unit, which it was to try.
        if results and len(units) == process.units:
            yield process, units, results


def ended_in_try(record: Record | None) -> bool:
    """Return whether the leg was killed during an extra try, whose process has no end then."""
    lines = () if record is None else record.probes
    begun = {line.process for line in lines if isinstance(line, ProcessLine)}
    return bool(begun - {line.process for line in lines if isinstance(line, ProcessEndLine)})


@dataclass(frozen=True, **SLOTS)
class Repeats:
    """The repeats of a new or changed unit that passed, by verdict.

    Attributes:
        change: "new" or "changed".
        passed, failed: number of repeats, without those that were stopped with the job or ran out
            of memory.
        message: message of the first failure.
        passed_alone, failed_alone: repeats in which no test of the same file ran before the unit.
    """

    change: str
    passed: int = 0
    failed: int = 0
    message: str = ""
    passed_alone: int = 0
    failed_alone: int = 0

    @property
    def dependence(self) -> Dependence:
        """Return the condition on which the unit fails; "" for none, or for chance (flaky)."""
        if self.failed >= MIN_OF_A_KIND and not self.passed:
            return "again"
        alone = (self.passed_alone, self.failed_alone)
        after = (self.passed - self.passed_alone, self.failed - self.failed_alone)
        if alone[0] == after[1] == 0 and min(alone[1], after[0]) >= MIN_OF_A_KIND:
            return "alone"
        if after[0] == alone[1] == 0 and min(after[1], alone[0]) >= MIN_OF_A_KIND:
            return "after"
        return ""


def repeats_of(record: Record) -> Mapping[UnitKey, Repeats]:
    """Return the repeats of each unit that the leg was to repeat, also if there are none."""
    events = (line for line in record.probes if isinstance(line, EventLine))
    found = {
        event.unit_key: Repeats(event.reason or "") for event in events if event.kind == "new_test"
    }
    for process, units, results in _tries(record):
        if process.reason in REPEATS and units[-1] in found:
            cases, known = resolve_attempts(results).cases, found[units[-1]]
            bad = [case for case in cases if classify_result(case) == "bad"]
            is_alone = len(units) == 1
            if any(case.ending in MEMORY_ENDINGS for case in bad):
                continue
            if bad:
                messages = (known.message, *(case.message for case in bad))
                failed_alone = known.failed_alone + is_alone
                known = replace(known, failed=known.failed + 1, failed_alone=failed_alone)
                known = replace(known, message=next(filter(None, messages), ""))
            elif any(case.outcome == "passed" for case in cases):  # a skip is no verdict
                passed_alone = known.passed_alone + is_alone
                known = replace(known, passed=known.passed + 1, passed_alone=passed_alone)
            found[units[-1]] = known
    return found
