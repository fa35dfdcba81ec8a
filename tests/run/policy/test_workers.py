"""How many workers of one process fit into its memory, over literals."""

from __future__ import annotations

import pytest
from run.states import state_of

from ciguard.model import PlannedUnit, Suite
from ciguard.run.policy.recycling import MOST, count_fitting, exceeds_side_by_side, fitting_workers
from ciguard.run.policy.state import MIB

SUITE = Suite("any", ("any",), base_bytes=100 * MIB)


def unit(name: str, delta_mib: int | None, retained_mib: int | None = None) -> PlannedUnit:
    delta, retained = (None if size is None else size * MIB for size in (delta_mib, retained_mib))
    return PlannedUnit(name, peak_delta_bytes=delta, retained_bytes=retained)


@pytest.mark.parametrize(
    ("deltas", "budget_mib", "processes", "workers"),
    [
        # Of 1000 MiB 100 stay free, and the process that directs the workers takes 100.
        pytest.param([(100, 0)] * 9, 1000, 1, 4, id="equal"),
        pytest.param([(100, 0)] * 9, 1000, 2, 1, id="half-the-budget"),
        pytest.param([(500, 0), *[(0, 0)] * 8], 1000, 1, 3, id="largest-with-small-ones"),
        pytest.param([(100, 0)] * 2, 1000, 1, 6, id="more-workers-than-tests"),
        pytest.param([(100, 50)] * 4, 1000, 1, 3, id="retained-in-any-worker"),
        pytest.param([(100, -500)] * 9, 1000, 1, 4, id="freed-is-not-gained"),
        pytest.param([(100, 0), (None, None)], 700, 1, 3, id="one-not-measured"),
        pytest.param([(2000, 0)], 1000, 1, 1, id="at-least-one"),
        pytest.param([(None, None)] * 3, 1000, 1, None, id="not-measured"),
        pytest.param([(100, 0)], None, 1, None, id="no-budget"),
    ],
)
def test_workers_that_fit(
    deltas: list[tuple[int | None, int | None]],
    budget_mib: int | None,
    processes: int,
    workers: int | None,
) -> None:
    units = [unit(f"{n}", *sizes) for n, sizes in enumerate(deltas)]
    state = state_of(*units, processes=processes, budget_mib=budget_mib, suite=SUITE)
    assert fitting_workers(state, range(len(units))) == workers


def test_tests_of_one_process_share_its_base() -> None:
    assert count_fitting(100, 0, [60, 30, 20]) == 2
    assert count_fitting(100, 0, [101]) == 0
    assert count_fitting(100, 0, [60, 40]) == MOST


@pytest.mark.parametrize(
    ("deltas", "budget_mib", "count", "exceeds"),
    [
        # Of 1000 MiB 100 stay free, and the process takes 100.
        pytest.param([500, 300, 1], 1000, 2, False, id="two-largest-fit"),
        pytest.param([500, 300, 1], 1000, 3, True, id="more-cpus"),
        pytest.param([800], 1000, 4, False, id="only-one-test"),
        pytest.param([801, 1], 1000, 1, True, id="parts-of-one-unit"),
        pytest.param([None] * 99, 1000, 96, False, id="not-measured"),
        pytest.param([500] * 9, None, 8, False, id="no-budget"),
    ],
)
def test_units_that_do_not_fit_side_by_side(
    deltas: list[int | None], budget_mib: int | None, count: int, exceeds: bool
) -> None:
    units = [unit(f"{n}", delta) for n, delta in enumerate(deltas)]
    state = state_of(*units, budget_mib=budget_mib, suite=SUITE)
    assert exceeds_side_by_side(state, "", count) == exceeds
