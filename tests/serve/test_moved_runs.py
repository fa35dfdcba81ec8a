"""Legs that ask a service for tests: nothing is lost, whoever is killed, and little runs twice."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from serve.moved_runs import MovedRun, RunningService, drawn_faults, new_token, run_legs

MAX_REPEATED_RATIO: Final = 0.02  # executions above one a test, over all runs


def check(run: MovedRun) -> None:
    """Each test has a result, or is named with the leg that had it."""
    units = {unit.unit for shard in run.plan.shards for unit in shard.units}
    assert units == run.executions.keys() | run.missing.keys(), run.report
    assert not run.executions.keys() & run.missing.keys(), run.report
    assert set(run.missing.values()) <= run.killed, run.report
    assert run.verdict == ("incomplete" if run.killed else "passed"), run.report


def describe(runs: list[MovedRun]) -> str:
    units = sum(run.executions.total() - run.repeated for run in runs)
    return (
        f"{len(runs)} runs, {units} tests, {sum(run.moved for run in runs)} moved, "
        f"{sum(run.repeated for run in runs)} executions above one, "
        f"{sum(len(run.missing) for run in runs)} without a result"
    )


@pytest.mark.soak
def test_fifty_runs_with_a_service_that_is_disturbed(tmp_path: Path) -> None:
    """Of 8 legs, or 4 where the seed is odd."""
    database = f"sqlite:///{tmp_path / 'ciguard.db'}"
    secret = new_token(database)
    runs = []
    with RunningService(database, tmp_path / "results") as service:
        for seed in range(100, 150):
            faults = drawn_faults(seed)
            runs.append(run_legs(tmp_path / str(seed), service, secret, seed, faults=faults))
            check(runs[-1])
    print(describe(runs))
    assert any(run.moved for run in runs)
    repeated = sum(run.repeated for run in runs)
    assert repeated / sum(run.executions.total() for run in runs) < MAX_REPEATED_RATIO
