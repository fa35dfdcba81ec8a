"""Printed metrics of two runs without an equal key, beside the values that look like them. Pure.

People pair such values by hand, and wrongly: two compilation stages print the same words about
different kernels. The pairs are those of two logs (`log_pairing`), and have no verdict.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.compare.log_pairing import pair_values
from ciguard.logs.values import KeyField, LogValue, Place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.compare.log_pairing import ValuePair
    from ciguard.model import LogMetric

SOURCE: Final = "source"  # the fact that names a value's log
MAX_PAIRS: Final = 20  # shown of a run


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs without a verdict.

    Attributes:
        nearest: neither has an equal in the other run.
        refused: one of them has.
    """

    nearest: tuple[ValuePair, ...] = ()
    refused: tuple[ValuePair, ...] = ()


NO_NEIGHBOURS: Final = Neighbours()


def find_neighbours(before: Sequence[LogMetric], after: Sequence[LogMetric]) -> Neighbours:
    """The values of two runs that only look alike, at most 20 of each kind."""
    if not before or not after:
        return NO_NEIGHBOURS
    pairing = pair_values(*([_log_value(one) for one in side] for side in (before, after)))
    return Neighbours(pairing.nearest[:MAX_PAIRS], pairing.refused[:MAX_PAIRS])


def _log_value(metric: LogMetric) -> LogValue:
    key = tuple(
        KeyField(name, value, metric.printed.get(name, "")) for name, value in metric.key.items()
    )
    unit = "B" if metric.unit == "bytes" else metric.unit
    # No job and no step: a test may run in any shard.
    place = Place(line=metric.line or 0)
    facts = ((SOURCE, metric.source),)
    return LogValue(
        metric.name, metric.value, unit, key, place, resolution=metric.resolution, facts=facts
    )
