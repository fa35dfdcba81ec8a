"""The measurements of one run: time, memory, and the program's own metrics. Pure.

A program reports metrics with `metric` lines. Each different `key` gives a row of its own; a key
`iteration` ("cold", "warm", or a number) separates the first iteration from all others.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from ciguard.experiment.schedule import Step
from ciguard.history.metric_series import ITERATION, MetricKey, metric_key
from ciguard.model import MetricLine, Record, Result, SampleLine
from ciguard.model.machine_use import NOT_MEASURED, MachineUse, machine_use
from ciguard.text import one_line

IterationKind = Literal["", "cold", "warm"]
LAST_LINES: Final = 5  # of the output of a failed run
LAST_BYTES: Final = 4096
WIDTH: Final = 160


class Metric(NamedTuple):
    """The name of a compared number; `iteration_kind`: the iterations of a run that count."""

    name: str
    unit: str = ""
    key: tuple[tuple[str, str], ...] = ()
    iteration_kind: IterationKind = ""


WALL: Final = Metric("wall time", "s")
CPU: Final = Metric("CPU time", "s")
PEAK: Final = Metric("peak memory", "bytes")
GPU: Final = Metric("GPU memory", "bytes")  # of all GPUs; with a key, of one GPU
RESERVED_NAMES: Final = frozenset({"wall time", "CPU time", "peak memory", "GPU memory"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """A finished run.

    Attributes:
        values: measured values; empty for a failed run, whose time means nothing.
        failure: error message and last output; "" if the run did not fail.
        duration_s: time until the next run can begin.
        hit_budget: the run was stopped because the budget was spent.
        machine: memory of the machine during the run.
        external_cpu_ratio: share of the machine's CPU time that other programs used.
        invalid_metrics: metrics of the program without a value: file, line, name and text.
    """

    step: Step
    values: Mapping[Metric, float] = field(default_factory=dict)
    failure: str = ""
    duration_s: float = 0.0
    hit_budget: bool = False
    machine: MachineUse = NOT_MEASURED
    external_cpu_ratio: float | None = None
    invalid_metrics: tuple[str, ...] = ()


def values_of(record: Record) -> dict[Metric, float]:
    """Return the measured values of a run; a program cannot report one under their names."""
    result = _command_result(record)
    if result is None:
        return {}
    measured = {WALL: result.wall_s, CPU: result.cpu_s, PEAK: result.peak_bytes}
    values = {metric: float(value) for metric, value in measured.items() if value is not None}
    own = {
        metric: value
        for metric, value in _program_metrics(record.metrics).items()
        if metric.name not in RESERVED_NAMES
    }
    return values | _gpu_values(record.samples) | own


def _gpu_values(samples: Sequence[SampleLine]) -> dict[Metric, float]:
    """Return the largest memory on each GPU, and on all of them in one sample."""
    use = machine_use(samples)
    values: dict[Metric, float] = {}
    if use.gpu_total is not None:
        values[GPU] = float(use.gpu_total.size_bytes)
    for device, size in sorted(use.gpu_bytes.items()):
        values[GPU._replace(key=(("gpu", device),))] = float(size)
    return values


def failure_of(record: Record, log: bytes) -> str:
    """Return how a run of one command failed, with its last output; "" if it did not."""
    result = _command_result(record)
    if result is not None and result.outcome == "passed" and not record.damage:
        return ""
    if result is None:
        how = record.damage[0] if record.damage else "no result"
    else:
        # The message of a dead command also contains its last output, which is added below.
        how = (result.message or result.outcome).partition("\n")[0]
        how = how if result.ending == "completed" else f"{result.ending}: {how}"
    lines = log[-LAST_BYTES:].decode("utf-8", "replace").strip().splitlines()[-LAST_LINES:]
    return "\n".join([one_line(how, WIDTH), *(one_line(line, WIDTH) for line in lines)])


def _command_result(record: Record) -> Result | None:
    """Return the leg's own result; a program may have added others."""
    unit = record.starts[0].unit if record.starts else None
    return next((result for result in record.results if result.unit == unit), None)


def _program_metrics(lines: Iterable[MetricLine]) -> dict[Metric, float]:
    """Return the medians of a program's own metrics over the run."""
    series: dict[MetricKey, list[MetricLine]] = {}
    for line in lines:
        series.setdefault(metric_key(line), []).append(line)
    by_metric: dict[Metric, list[float]] = {}
    for (name, unit, key), series_lines in series.items():
        words = [line.key.get(ITERATION) for line in series_lines]
        first = min((int(word) for word in words if word and word.isdecimal()), default=None)
        for line, word in zip(series_lines, words, strict=True):
            kind: IterationKind = "" if word is None else "warm"
            if word == "cold" or (word and word.isdecimal() and int(word) == first):
                kind = "cold"
            by_metric.setdefault(Metric(name, unit, key, kind), []).append(line.value)
    return {metric: statistics.median(values) for metric, values in sorted(by_metric.items())}
