"""Declared memory: the peaks of units without measurements, and notes on contradictions. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ciguard.config.declared_memory import Need
from ciguard.model import PlanNote, Shard, UnitKey
from ciguard.plan.estimates import Estimates, Observations, largest_peaks, peak_bounds

MIN_PEAKS: Final = 3  # so many measured peaks of a unit replace its declared one
TOLERANCE_RATIO: Final = 0.25  # a larger difference of a measured peak is a contradiction


@dataclass(frozen=True, slots=True)
class DeclaredNeeds:
    """Needs that the configuration declares.

    Attributes:
        needs: by position in the inventory.
        gpu_bytes: memory of one device, by pool with a GPU.
    """

    needs: Mapping[int, Need] = field(default_factory=dict)
    gpu_bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def memory_bytes(self) -> dict[int, int]:
        """Return declared peak deltas, by position."""
        return {
            position: need.memory
            for position, need in self.needs.items()
            if need.memory is not None
        }

    def has_gpu_room(self, position: int, pool: str) -> bool:
        """Return whether a unit fits a device of a pool; always if no pool declares devices."""
        need = self.needs.get(position)
        if need is None or need.gpu is None or not self.gpu_bytes:
            return True
        return need.gpu <= self.gpu_bytes.get(pool, 0)


NO_NEEDS: Final = DeclaredNeeds()


def with_declared_peaks(
    estimates: Estimates, observations: Observations, needs: DeclaredNeeds
) -> Estimates:
    """Use the declared peak of each unit that was measured too rarely, or a larger measured one."""
    declared = needs.memory_bytes
    if not declared:
        return estimates
    count = len(estimates.wall_s)
    has_peak = np.isfinite(largest_peaks(observations))  # measured, or bounded from above
    rare = np.bincount(observations.unit[has_peak], minlength=count) < MIN_PEAKS
    _, measured = peak_bounds(observations, count)
    positions = [position for position in declared if rare[position]]
    planned = np.fmax([declared[position] for position in positions], measured[positions])
    peak_bytes = estimates.peak_delta_bytes.copy()
    peak_bytes[positions] = planned
    memory = estimates.memory
    mean, variance = memory.peak_bytes.copy(), memory.peak_variance.copy()
    mean[positions], variance[positions] = planned, np.square(TOLERANCE_RATIO * planned)
    memory = replace(memory, peak_bytes=mean, peak_variance=variance)
    return replace(estimates, peak_delta_bytes=peak_bytes, memory=memory)


def contradiction_notes(
    keys: Sequence[UnitKey], observations: Observations, needs: DeclaredNeeds
) -> Iterator[PlanNote]:
    """Yield a warning for each entry of the configuration that measured peaks contradict."""
    declared = needs.memory_bytes
    if not declared:
        return
    lower_bytes, upper_bytes = peak_bounds(observations, len(keys))
    tests_by_need: dict[Need, dict[str, int]] = defaultdict(dict)
    for position, size in declared.items():
        low, high = (1 - TOLERANCE_RATIO) * size, (1 + TOLERANCE_RATIO) * size
        if lower_bytes[position] > high:
            tests_by_need[needs.needs[position]][keys[position].unit] = int(lower_bytes[position])
        elif upper_bytes[position] < low:
            tests_by_need[needs.needs[position]][keys[position].unit] = int(upper_bytes[position])
    for need, tests in tests_by_need.items():
        if need.memory is not None:
            facts = {"declared_bytes": need.memory, "tests_bytes": tests}
            rule = {"units": need.units, "tolerance_ratio": TOLERANCE_RATIO}
            yield PlanNote("declared_memory_contradicted", {**rule, **facts})


def gpu_notes(
    keys: Sequence[UnitKey], shards: Sequence[Shard], needs: DeclaredNeeds
) -> Iterator[PlanNote]:
    """Yield a warning for each pool with units that fit none of its devices."""
    declared = {
        keys[position]: (position, need.gpu)
        for position, need in needs.needs.items()
        if need.gpu is not None and needs.gpu_bytes
    }
    tests_by_pool: dict[str, dict[str, int]] = defaultdict(dict)
    for shard in shards if declared else ():
        for unit in shard.units:
            position, size = declared.get(unit.key, (-1, 0))
            if not needs.has_gpu_room(position, shard.pool):
                tests_by_pool[shard.pool][unit.unit] = size
    for pool, tests in sorted(tests_by_pool.items()):
        device = {"pool": pool, "device_bytes": needs.gpu_bytes.get(pool, 0)}
        yield PlanNote("gpu_memory_exceeded", {**device, "tests_bytes": tests})
