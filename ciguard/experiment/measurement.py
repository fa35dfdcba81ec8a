"""What one run came to: time, memory, and what the program itself says. Pure.

A program says numbers of its own with `metric` lines. What their `key` holds makes them rows of
their own; a key `iteration` ("cold", "warm", or a count) tells the first one from all that follow.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ciguard.history.metric_series import ITERATION, metric_key
from ciguard.model.machine_use import machine_use
from ciguard.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ciguard.experiment.schedule import Step
    from ciguard.history.metric_series import MetricKey
    from ciguard.model import MetricLine, Record, Result, SampleLine

IterationKind = Literal["", "cold", "warm"]
LAST_LINES: Final = 5  # of what a failed run printed
LAST_BYTES: Final = 4096
WIDTH: Final = 160


class Metric(NamedTuple):
    """A number that is compared with its like only. `iteration_kind`: which iterations of a run."""

    name: str
    unit: str = ""
    key: tuple[tuple[str, str], ...] = ()
    iteration_kind: IterationKind = ""


WALL: Final = Metric("wall time", "s")
CPU: Final = Metric("CPU time", "s")
PEAK: Final = Metric("peak memory", "bytes")
GPU: Final = Metric("GPU memory", "bytes")  # of all GPUs; with a key, of one
RESERVED_NAMES: Final = frozenset({"wall time", "CPU time", "peak memory", "GPU memory"})


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The machine while a run went on; None is what was not measured.

    Attributes:
        least_available_bytes: memory that programs could still have had, at its least.
        swap_growth_bytes: swap in use at its most, minus that at the beginning.
        stalled_s: for how long any program waited for memory.
        external_cpu_ratio: share of the machine's CPU time that other programs used.
    """

    least_available_bytes: int | None = None
    swap_growth_bytes: int | None = None
    stalled_s: float | None = None
    external_cpu_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run that is over.

    Attributes:
        values: what was measured; empty where it failed, for what a failure takes is no measure.
        failure: error message and last output; "" if it did not fail.
        duration_s: until the next one can begin.
        hit_budget: it was stopped because the budget was spent.
        invalid_metrics: of the program, whose values are absent: file, line, name and value.
    """

    step: Step
    values: Mapping[Metric, float] = field(default_factory=dict)
    failure: str = ""
    duration_s: float = 0.0
    hit_budget: bool = False
    machine: MachineUse = MachineUse()
    invalid_metrics: tuple[str, ...] = ()


def values_of(record: Record) -> dict[Metric, float]:
    """The numbers of a run of one command."""
    result = _command_result(record)
    if result is None:
        return {}
    found = {WALL: result.wall_s, CPU: result.cpu_s, PEAK: result.peak_bytes}
    values = {metric: float(value) for metric, value in found.items() if value is not None}
    values |= _gpu_values(record.samples)
    own = _program_metrics(record.metrics)
    # A number that a program calls as we call ours is still its own.
    return values | {_renamed_if_reserved(metric): value for metric, value in own.items()}


def _renamed_if_reserved(metric: Metric) -> Metric:
    is_reserved = metric.name in RESERVED_NAMES
    return metric._replace(name=f"{metric.name} (its own)") if is_reserved else metric


def _gpu_values(samples: Sequence[SampleLine]) -> dict[Metric, float]:
    """The largest memory on each GPU, and on all of them at one moment."""
    use = machine_use(samples)
    found: dict[Metric, float] = {}
    if use.gpu_total is not None:
        found[GPU] = float(use.gpu_total.size_bytes)
    for device, size in sorted(use.gpu_bytes.items()):
        found[GPU._replace(key=(("gpu", device),))] = float(size)
    return found


def machine_use_of(samples: Sequence[SampleLine]) -> MachineUse:
    """Summarize the samples that a run took of the machine."""
    use = machine_use(samples)
    return MachineUse(
        least_available_bytes=use.least_available.size_bytes if use.least_available else None,
        swap_growth_bytes=use.swap_growth.size_bytes if use.swap_growth else None,
        stalled_s=use.stalls.stalled_s if use.stalls else None,
    )


def failure_of(record: Record, log: bytes) -> str:
    """Return how a run of one command failed, with its last output; "" if it did not."""
    result = _command_result(record)
    if result is not None and result.outcome == "passed" and not record.damage:
        return ""
    if result is None:
        how = record.damage[0] if record.damage else "no result"
    else:
        # Of one that died the message has its last output as well, which comes below.
        how = (result.message or result.outcome).partition("\n")[0]
        how = how if result.ending == "completed" else f"{result.ending}: {how}"
    lines = log[-LAST_BYTES:].decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
    return "\n".join([one_line(how, WIDTH), *(one_line(line, WIDTH) for line in lines)])


def _command_result(record: Record) -> Result | None:
    """The leg's own result; a program may have added others."""
    unit = record.starts[0].unit if record.starts else None
    return next((result for result in record.results if result.unit == unit), None)


def _program_metrics(lines: Iterable[MetricLine]) -> dict[Metric, float]:
    """A program's own numbers: of what it said several times in a run, the median."""
    series: dict[MetricKey, list[MetricLine]] = {}
    for line in lines:
        series.setdefault(metric_key(line), []).append(line)
    found: dict[Metric, list[float]] = {}
    for (name, unit, key), series_lines in series.items():
        first = min((_count(line) for line in series_lines), default=0.0)
        for line in series_lines:
            found.setdefault(Metric(name, unit, key, _part(line, first)), []).append(line.value)
    return {metric: statistics.median(values) for metric, values in sorted(found.items())}


def _count(line: MetricLine) -> float:
    word = line.key.get(ITERATION, "")
    return float(word) if word.isdecimal() else float("inf")


def _part(line: MetricLine, first: float) -> IterationKind:
    word = line.key.get(ITERATION)
    if word == "cold" or (word is not None and word.isdecimal() and float(word) == first):
        return "cold"
    return "" if word is None else "warm"
