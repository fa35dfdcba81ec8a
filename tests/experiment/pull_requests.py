"""Pull requests whose suspects are run again: simulated suites, the real rules from end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from compare.simulation import CHANGED, HEAVY_TAIL, Suite

from ciguard.compare.compare_runs import compare_run
from ciguard.experiment.commit_test import ARMS, evaluate_rows, key_of, request_of
from ciguard.experiment.measurement import Measurement, Metric
from ciguard.experiment.result import run_design, series_of
from ciguard.experiment.schedule import Design, Step

Floats = np.ndarray[Any, Any]
RUNS: Final = 5


@dataclass
class Confirmed:
    """Over many pull requests: what was asked, confirmed, and is false of that."""

    pulls: int = 0
    suspect_count: int = 0
    false_durations: int = 0
    false_memory: int = 0
    found_durations: int = 0
    found_memory: int = 0

    @property
    def changed(self) -> int:
        return self.pulls * CHANGED


class Machine:
    """One machine that runs suspects: the suite's own noise, a common pace of each run."""

    def __init__(self, suite: Suite, growth: float) -> None:
        self.suite = suite
        self.growth = growth

    def measure(self, step: Step, rows: frozenset[Metric]) -> Measurement:
        random, suite = self.suite.random, self.suite
        pace = np.exp(random.normal(0, 0.02))
        values = {}
        for row in sorted(rows):
            at = int(key_of(row).unit[1:])
            grown = 1 + self.growth * (step.arm == "head" and at in suite.changed)
            if row.unit == "s":
                noise = random.standard_t(HEAVY_TAIL) * 0.05 / np.sqrt(2)
                hiccup = (random.random() < 0.003) * random.exponential(0.3)
                values[row] = suite.wall_s[at] * grown * pace * np.exp(noise) + hiccup
            else:
                second = suite.bimodal[at] and random.random() < 0.3
                size = suite.peaks[at] * grown * np.exp(random.normal(0, 0.004))
                values[row] = float(np.rint(size * (1.15 if second else 1.0)))
        return Measurement(step, values, duration_s=1.0)


def confirmed(pulls: int, tests: int, growth: float, seed: int, runs: int = 20) -> Confirmed:
    """One run of each pull request against `runs` baseline runs, its suspects five times again."""
    total = Confirmed()
    for number in range(pulls):
        suite = Suite(seed + number, tests)
        bases = [suite.run(n + 1) for n in range(runs)]
        found = compare_run(suite.run(101, growth), None, bases)
        wanted = request_of((one.key, one.measure) for one in found.suspects)
        machine, done = Machine(suite, growth), list[Measurement]()
        assert wanted.rows is not None
        rows = wanted.rows

        def measure(step: Step, machine: Machine = machine, rows: Any = rows) -> Measurement:
            return machine.measure(step, rows)

        design = Design(RUNS, 1, arms=ARMS)
        run_design(design, done, measure, lambda: 1e9, may_stop_early=False)
        changed = {f"t{at:05}" for at in suite.changed} if growth else set()
        total.pulls += 1
        total.suspect_count += len(rows)
        for row in evaluate_rows(series_of(done, ARMS)):
            if row.differs and row.after > row.before:
                is_true = key_of(row.metric).unit in changed
                is_time = row.metric.unit == "s"
                total.found_durations += is_true and is_time
                total.found_memory += is_true and not is_time
                total.false_durations += not is_true and is_time
                total.false_memory += not is_true and not is_time
    return total
