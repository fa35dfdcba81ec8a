from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from plan.plan_factories import suite

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.base import ExternalName
from ciguard.history.file import History, of_columns
from ciguard.history.runs import HistoryLeg, HistoryRun, SuiteOverhead
from ciguard.model import CaseKey
from ciguard.plan.estimates import WINDOW, Observations
from ciguard.plan.history_inputs import join_history, map_keys, with_process_costs
from ciguard.plan.inventory import Inventory, inventory

NAN = float("nan")
PASSED, COMPLETED, TIMEOUT = 1, 1, 2
UP = HistoryLeg("01", complete=True)
DOWN = HistoryLeg("02", complete=False)
Row = tuple[str, int, float]  # "unit" or "unit|case", run, wall_s


def history(
    rows: list[Row],
    runs: int = 0,
    leg: int = 0,
    spelled: dict[str, ExternalName] | None = None,
    **more: Any,
) -> History:
    """Rows by unit and run; every run has a leg that ended and one that did not."""
    keys = sorted({key_of(name) for name, _, _ in rows})
    rows = sorted(rows, key=lambda row: (key_of(row[0]), row[1]))
    count = len(rows)
    columns: dict[str, Any] = {
        "key": np.array([keys.index(key_of(name)) for name, _, _ in rows], np.int32),
        "run": np.array([run for _, run, _ in rows], np.int32),
        "leg": np.full(count, leg, np.int32),
        "outcome": np.full(count, PASSED, np.uint8),
        "ending": np.full(count, COMPLETED, np.uint8),
        "measured_by": np.zeros(count, np.uint8),
        "try_number": np.ones(count, np.uint8),
        "wall_s": np.array([wall_s for _, _, wall_s in rows]),
        **{name: np.array(column, np.float64) for name, column in more.items()},
    }
    number = runs or max((run for _, run, _ in rows), default=0) + 1
    known = tuple(HistoryRun(run + 1, legs=(UP, DOWN)) for run in range(number))
    spellings = {key_of(name): spelling for name, spelling in (spelled or {}).items()}
    return History(of_columns(columns), known, tuple(keys), spellings)


def key_of(name: str) -> CaseKey:
    unit, _, case = name.partition("|")
    return CaseKey("", "", unit, case or unit)


def there(*units: str) -> Inventory:
    return inventory([InventoryUnit(unit) for unit in units], exclude={}, ordered=True)


def joined(past: History, *units: str) -> tuple[Observations, int]:
    """Rows of existing units, and the number of matching keys."""
    mapping = map_keys(past, there(*units))
    return join_history(past, mapping), mapping.matched


def test_rows_are_ordered_by_unit_and_run() -> None:
    found, share = joined(history([("b", 1, 4.0), ("b", 0, 3.0), ("gone", 0, 9.0)]), "a", "b")
    assert found.unit.tolist() == [1, 1]
    assert found.wall_s.tolist() == [3.0, 4.0]
    assert share == 1


def test_unit_sums_its_cases_and_takes_their_largest_peak() -> None:
    rows = [("a|1", 0, 1.0), ("a|2", 0, 2.0), ("a|1", 1, 5.0)]
    found, _ = joined(history(rows, peak_delta_bytes=[7, 1, 9], retained_bytes=[1, 2, -1]), "a")
    assert found.wall_s.tolist() == [3.0, 5.0]
    assert found.peak_delta_bytes.tolist() == [9.0, 1.0]
    assert found.retained_bytes.tolist() == [0.0, 2.0]


def test_stopped_units_and_dead_legs_give_lower_bounds() -> None:
    stopped = history([("a", 0, 1.0), ("a", 1, 2.0)])
    endings = np.array([COMPLETED, TIMEOUT], np.uint8)
    stopped = replace(stopped, values=replace(stopped.values, ending=endings))
    assert joined(stopped, "a")[0].is_lower_bound.tolist() == [False, True]
    assert joined(history([("a", 0, 1.0)], leg=1), "a")[0].is_lower_bound.tolist() == [True]


def test_only_the_last_clean_values_and_all_bounds_are_used() -> None:
    rows = [("a", run, float(run)) for run in range(20)]
    found, _ = joined(history(rows), "a")
    assert found.wall_s.tolist() == [float(run) for run in range(20 - WINDOW, 20)]
    assert len(joined(history(rows, leg=1), "a")[0].wall_s) == 20


def test_times_are_normalised_to_the_common_speed() -> None:
    units = [f"t{number:02}" for number in range(25)]
    rows = [(unit, run, 1.3 if run == 3 else 1.0) for unit in units for run in range(5)]
    found, _ = joined(history(rows), *units)
    assert found.wall_s == pytest.approx(np.ones(len(rows)))
    assert 0.05 < found.speed_spread < 0.2


def test_names_of_another_tool_are_matched() -> None:
    spelled = {"pkg.mod.C::t": ExternalName("pkg.mod.C", "t")}
    found, share = joined(
        history([("pkg.mod.C::t", 0, 2.0)], spelled=spelled), "pkg/mod.py::C::t", "x"
    )
    assert found.unit.tolist() == [0]
    assert share == 1


def test_total_is_divided_among_the_unmeasured_units() -> None:
    """A file's 6 s for three units is 2 s each, but for one that was measured by itself."""
    spelled = {"a.py": ExternalName(file="a.py")}
    rows = [("a.py", 0, 6.0), ("a.py::C::x", 0, 0.5)]
    found, share = joined(
        history(rows, spelled=spelled, peak_delta_bytes=[9, 5]),
        "a.py::C::x",
        "a.py::C::y",
        "a.py::C::z",
    )
    assert found.unit.tolist() == [0, 1, 2]
    assert found.wall_s.tolist() == [0.5, 2.0, 2.0]
    assert found.peak_delta_bytes.tolist()[0] == 5.0
    assert np.isnan(found.peak_delta_bytes[1:]).all(), "a peak cannot be divided"
    assert share == 2


def test_empty_history_gives_no_rows() -> None:
    empty = history([])
    found, share = joined(empty, "a")
    assert len(found.unit) == 0
    assert share == 0


def test_suite_overhead_is_the_median_of_completed_legs() -> None:
    def run(number: int, complete: bool, *costs: SuiteOverhead) -> HistoryRun:
        return HistoryRun(number, legs=(HistoryLeg("01", complete=complete, overheads=costs),))

    runs = (
        run(1, True, SuiteOverhead("s", "x", 10, 1.0), SuiteOverhead("s", "y", 90, 3.0)),
        run(2, True, SuiteOverhead("s", "x", 20, 2.0, 0.25)),
        run(3, True, SuiteOverhead("s", "x", 30, None)),
        run(4, False, SuiteOverhead("s", "x", 999, 999.0)),
    )
    suites = {"s": suite(0.0, None, "x", "y"), "new": suite()}
    found = with_process_costs(suites, replace(history([]), runs=runs))
    assert (found["s"].base_bytes, found["s"].setup_s) == (90, 3.0)
    assert found["s"].teardown_s == 0.25
    assert (found["new"].base_bytes, found["new"].setup_s) == (None, 0.0)


def test_bounds_of_a_unit_combine_those_of_its_cases() -> None:
    rows = [("a|1", 0, 1.0), ("a|2", 0, 1.0), ("b|1", 0, 1.0), ("b|2", 0, 1.0)]
    measured: dict[str, Any] = {
        "peak_delta_bytes": [NAN, 7.0, NAN, NAN],
        "peak_lower_bytes": [2.0, NAN, 3.0, 4.0],
        "peak_upper_bytes": [9.0, NAN, 8.0, NAN],
    }
    found, _ = joined(history(rows, **measured), "a", "b")
    assert found.lower_bound_bytes.tolist() == [2.0, 4.0]
    assert found.upper_bound_bytes[0] == 9.0
    assert np.isnan(found.upper_bound_bytes[1]), "one of its cases may have needed anything"


def test_no_bounds_without_bounded_values() -> None:
    found, _ = joined(history([("a", 0, 1.0)]), "a")
    assert np.isnan([*found.lower_bound_bytes, *found.upper_bound_bytes]).all()
