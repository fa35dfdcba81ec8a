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
    """The results of every unit in the last process that ran it: its last try; which are `bad`."""

    by_unit: dict[UnitKey, dict[CaseKey, Result]] = field(default_factory=dict)
    bad: set[UnitKey] = field(default_factory=set)
    flaky: set[UnitKey] = field(default_factory=set)  # some try went wrong: they are, if not bad
    starved: set[UnitKey] = field(default_factory=set)  # memory ran out under some try
    _bad_cases: dict[UnitKey, int] = field(default_factory=dict)  # a unit may have 20,000 cases

    def add(self, result: Result) -> None:
        """Take in a result; processes are numbered upwards, and a program need not know tries."""
        if result.went_wrong:
            (self.starved if result.starved else self.flaky).add(result.key.unit_key)
        cases = self.by_unit.setdefault(result.key.unit_key, {})
        before = next(iter(cases.values()), result)
        if (before.process or 0) > (result.process or 0):
            return  # of a leg in parts: what the leg said of a process stands behind all programs'
        if (before.process or 0) < (result.process or 0):
            cases.clear()
            self._bad_cases.pop(result.key.unit_key, None)
        known = cases.get(result.key)
        # Of two that claim to be the same try the worse counts: a pass cannot hide it.
        if known is None or _weight(known) <= _weight(result):
            cases[result.key] = result
            self._count(result, known)

    def _count(self, result: Result, known: Result | None) -> None:
        """Keep what is bad up to date: a leg asks while it runs."""
        unit = result.key.unit_key
        was = known is not None and known.outcome in BAD_OUTCOMES
        count = self._bad_cases.get(unit, 0) + (result.outcome in BAD_OUTCOMES) - was
        self._bad_cases[unit] = count
        if count:
            self.bad.add(unit)
        else:
            self.bad.discard(unit)

    def results(self) -> tuple[Result, ...]:
        """All that count."""
        return tuple(result for cases in self.by_unit.values() for result in cases.values())


def _weight(result: Result) -> tuple[int, bool]:
    return (result.try_number, result.outcome in BAD_OUTCOMES)


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
