"""Use of the machine during a leg, by its samples: memory, swap, stalls, GPUs, and running units.

None means not measured and is never 0. Pure, Python 3.8+.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Callable, Final, Mapping, Sequence

from ciguard.model.record import Record, SampleLine, largest_by_gpu
from ciguard.model.types import SLOTS, UnitKey

if TYPE_CHECKING:
    Execution = tuple[int | None, str, str, str]  # process, suite, variant, unit

MAX_NAMES: Final = 64  # names of processes in a sample; a forged record may have more
PHASE_RATIO: Final = 0.01  # of a peak; smaller programs are helpers
# A smaller growth may be pages of idle daemons that the kernel moved.
SWAPPED_BYTES: Final = 64 << 20
STALLED_S, STALLED_RATIO = 1.0, 0.01  # of the leg's time; both must be exceeded


@dataclass(frozen=True, **SLOTS)
class MemoryMoment:
    """A size of memory, the time of its sample, and the units that ran at this time."""

    size_bytes: int
    at_s: float
    units: tuple[UnitKey, ...] = ()


@dataclass(frozen=True, **SLOTS)
class Stalls:
    """Time for which any program waited for memory, and all at once (None: not measured).

    The longest wait was between the sample at `at_s` and the one before.
    """

    stalled_s: float
    fully_stalled_s: float | None
    at_s: float
    units: tuple[UnitKey, ...] = ()


@dataclass(frozen=True, **SLOTS)
class PeakPrograms:
    """The programs at the peak of a leg, each with its descendants, the largest first.

    `apart_bytes`: memory that the programs need if no two overlap; None if they cannot be apart.
    """

    at_s: float
    program_bytes: Mapping[str, int]
    gpu_bytes: int | None = None
    apart_bytes: int | None = None


@dataclass(frozen=True, **SLOTS)
class MachineUse:
    """Extremes of a leg's samples.

    Attributes:
        gpu_bytes: by device, the largest memory of the tested processes.
        gpu_total: largest sum over the devices in one sample.
        least_available: least available memory of the machine.
        least_headroom: least memory before a process is killed, by the limit of a container and
            with half of the swap.
        swap_growth: largest used swap of the machine, minus that of the first sample.
        peak: None if one program had all the memory, or no program has a name.
    """

    gpu_bytes: Mapping[str, int] = field(default_factory=dict)
    gpu_total: MemoryMoment | None = None
    least_available: MemoryMoment | None = None
    least_headroom: MemoryMoment | None = None
    swap_growth: MemoryMoment | None = None
    stalls: Stalls | None = None
    peak: PeakPrograms | None = None

    @property
    def has_swapped(self) -> bool:
        """Return whether the machine swapped enough memory to slow programs down."""
        return self.swap_growth is not None and self.swap_growth.size_bytes >= SWAPPED_BYTES

    def has_stalled(self, wall_s: float | None) -> bool:
        """Return whether waits for memory are a notable part of the leg's `wall_s`."""
        stalled_s = self.stalls.stalled_s if self.stalls is not None else 0.0
        return stalled_s >= max(STALLED_S, STALLED_RATIO * (wall_s or 0.0))


NOT_MEASURED: Final = MachineUse()


def machine_use(
    samples: Sequence[SampleLine], units_at: Callable[[float], tuple[UnitKey, ...]] = lambda _: ()
) -> MachineUse:
    """Summarize samples in the order of their time; `units_at` returns the units of a time."""
    if not samples:
        return NOT_MEASURED

    def moment(size_bytes: int, at_s: float) -> MemoryMoment:
        return MemoryMoment(size_bytes, at_s, units_at(at_s))

    def least(name: str) -> MemoryMoment | None:
        sizes = [(getattr(sample, name), sample.at_s) for sample in samples]
        measured = [(size, at_s) for size, at_s in sizes if size is not None]
        return moment(*min(measured)) if measured else None

    gpu_samples = [sample for sample in samples if sample.gpu_bytes]
    sums = [(sum(sample.gpu_bytes.values()), sample.at_s) for sample in gpu_samples]
    return MachineUse(
        gpu_bytes=largest_by_gpu(sample.gpu_bytes for sample in samples),
        gpu_total=moment(*max(sums, key=lambda pair: pair[0])) if sums else None,
        least_available=least("available_bytes"),
        least_headroom=least("headroom_bytes"),
        swap_growth=_swap_growth(samples, moment),
        stalls=_stalls(samples, units_at),
        peak=_peak_programs([one for one in samples if 0 < len(one.peak_processes) <= MAX_NAMES]),
    )


def _peak_programs(samples: Sequence[SampleLine]) -> PeakPrograms | None:
    """Return the programs at the largest peak: the first level of the process tree with several.

    Programs can be apart if each one had half of its largest memory while another one did not run.
    A client that never runs without its server cannot be apart.
    """
    if not samples:
        return None
    peak = max(samples, key=lambda sample: sum(sample.peak_processes.values()))
    paths, depth = [path.split("/") for path in peak.peak_processes], 0
    while len(names := {path[depth] for path in paths if len(path) > depth}) == 1:
        depth += 1
    total = sum(peak.peak_processes.values())
    at_peak = _sizes_at(depth, peak).most_common()
    shares = {name: size for name, size in at_peak if size >= PHASE_RATIO * total}
    if len(shares) == 1:
        return None
    phases = names & shares.keys()
    sums = [_sizes_at(depth, sample) for sample in samples]
    own = {name: max(sizes[name] for sizes in sums) for name in phases}
    is_apart = all(
        any(2 * sizes[name] >= own[name] and not all(map(sizes.get, phases)) for sizes in sums)
        for name in phases
    )
    apart_bytes = max(
        sum(sizes.values()) - sum(sizes[other] for other in phases - {name})
        for sizes in sums
        for name in phases or shares
    )
    if not is_apart or len(phases) == 1 or apart_bytes >= total:
        apart_bytes = 0
    gpu_bytes = sum(peak.gpu_bytes.values())
    return PeakPrograms(peak.at_s, shares, gpu_bytes or None, apart_bytes or None)


def _sizes_at(depth: int, sample: SampleLine) -> Counter[str]:
    """Add up the sizes of processes by their ancestor at this depth, or by their name above it."""
    sizes: Counter[str] = Counter()
    for path, size in sample.peak_processes.items():
        sizes[path.split("/")[: depth + 1][-1]] += size
    return sizes


def _swap_growth(
    samples: Sequence[SampleLine], moment: Callable[[int, float], MemoryMoment]
) -> MemoryMoment | None:
    """Return the largest growth; None for a single sample."""
    sizes = [(sample.swap_used_bytes, sample.at_s) for sample in samples]
    measured = [(size, at_s) for size, at_s in sizes if size is not None]
    if len(measured) < 2:  # noqa: PLR2004
        return None
    most_bytes, at_s = max(measured, key=lambda pair: pair[0])
    growth_bytes = most_bytes - measured[0][0]
    return moment(growth_bytes, at_s) if growth_bytes else MemoryMoment(0, at_s)


def _stalls(
    samples: Sequence[SampleLine], units_at: Callable[[float], tuple[UnitKey, ...]]
) -> Stalls | None:
    partly = [(one.stalled_s, one.at_s) for one in samples if one.stalled_s is not None]
    if not partly:
        return None
    waits = list(zip(_increases([value for value, _ in partly]), (at_s for _, at_s in partly)))
    fully = [one.fully_stalled_s for one in samples if one.fully_stalled_s is not None]
    longest_s, at_s = max(waits, key=lambda wait: wait[0])
    return Stalls(
        stalled_s=sum(wait_s for wait_s, _ in waits),
        fully_stalled_s=sum(_increases(fully)) if fully else None,
        at_s=at_s,
        units=units_at(at_s) if longest_s else (),
    )


def _increases(counter: Sequence[float]) -> list[float]:
    """Return the increase of each value; a step that continues a leg counts from 0 again."""
    pairs = zip((0.0, *counter), counter)
    return [value - before if value >= before else value for before, value in pairs]


def leg_machine_use(record: Record) -> MachineUse:
    """Summarize a leg's samples, with the units that ran at each extreme."""
    executions = execution_spans(record) if record.samples else {}

    def units_at(at_s: float) -> tuple[UnitKey, ...]:
        keys = [key for key, (start_s, end_s) in executions.items() if start_s <= at_s <= end_s]
        return tuple(sorted({UnitKey(*key[1:]) for key in keys}))

    return machine_use(record.samples, units_at)


def execution_spans(record: Record) -> Mapping[Execution, tuple[float, float]]:
    """Return the span of each unit in each process, from its first start to its last result.

    The span of a unit without a result ends with its process. O(starts + results).
    """
    process_ends = {line.process: line.at_s for line in record.process_ends}
    # The first start and the last result win.
    execution = attrgetter("process", "suite", "variant", "unit")
    lines = reversed(record.starts)
    starts = {execution(line): line.at_s for line in lines if line.at_s is not None}
    ends = {execution(line): line.at_s for line in record.results}
    spans = {}
    for key, start_s in starts.items():
        end_s = ends.get(key, process_ends.get(key[0] or 0, math.inf))
        # None: the process ended at an unknown time.
        spans[key] = (start_s, start_s if end_s is None else end_s)
    return spans
