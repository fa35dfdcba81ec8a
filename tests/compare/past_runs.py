"""Runs of 60 tests with noise, as the past and the present of a comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from compare.compare_factories import MIB, column_run

from ciguard.compare.measure_changes import CaseChange
from ciguard.compare.run_columns import Run

TESTS = 60
Floats = np.ndarray[Any, Any]


class Past:
    """Baseline runs of 60 tests with 2 % noise, and candidates of the same kind."""

    def __init__(self, runs: int, noise: float = 0.02) -> None:
        self.generator = np.random.default_rng(7)
        self.noise = noise
        self.wall = np.linspace(0.1, 3.0, TESTS)
        self.peak = np.linspace(1, 400, TESTS) * MIB
        self.bases = [self.run(n + 1) for n in range(runs)]

    def run(
        self, run_id: int, wall: Floats | None = None, peak: Floats | None = None, **more: Any
    ) -> Run:
        """A run of the same tests; `wall` and `peak` are factors."""
        walls = self.wall * np.exp(self.generator.normal(0, self.noise, TESTS))
        peaks = self.peak * np.exp(self.generator.normal(0, 0.004, TESTS))
        return column_run(
            walls * (1 if wall is None else wall),
            np.rint(peaks * (1 if peak is None else peak)),
            run_id=run_id,
            **more,
        )


def factor(test: int, value: float) -> Floats:
    found = np.ones(TESTS)
    found[test] = value
    return found


def names(changes: tuple[CaseChange, ...]) -> list[str]:
    return [f"{change.tier} {change.key.unit}" for change in changes]
