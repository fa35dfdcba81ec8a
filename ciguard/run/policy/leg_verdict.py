"""Verdict of a leg: counts of its results, tests that did not run, and the exit code. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, AbstractSet, Mapping, Sequence

from ciguard.errors import ExitCode
from ciguard.model import OUTCOMES, SLOTS, Ending, PlannedUnit, Result, StartLine, UnitKey
from ciguard.model.attempts import classify_result, resolve_attempts, resolve_units

if TYPE_CHECKING:
    from ciguard.model.attempts import UnitName, UnitResult


class Tally:
    """All results of a leg by unit, as they arrive; `units` selects those that count."""

    def __init__(self) -> None:
        self.results_by_unit: dict[UnitKey, list[Result]] = {}
        self._pending: dict[UnitKey, list[Result]] = {}
        self._last_start: dict[UnitName, int] = {}
        self._suspects: set[UnitKey] = set()  # units with a result that is not good

    def start(self, line: StartLine) -> None:
        key = line.unit_key
        self._last_start[key] = max(line.process or 0, self._last_start.get(key, 0))

    def add(self, result: Result) -> None:
        key = result.unit_key
        if key not in self.results_by_unit:
            self.results_by_unit[key] = self._pending.pop(key, [])
        self.results_by_unit[key].append(result)
        if classify_result(result) != "good":
            self._suspects.add(key)

    def hold(self, result: Result) -> None:
        """Store a result of an earlier leg for a unit that has to run again.

        The result counts only together with a result of the new run.
        """
        self._pending.setdefault(result.unit_key, []).append(result)

    def count_bad(self) -> int:
        """Count the units that are not good so far; some of them may get a retry."""
        suspects = (resolve_attempts(self.results_by_unit[key]) for key in self._suspects)
        return sum(1 for unit in suspects if unit.status != "good")

    def units(self) -> dict[UnitKey, UnitResult]:
        """Return the final state of each unit that has a result."""
        return resolve_units(chain(*self.results_by_unit.values()), self._last_start)


@dataclass(frozen=True, **SLOTS)
class LegVerdict:
    """The verdict of a leg.

    Attributes:
        counts: number of final results by outcome.
        bad: final results that are not good.
        missing: units without a result, or without a result of their last attempt.
        unexplained: number of processes whose exit code no result explains.
        in_files: units whose results are in files that the leg does not read.
        checkpoint: the step is over, and the leg continues in another step.
        flaky: units that failed first and passed in their last try.
        passed_after_oom: units that passed in their last try, after failures that were all out of
            memory.
        settings: settings that kept planned tests from running (`unplanned_settings`).
    """

    exit_code: ExitCode
    ending: Ending
    counts: Mapping[str, int]
    bad: tuple[Result, ...]
    missing: tuple[UnitKey, ...]
    unexplained: int = 0
    in_files: int = 0
    checkpoint: bool = False
    flaky: tuple[UnitKey, ...] = ()
    passed_after_oom: tuple[UnitKey, ...] = ()
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)


def judge_leg(
    tally: Tally,
    planned: Sequence[PlannedUnit],
    ending: Ending,
    *,
    dropped: int = 0,
    unexplained: int = 0,
    in_files: AbstractSet[UnitKey] = frozenset(),
    failed_files: int = 0,
    checkpoint: bool = False,
    signalled: ExitCode | None = None,
    settings: Mapping[str, Sequence[str]] = {},  # never changed
) -> LegVerdict:
    """Judge a leg that has ended.

    Args:
        ending: ending of the leg.
        dropped: number of lines that a full disk lost.
        unexplained, in_files, checkpoint, settings: see `LegVerdict`.
        failed_files: number of processes whose exit code result files have to explain.
        signalled: exit code for the signal that ended the leg; None without a signal.
    """
    units = tally.units()
    results = [result for unit in units.values() for result in unit.cases]
    bad = tuple(result for result in results if classify_result(result) != "good")
    expected = [unit.key for unit in planned if unit.key not in in_files]
    unfinished = [key for key in expected if key in units and not units[key].is_over]
    missing = (
        *(key for key in expected if key not in units),
        *(key for key in unfinished if "unfinished" not in map(classify_result, units[key].cases)),
    )
    if signalled is not None:
        code = signalled
    elif missing or unfinished or dropped or settings or ending != "completed":
        code = ExitCode.INCOMPLETE
    else:
        code = ExitCode.TESTS_FAILED if bad or unexplained or failed_files else ExitCode.OK
    counts: dict[str, int] = {
        outcome: count
        for outcome in OUTCOMES
        if (count := sum(1 for result in results if result.outcome == outcome))
    }
    paused = checkpoint and signalled is None and not dropped
    flaky = tuple(sorted(key for key, unit in units.items() if unit.is_flaky))
    without_result = len(in_files - units.keys())
    passed_after_oom = tuple(sorted(key for key, unit in units.items() if unit.passed_after_oom))
    return LegVerdict(
        code,
        ending,
        counts,
        bad,
        missing,
        unexplained,
        without_result,
        paused,
        flaky,
        passed_after_oom,
        settings,
    )
