"""Programs that never ran: the real decisions over drawn times and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ciguard.experiment.measurement import CPU, PEAK, WALL, Measurement
from ciguard.experiment.result import Experiment, conclude, run_design
from ciguard.experiment.schedule import Design, Step

HEAVY_TAIL: Final = 4  # degrees of freedom of the noise
MIB: Final = 1024 * 1024


@dataclass
class Program:
    """Commands on one machine, from a seed.

    Attributes:
        time, memory: what the arms in `changed` have of the first one; others are the same as it.
        arms: how many, the first named a.
        noise, memory_noise: of a run, as shares; with heavy tails. Of 30 % of the runs of a
            program with `modes` the memory is 15 % larger.
        drift: by what each run is slower than the one before. second: what a run that is not the
            first of its block has of it. load: of others, which touches wall time alone.
    """

    seed: int
    time: float = 1.0
    memory: float = 1.0
    noise: float = 0.05
    memory_noise: float = 0.004
    modes: bool = False
    drift: float = 0.0
    second: float = 1.0
    wall_s: float = 20.0
    load: float | None = None
    arms: int = 2
    changed: str = "b"

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.slow = 1.0

    def measure(self, step: Step) -> Measurement:
        self.slow *= 1 + self.drift
        is_changed = step.arm in self.changed
        wall_s = (
            self.wall_s * self.slow * (self.time if is_changed else 1) * self._noise(self.noise)
        )
        wall_s *= self.second if step.position else 1
        if self.load:  # others have the processors: what a run waits for them is no CPU time
            cpu_s = 0.9 * self.wall_s * (self.time if is_changed else 1) * self._noise(0.003)
        else:
            cpu_s = 0.9 * wall_s * self._noise(self.noise / 2)
        peak = 300 * MIB * (self.memory if is_changed else 1) * self._noise(self.memory_noise)
        if self.modes and self.random.random() < 0.3:
            peak *= 1.15
        return Measurement(
            step,
            {WALL: wall_s, CPU: cpu_s, PEAK: float(round(peak))},
            duration_s=wall_s,
            external_cpu_ratio=self.load,
        )

    def _noise(self, share: float) -> float:
        return float(np.exp(share * self.random.standard_t(HEAVY_TAIL) / np.sqrt(2)))

    def experiment(self, runs: int = 10, conditions: int = 1) -> Experiment:
        arms = tuple("abcdefgh"[: self.arms])
        design = Design(runs, 0, tuple({"case": str(n)} for n in range(conditions)), arms)
        done: list[Measurement] = []
        why = run_design(design, done, self.measure, lambda: float("inf"))
        return conclude(design, done, why, commands={arm: arm for arm in arms})
