"""What each leg of a run had to do, and whether two legs of one name had the same. Pure.

Another plan may deal a failing test to another shard: then one leg turns red and one green, and
nothing has changed. So a leg that failed by its tests alone is held against one of its name only
where both had the same work.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ciguard.compare.run_columns import CODE, index_in
from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ciguard.compare.run_columns import Run
    from ciguard.model import UnitKey

    Units = frozenset[UnitKey]

# Of the units of two legs, those that both have: a change adds and removes a few tests, while
# another plan of even two shards leaves half.
MIN_OVERLAP: Final = 0.9
LegKey = Literal["job", "name"]


@dataclass(frozen=True, slots=True)
class LegUnits:
    """The units of all legs of a name, those that went wrong, and whether the legs ended by
    themselves."""

    units: Units
    bad: Units
    ended: bool


def units_by_leg(run: Run, key: LegKey) -> dict[str, LegUnits]:
    """What the legs did, by the name of their job, or their own; without a name by ""."""
    is_bad = np.isin(run.outcome, [CODE["outcome"][outcome] for outcome in BAD_OUTCOMES])
    units, bad = _units_of(run, np.ones(len(run.keys), np.bool_)), _units_of(run, is_bad)
    legs: dict[str, list[int]] = defaultdict(list)
    for position, leg in enumerate(run.legs):
        legs[(leg.job if key == "job" else leg.name) or ""].append(position)
    return {
        name: LegUnits(
            _union(units.get(at, frozenset()) for at in places),
            _union(bad.get(at, frozenset()) for at in places),
            all(run.legs[at].ending == "completed" for at in places),
        )
        for name, places in legs.items()
    }


def _units_of(run: Run, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> dict[int, Units]:
    """The units of some cases, by the position of their leg."""
    found: dict[int, set[UnitKey]] = defaultdict(set)
    for at in np.flatnonzero(which).tolist():
        found[int(run.leg[at])].add(run.keys[at].unit_key)
    return {leg: frozenset(units) for leg, units in found.items()}


def _union(parts: Iterable[Units]) -> Units:
    return frozenset(chain.from_iterable(parts))


def resharded_cases(base: Run, candidate: Run) -> tuple[int, int]:
    """How many cases another leg of that name ran before, and how many both runs have in legs."""
    if not base.legs or not candidate.legs:
        return 0, 0
    place = index_in(candidate, base)
    here = np.flatnonzero(place >= 0)
    before, after = (np.array([leg.name for leg in run.legs]) for run in (base, candidate))
    differs = before[base.leg[place[here]]] != after[candidate.leg[here]]
    return int(differs.sum()), len(here)


def explained_by_resharding(
    name: str, before: Mapping[str, LegUnits], after: Mapping[str, LegUnits], *, failed_now: bool
) -> bool:
    """Say that a job failed in one run only by tests that the other run gave to another job.

    Args:
        before, after: all work of both runs; of a job that is no leg nothing is known.
        failed_now: it did so in the second one.
    """
    old, new = before.get(name), after.get(name)
    if old is None or new is None:
        return False
    failed, other_legs = (new, before) if failed_now else (old, after)
    if not failed.bad or not failed.ended:
        return False  # it failed by more than its tests
    if len(old.units & new.units) < MIN_OVERLAP * len(old.units | new.units):
        return True
    return failed.bad <= _union(work.units for other, work in other_legs.items() if other != name)
