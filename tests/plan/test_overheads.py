from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.history.file import CODE_NAMES, History, no_values, of_columns
from ciguard.history.runs import HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import CaseKey, Runner
from ciguard.plan.history_inputs import map_keys
from ciguard.plan.inventory import inventory
from ciguard.plan.overheads import LegCost, Overheads, observe_overheads

UNITS = ("a.py::t1", "a.py::t2", "b.py::t1", "free")


def learned(
    walls_s: dict[str, list[float]], setups_s: dict[str, list[float]] | None = None, **leg: Any
) -> Overheads:
    """One leg a run; the numbers are by unit, one a run."""
    runs = len(next(iter(walls_s.values())))
    facts: dict[str, Any] = {
        "ending": "completed",
        "complete": True,
        "runner": Runner(pool="linux"),
        "overheads": (SuiteOverhead("", "", None, 2.0),),
        **leg,
    }
    history_runs = tuple(
        HistoryRun(run + 1, legs=(HistoryLeg("01", **facts),)) for run in range(runs)
    )
    keys = sorted(walls_s)
    count = len(keys) * runs
    columns: dict[str, Any] = {
        "key": np.repeat(np.arange(len(keys), dtype=np.int32), runs),
        "run": np.tile(np.arange(runs, dtype=np.int32), len(keys)),
        "leg": np.zeros(count, np.int32),
        "outcome": np.full(count, CODE_NAMES["outcome"].index("passed"), np.uint8),
        "ending": np.full(count, CODE_NAMES["ending"].index("completed"), np.uint8),
        "measured_by": np.zeros(count, np.uint8),
        "try_number": np.ones(count, np.uint8),
        "wall_s": np.array([wall_s for key in keys for wall_s in walls_s[key]]),
    }
    if setups_s:
        columns["setup_s"] = np.array([s for key in keys for s in setups_s[key]])
    history = History(
        of_columns(columns), history_runs, tuple(CaseKey("", "", key, key) for key in keys)
    )
    there = inventory([InventoryUnit(unit) for unit in UNITS], exclude={}, ordered=True)
    return observe_overheads(history, there, map_keys(history, there).unit_of_key)


def of_legs(*reported: HistoryLeg) -> Overheads:
    """One leg a run, oldest first."""
    there = inventory([InventoryUnit(unit) for unit in UNITS], exclude={}, ordered=True)
    runs = tuple(HistoryRun(number, legs=(one,)) for number, one in enumerate(reported, 1))
    history = History(no_values(), runs, ())
    return observe_overheads(history, there, np.zeros(0, np.int64))


def leg(start_s: float, end_s: float, *costs: SuiteOverhead, **facts: Any) -> HistoryLeg:
    reported: dict[str, Any] = {"complete": True, "runner": Runner(pool="linux"), **facts}
    return HistoryLeg("01", start_s=start_s, end_s=end_s, overheads=costs, **reported)


def cost(between_s: float | None, setup_s: float = 2.0, suite: str = "") -> SuiteOverhead:
    return SuiteOverhead(suite, "", None, setup_s, 1.0, between_s)


def test_leg_overhead_is_the_median_of_its_pool() -> None:
    found = of_legs(
        leg(0.5, 0.1, cost(0.002)),
        leg(0.7, 0.3, cost(0.004)),
        leg(9.0, 0.2, cost(0.003)),
        leg(4.0, 2.0, cost(0.1), runner=Runner(pool="slow")),
        leg(99.0, 99.0, cost(9.0), complete=False),
    )
    linux = found.leg("linux")
    assert (linux.start_s, linux.end_s) == (0.7, 0.2)
    assert linux.total_s == pytest.approx(0.9)
    assert found.inter_test_gap_s("", "linux") == 0.003
    assert (found.leg("slow").start_s, found.inter_test_gap_s("", "slow")) == (4.0, 0.1)
    assert found.leg("new").start_s == 2.35, "a pool without legs is as all are"
    assert found.inter_test_gap_s("", "new") == 0.0035
    assert found.inter_test_gap_s("other suite", "linux") == 0.0


def test_leg_overhead_is_independent_of_test_durations() -> None:
    """A ratio of a short leg's wall time would be multiplied onto a long test."""
    found = of_legs(*[leg(2.0, 1.0, cost(0.0), wall_s=wall_s) for wall_s in (4.0, 400.0, 5.0)])
    assert found.leg("linux") == LegCost(2.0, 1.0)
    assert found.inter_test_gap_s("", "linux") == 0.0


def test_spread_of_leg_overheads() -> None:
    """3.2, 5.2 and 4.2 s beside the tests: 1 s off in the middle; two suites are not compared."""
    legs = [leg(0.1, 0.1, cost(0.0, setup_s)) for setup_s in (2.0, 4.0, 3.0)]
    both = leg(0.1, 0.1, cost(0.0), cost(0.0, 50.0, "slow"))
    assert of_legs(*legs).leg("linux").spread_s == pytest.approx(1.3075)
    assert of_legs(*legs, both).leg("linux").spread_s == pytest.approx(1.3075)
    assert of_legs(*legs[:2]).leg("linux").spread_s == 0.0, "two legs tell of no spread"


def test_fixture_time_of_a_file_is_that_of_most_legs() -> None:
    found = learned(
        {"a.py::t1": [1.0] * 3, "a.py::t2": [1.0] * 3, "b.py::t1": [1.0] * 3},
        {"a.py::t1": [4.0, 0.0, 3.0], "a.py::t2": [0.0, 5.0, 0.5], "b.py::t1": [9.0, 0.0, 0.0]},
        wall_s=3.0,
    )
    assert found.file == [0, 0, 1, -1]
    assert found.setup_s == [4.0, 0.0], "b was first in one leg and set up the session's"


def test_fixtures_of_units_without_a_file_are_not_charged() -> None:
    found = learned({"free": [1.0] * 3}, {"free": [2.0] * 3})
    assert list(found.setup_s) == [0.0, 0.0]


def test_no_setup_time_gives_no_overhead() -> None:
    assert learned({"a.py::t1": [1.0]}, wall_s=3.0) == Overheads()
