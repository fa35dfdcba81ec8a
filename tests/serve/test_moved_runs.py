"""Legs that ask a service for tests: nothing is lost, whoever is killed, and little runs twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from serve.moved_runs import RunningService, drawn_faults, new_token, run_legs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from serve.moved_runs import Fault, MovedRun

MAX_REPEATED_RATIO: Final = 0.02  # executions above one a test, over all runs


def check(run: MovedRun) -> None:
    """Each test has a result, or is named with the leg that had it."""
    units = {unit.unit for shard in run.plan.shards for unit in shard.units}
    assert units == run.executions.keys() | run.missing.keys(), run.report
    assert not run.executions.keys() & run.missing.keys(), run.report
    assert set(run.missing.values()) <= run.killed, run.report
    assert run.verdict == ("incomplete" if run.killed else "passed"), run.report


def disturbed_runs(folder: Path, faults: Mapping[int, Sequence[Fault]]) -> list[MovedRun]:
    """Runs by seed; of 8 legs, or 4 where the seed is odd."""
    database = f"sqlite:///{folder / 'ciguard.db'}"
    secret = new_token(database)
    runs = []
    with RunningService(database, folder / "results") as service:
        for seed, chosen in faults.items():
            runs.append(run_legs(folder / str(seed), service, secret, seed, faults=chosen))
            check(runs[-1])
    return runs


def describe(runs: list[MovedRun]) -> str:
    units = sum(run.executions.total() - run.repeated for run in runs)
    return (
        f"{len(runs)} runs, {units} tests, {sum(run.moved for run in runs)} moved, "
        f"{sum(run.repeated for run in runs)} executions above one, "
        f"{sum(len(run.missing) for run in runs)} without a result"
    )


@pytest.mark.soak
def test_tests_move_and_nothing_is_lost(tmp_path: Path) -> None:
    disturbed_runs(tmp_path, {1: ("kill_leg_and_record", "restart_service")})


@pytest.mark.soak
def test_fifty_runs_with_a_service_that_is_disturbed(tmp_path: Path) -> None:
    runs = disturbed_runs(tmp_path, {seed: drawn_faults(seed) for seed in range(100, 150)})
    print(describe(runs))
    assert any(run.moved for run in runs)
    repeated = sum(run.repeated for run in runs)
    assert repeated / sum(run.executions.total() for run in runs) < MAX_REPEATED_RATIO
