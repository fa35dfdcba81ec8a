from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ciguard.codec.history import WORDS, History, of_columns
from ciguard.codec.history_runs import HistoryLeg, HistoryRun, SuiteCost
from ciguard.codec.inventory import InventoryUnit
from ciguard.model import CaseKey, Runner
from ciguard.plan.inventory import inventory
from ciguard.plan.overheads import MOST_RATIO, Overheads, overheads
from ciguard.plan.past import places_of

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
        "costs": (SuiteCost("", "", None, 2.0),),
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
        "outcome": np.full(count, WORDS["outcome"].index("passed"), np.uint8),
        "ending": np.full(count, WORDS["ending"].index("completed"), np.uint8),
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
    return overheads(history, there, places_of(history, there).unit_of_key)


def test_a_legs_time_beside_its_tests_is_a_ratio() -> None:
    """33 s of a leg, 2 s of them its start and 1 s a fixture: 30 s for 20 s of tests."""
    found = learned({"a.py::t1": [20.0] * 3}, {"a.py::t1": [1.0] * 3}, wall_s=33.0)
    assert found.ratio == {("", "linux"): 1.5}


@pytest.mark.parametrize(
    ("walls_s", "leg", "expected"),
    [
        ([20.0] * 2, {"wall_s": 32.0}, None),  # two legs are too few
        ([1.0] * 3, {"wall_s": 32.0}, None),  # so is a second of tests
        ([20.0] * 3, {"wall_s": 32.0, "complete": False}, None),
        ([20.0] * 3, {"wall_s": 32.0, "units_planned": 2}, None),  # one value is gone by now
        ([20.0] * 3, {"wall_s": 12.0, "processes": 2}, 1.0),
        ([20.0] * 3, {"wall_s": 15.0}, 1.0),  # xdist inside: no leg is faster than its tests
        ([20.0] * 3, {"wall_s": 500.0}, MOST_RATIO),
    ],
)
def test_what_a_ratio_is_learned_from(
    walls_s: list[float], leg: dict[str, Any], expected: float | None
) -> None:
    found = learned({"a.py::t1": walls_s}, **leg)
    assert found.ratio.get(("", "linux")) == expected


def test_a_files_fixtures_are_what_most_legs_show() -> None:
    found = learned(
        {"a.py::t1": [1.0] * 3, "a.py::t2": [1.0] * 3, "b.py::t1": [1.0] * 3},
        {"a.py::t1": [4.0, 0.0, 3.0], "a.py::t2": [0.0, 5.0, 0.5], "b.py::t1": [9.0, 0.0, 0.0]},
        wall_s=3.0,
    )
    assert found.file == [0, 0, 1, -1]
    assert found.setup_s == [4.0, 0.0], "b was first in one leg and set up the session's"


def test_fixtures_of_units_that_are_in_no_file_are_charged_to_nobody() -> None:
    found = learned({"free": [1.0] * 3}, {"free": [2.0] * 3})
    assert list(found.setup_s) == [0.0, 0.0]


def test_without_any_set_up_nothing_is_charged() -> None:
    assert learned({"a.py::t1": [1.0]}, wall_s=3.0) == Overheads()
