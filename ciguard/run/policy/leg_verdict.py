"""What a leg's results come to: counts, what did not run, and the exit code. Pure."""

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
    """All results of a leg by unit, while they come in; what counts is decided when asked."""

    def __init__(self) -> None:
        self.results_by_unit: dict[UnitKey, list[Result]] = {}
        self._pending: dict[UnitKey, list[Result]] = {}
        self._last_start: dict[UnitName, int] = {}
        self._suspects: set[UnitKey] = set()  # with a result that is not good

    def start(self, line: StartLine) -> None:
        """Take in that a unit begins."""
        key = UnitKey(line.suite, line.variant, line.unit)
        self._last_start[key] = max(line.process or 0, self._last_start.get(key, 0))

    def add(self, result: Result) -> None:
        """Take in a result."""
        key = result.key.unit_key
        if key not in self.results_by_unit:
            self.results_by_unit[key] = self._pending.pop(key, [])
        self.results_by_unit[key].append(result)
        if classify_result(result) != "good":
            self._suspects.add(key)

    def hold(self, result: Result) -> None:
        """Take in what an earlier leg knows of a unit that has to run again.

        It counts only together with a result of that run: without one the unit has none.
        """
        self._pending.setdefault(result.key.unit_key, []).append(result)

    def count_bad(self) -> int:
        """How many units are not good by the results that are there; some may get a retry."""
        suspects = (resolve_attempts(self.results_by_unit[key]) for key in self._suspects)
        return sum(1 for unit in suspects if unit.status != "good")

    def units(self) -> dict[UnitKey, UnitResult]:
        """What each unit comes to that has a result."""
        return resolve_units(chain(*self.results_by_unit.values()), self._last_start)


@dataclass(frozen=True, **SLOTS)
class LegVerdict:
    """The answer of a leg.

    `counts` is by outcome, of final results; `bad` are those of them that are not good. `missing`
    units have no result, or none of their last attempt.

    `unexplained`: processes that ended with an exit code that none of their results explains.
    `in_files`: units whose results are in files that the leg does not read.
    `flaky`: units that failed first and passed in their last try; `passed_after_oom`: those for
    whose failures only memory is to blame.
    `checkpoint`: the step is over, and the leg goes on in another one.
    `settings`: that kept planned tests from running, as `unplanned_settings` returns them.
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
    filed: AbstractSet[UnitKey] = frozenset(),
    failed_files: int = 0,
    checkpoint: bool = False,
    signalled: ExitCode | None = None,
    settings: Mapping[str, Sequence[str]] = {},  # never changed
) -> LegVerdict:
    """Judge a leg that has ended.

    Args:
        ending: of the leg. dropped: lines that a full disk lost.
        unexplained, filed, checkpoint, settings: see `LegVerdict`.
        failed_files: processes with an exit code that such files have to explain.
        signalled: the exit code of the signal that ended it, if one did.
    """
    units = tally.units()
    results = [result for unit in units.values() for result in unit.cases]
    bad = tuple(result for result in results if classify_result(result) != "good")
    wanted = [unit.key for unit in planned if unit.key not in filed]
    unfinished = [key for key in wanted if key in units and not units[key].is_over]
    missing = (
        *(key for key in wanted if key not in units),
        *(key for key in unfinished if not any(map(_is_stopped, units[key].cases))),
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
    without_result = len(filed - units.keys())
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


def _is_stopped(result: Result) -> bool:
    return classify_result(result) == "unfinished"
