from __future__ import annotations

from dataclasses import replace

from plan.plan_factories import planned, suite
from plan.test_observations import history

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.guard.combinations import base_findings
from ciguard.guard.verdict import Policy
from ciguard.history.file import History
from ciguard.history.query import BaseQuery
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey, InventorySummary, UnitCount
from ciguard.plan.base_count import BaseCount, base_count_of_history, with_base_counts
from ciguard.plan.planner import Provenance

WALLS_S = {f"t{number:02}": 10.0 + number % 7 for number in range(40)}


def test_base_count_comes_from_the_history() -> None:
    legs = tuple(HistoryLeg(f"0{n}", complete=True, planned=(UnitCount(n),)) for n in (1, 2))
    runs = (HistoryRun(7, branch="main", event="push", legs=legs),)
    keys = (CaseKey("", "", "b.py::T::t", "b.py::T::t"), CaseKey("", "", "t00", "t00"))
    known = History(history([("b.py::T::t", 0, 1.0), ("t00", 0, 1.0)]).values, runs, keys)
    suites = {"": replace(suite(), cwd="sub/.")}
    count = base_count_of_history(known, BaseQuery("main", run_id=8), suites)
    files = frozenset({"sub/b.py", "t00"})
    assert count == BaseCount((UnitCount(3),), "run 7 of main", files=files)
    mine = BaseQuery("main", run_id=7)
    assert base_count_of_history(known, mine, suites) is None, "it is the asker itself"
    found = planned(WALLS_S, shards=4, origin=Provenance(base=count)).plan.inventory
    assert (found.base_units, found.base_source) == ((UnitCount(3),), "run 7 of main")
    assert planned(WALLS_S, shards=4).plan.inventory.base_units == ()
    there = InventorySummary(1, {"sub/b.py": 0, "sub/c.py": 0, "d.py": 1, "e/t00.java": 0}, "0")
    assert with_base_counts(there, count).files_without_units == ("e/t00.java", "sub/b.py")


def test_suite_that_has_no_unit_any_more_is_a_loss_and_one_not_configured_is_told() -> None:
    suites = {"one": suite(), "emptied": suite()}
    counts = tuple(UnitCount(5, name) for name in (*suites, "removed"))
    units = [(InventoryUnit(f"t{number}", "one"), 1.0) for number in range(5)]
    pool_of = dict.fromkeys(suites, "linux")
    origin = Provenance(base=BaseCount(counts, "run 7"))
    found = planned(units, suites=suites, pool_of=pool_of, shards=1, origin=origin).plan
    keys = {unit.key for unit in found.shards[0].units}
    fewer, gone = base_findings(found, Policy(), keys)
    assert (fewer.kind, fewer.facts["combination"]) == ("fewer_units", "emptied")
    assert (gone.kind, gone.facts["combinations"]) == ("combination_gone", ("removed",))
