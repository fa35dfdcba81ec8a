"""From many results of a unit to the one that counts: its last try, case by case. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.guard.endings import CAUSES, Standing, standing
from ciguard.model import UnitKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.model import EventLine, Record, Result

_RANK: Final[dict[Standing, int]] = {"good": 0, "bad": 1, "unfinished": 2}


@dataclass(frozen=True, slots=True)
class UnitEnd:
    """The last try of a unit in one leg.

    `cases` are its final results by case, `earlier` the bad results of tries before it.
    """

    key: UnitKey
    standing: Standing
    cases: tuple[Result, ...]
    earlier: tuple[Result, ...] = ()


def _worse(results: Iterable[Result]) -> Result:
    """Of results that claim to be the same try of one case, the worst: a pass cannot hide it."""
    return max(results, key=lambda result: _RANK[standing(result)])


def _last_process(results: Sequence[Result]) -> int:
    return max(result.process or 0 for result in results)


def unit_end(key: UnitKey, results: Sequence[Result], last_start: int | None = None) -> UnitEnd:
    """Find the last try: the last process that ran the unit, and of each case its last try there.

    A case that failed before and has no result there counts too, with that failure.

    Args:
        key: of the unit.
        results: all of it in one leg, at least one.
        last_start: number of the last process in which it was started, where that is known; one
            behind the last result means that the try did not finish.
    """
    if len(results) == 1:
        only = results[0]
        cut = last_start is not None and last_start > (only.process or 0)
        return UnitEnd(key, "unfinished" if cut else standing(only), (only,))
    last = _last_process(results)
    tries: dict[str, dict[tuple[int, int], list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        tries[result.case or result.unit][result.process or 0, result.try_number].append(result)
    cases: list[Result] = []
    earlier: list[Result] = []
    for _, by_try in sorted(tries.items()):
        final = max(by_try)
        worst = _worse(by_try[final])
        # A case that failed and is not in the last try has not passed since.
        counts = final[0] == last or worst.stays_bad
        if counts:
            cases.append(worst)
        earlier.extend(
            result
            for number, found in sorted(by_try.items())
            if number < final or not counts
            for result in found
            if standing(result) == "bad"
        )
    found = standing(_worse(cases))
    if last_start is not None and last_start > last:
        found = "unfinished"
    return UnitEnd(key, found, tuple(cases), tuple(earlier))


def unit_ends(record: Record, starts: Mapping[UnitKey, int]) -> dict[UnitKey, UnitEnd]:
    """The last try of every unit that a leg has a result of; `starts` as `started` gives them."""
    results: dict[UnitKey, list[Result]] = {}
    for result in record.results:
        key = UnitKey(result.suite, result.variant, result.unit)
        if key in results:
            results[key].append(result)
        else:
            results[key] = [result]
    return {key: unit_end(key, found, starts.get(key)) for key, found in results.items()}


def causes(record: Record) -> dict[UnitKey, EventLine]:
    """Why units got no result, where the leg says it; of several processes the last."""
    return {
        UnitKey(event.suite, event.variant, event.unit): event
        for event in record.events
        if event.kind in CAUSES and event.unit is not None
    }


def started(record: Record) -> dict[UnitKey, int]:
    """The units that a leg began, each with the last process that did."""
    starts: dict[UnitKey, int] = {}
    for line in record.starts:
        key, process = UnitKey(line.suite, line.variant, line.unit), line.process or 0
        if starts.setdefault(key, process) < process:
            starts[key] = process
    return starts
