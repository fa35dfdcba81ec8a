from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from plan.plan_factories import suite

from ciguard.model import PlannedUnit, Prediction, Shard
from ciguard.plan.pool_shards import simulate_shard
from ciguard.run.policy.state import MIB, UNKNOWN_BASE_BYTES, UNKNOWN_DELTA_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.model import Suite

SUITES = {"": suite(3.0, 100 * MIB)}


def shard(*units: PlannedUnit, processes: int = 1, budget_bytes: int | None = None) -> Shard:
    return Shard("01", "linux", units, Prediction(0, 0), processes, 45, budget_bytes)


def simulate(shard: Shard, suites: Mapping[str, Suite] = SUITES) -> tuple[float, int]:
    return simulate_shard(
        shard, suites, lambda units: sum(shard.units[unit].wall_s for unit in units)
    )


def unit(name: str, wall_s: float, peak: int | None = None, retained: int = 0) -> PlannedUnit:
    size = None if peak is None else peak * MIB
    return PlannedUnit(name, "", "", wall_s, size, retained * MIB)


def test_one_process_takes_its_setup_plus_its_units() -> None:
    wall_s, peak_bytes = simulate(shard(unit("a", 1.0, 50), unit("b", 2.0, 70)))
    assert wall_s == 6.0
    assert peak_bytes == 170 * MIB


def test_every_process_has_setup_and_teardown() -> None:
    suites = {"": replace(suite(3.0, 100 * MIB), teardown_s=0.5)}
    units = [unit(name, 1.0, 300, 300) for name in "abcd"]
    wall_s, _ = simulate(shard(*units, budget_bytes=1024 * MIB), suites)
    assert wall_s == 2 * 3.5 + 4.0


def test_two_processes_split_the_time_and_add_their_peaks() -> None:
    wall_s, peak_bytes = simulate(shard(unit("a", 4.0, 50), unit("b", 4.0, 70), processes=2))
    assert wall_s == 7.0
    assert peak_bytes == (150 + 170) * MIB


def test_a_leak_costs_a_second_process() -> None:
    """Four units that keep 300 MiB each do not fit one process of a 1 GiB budget."""
    units = [unit(name, 1.0, 300, 300) for name in "abcd"]
    wall_s, peak_bytes = simulate(shard(*units, budget_bytes=1024 * MIB))
    assert wall_s == 2 * 3.0 + 4.0
    assert peak_bytes <= 1024 * MIB


def test_units_that_exceed_the_budget_together_run_in_sequence() -> None:
    units = [unit("a", 5.0, 700), unit("b", 5.0, 700)]
    wall_s, peak_bytes = simulate(shard(*units, processes=2, budget_bytes=1024 * MIB))
    assert wall_s == 16.0
    assert peak_bytes == 800 * MIB


def test_unmeasured_memory_uses_the_default_of_the_policy() -> None:
    _, peak_bytes = simulate(shard(unit("a", 1.0)), {"": suite()})
    assert peak_bytes == UNKNOWN_BASE_BYTES + UNKNOWN_DELTA_BYTES


def test_a_prediction_does_not_stop_at_the_deadline() -> None:
    assert simulate(shard(unit("a", 1e6)))[0] == 1e6 + 3.0
