"""Suites of which nothing ran: a skipped unit has its result, and has shown nothing. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.guard.verdict import Finding
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from ciguard.model import UnitKey
    from ciguard.model.attempts import UnitResult


def check_nothing_ran(
    final: Mapping[UnitKey, UnitResult], planned: AbstractSet[UnitKey]
) -> Iterator[Finding]:
    """Name each suite and variant whose every unit was skipped.

    A warning, as their frameworks end well: a suite may be for another system. What the base ran
    is among the changes that `compare` tells.
    """
    ran: dict[tuple[str, str], bool] = {}
    for key in planned:
        if not ran.get(key[:2]):
            end = final.get(key)
            ran[key[:2]] = end is None or any(case.outcome != "skipped" for case in end.cases)
    for suite_key in sorted(suite_key for suite_key, one_ran in ran.items() if not one_ran):
        units = tuple(sorted(key for key in planned if key[:2] == suite_key))
        named = f' of suite "{one_line(suite_key[0])}"' if suite_key[0] else ""
        named += f', variant "{one_line(suite_key[1])}"' if suite_key[1] else ""
        what = f"nothing ran{named}: {_skipped(len(units))}"
        fix = "is that meant? Look at why they are skipped"
        yield Finding("warning", "nothing_ran", what, units=units, fix=fix)


def _skipped(count: int) -> str:
    return "the one unit was skipped" if count == 1 else f"all {count:,} units were skipped"
