"""What a leg's results come to: counts, what did not run, and the exit code. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, AbstractSet, Mapping, Sequence

from ciguard.errors import ExitCode
from ciguard.model import BAD_OUTCOMES, OUTCOMES, SLOTS

if TYPE_CHECKING:
    from ciguard.model import CaseKey, Ending, PlannedUnit, Result, UnitKey


@dataclass
class Tally:
    """The last result of every case, of which those of the unit's last process count: its last try.

    A case that failed before and has no result in the last try counts too: it has not passed since.

    Attributes:
        bad: units of which such a case is bad.
    """

    by_unit: dict[UnitKey, dict[CaseKey, Result]] = field(default_factory=dict)
    bad: set[UnitKey] = field(default_factory=set)
    flaky: set[UnitKey] = field(default_factory=set)  # some try went wrong: they are, if not bad
    starved: set[UnitKey] = field(default_factory=set)  # memory ran out under some try
    _last: dict[UnitKey, int] = field(default_factory=dict)  # process
    _bad_cases: dict[UnitKey, int] = field(default_factory=dict)  # a unit may have 20,000 cases

    def add(self, result: Result) -> None:
        """Take in a result; processes are numbered upwards, and a program need not know tries."""
        if result.went_wrong:
            (self.starved if result.starved else self.flaky).add(result.key.unit_key)
        if result.was_rerun:
            self.flaky.add(result.key.unit_key)
        unit = result.key.unit_key
        cases = self.by_unit.setdefault(unit, {})
        # Of a leg in parts, what the leg said of a process stands behind all programs' lines.
        if (result.process or 0) > self._last.get(unit, -1):
            self._last[unit] = result.process or 0
            self._bad_cases[unit] = sum(one.stays_bad for one in cases.values())
        known = cases.get(result.key)
        # Of two that claim to be the same try the worse counts: a pass cannot hide it.
        if known is None or _weight(known) <= _weight(result):
            cases[result.key] = result
            was = known is not None and self._is_bad(known)
            self._bad_cases[unit] += self._is_bad(result) - was
        if self._bad_cases[unit]:
            self.bad.add(unit)
        else:
            self.bad.discard(unit)

    def _is_bad(self, result: Result) -> bool:
        return result.outcome in BAD_OUTCOMES and self._is_final(result)

    def _is_final(self, result: Result) -> bool:
        last = self._last[result.key.unit_key]
        return (result.process or 0) == last or result.stays_bad

    def results(self) -> tuple[Result, ...]:
        """All that count."""
        return tuple(
            result
            for cases in self.by_unit.values()
            for result in cases.values()
            if self._is_final(result)
        )


def _weight(result: Result) -> tuple[int, int, bool]:
    return (result.process or 0, result.try_number, result.outcome in BAD_OUTCOMES)


@dataclass(frozen=True, **SLOTS)
class Verdict:
    """The answer of a leg. `counts` is by outcome, of cases; `missing` units have no result.

    `unexplained`: processes that ended with an exit code that none of their results explains.
    `filed`: units whose results are in files that the leg does not read.
    `flaky`: units that went wrong first and right in their last try; `starved`: such as only memory
    was to blame for.
    `checkpoint`: the step is over, and the leg goes on in another one.
    """

    exit_code: ExitCode
    ending: Ending
    counts: Mapping[str, int]
    bad: tuple[Result, ...]
    missing: tuple[UnitKey, ...]
    unexplained: int = 0
    filed: int = 0
    checkpoint: bool = False
    flaky: tuple[UnitKey, ...] = ()
    starved: tuple[UnitKey, ...] = ()


def verdict(
    tally: Tally,
    planned: Sequence[PlannedUnit],
    ending: Ending,
    *,
    dropped: int = 0,
    unexplained: int = 0,
    filed: AbstractSet[UnitKey] = frozenset(),
    failed_files: int = 0,
    checkpoint: bool = False,
    signalled: ExitCode | None = None,
) -> Verdict:
    """Judge a leg that has ended.

    Args:
        ending: of the leg. dropped: lines that a full disk lost.
        unexplained, filed, checkpoint: see `Verdict`.
        failed_files: processes with an exit code that such files have to explain.
        signalled: the exit code of the signal that ended it, if one did.
    """
    results = tally.results()
    bad = tuple(result for result in results if result.outcome in BAD_OUTCOMES)
    told = tally.by_unit.keys()
    missing = tuple(unit.key for unit in planned if unit.key not in told and unit.key not in filed)
    if signalled is not None:
        code = signalled
    elif missing or dropped or ending != "completed":
        code = ExitCode.INCOMPLETE
    else:
        code = ExitCode.TESTS_FAILED if bad or unexplained or failed_files else ExitCode.OK
    counts: dict[str, int] = {
        outcome: count
        for outcome in OUTCOMES
        if (count := sum(1 for result in results if result.outcome == outcome))
    }
    paused = checkpoint and signalled is None and not dropped
    flaky = tuple(sorted(tally.flaky - tally.bad))
    lacking = len(filed - told)
    starved = tuple(sorted(tally.starved - tally.flaky - tally.bad))
    return Verdict(code, ending, counts, bad, missing, unexplained, lacking, paused, flaky, starved)
