from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from plan.plan_factories import ancestors, planned, suite
from plan.test_observations import history

from ciguard.codec.inventory_file import InventoryUnit, resolve_suites
from ciguard.errors import InputError, NothingToDo
from ciguard.guard.inventory_checks import base_findings
from ciguard.guard.verdict import Policy
from ciguard.history.file import History
from ciguard.history.query import BaseQuery, BaseUnitCount
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey, InventorySummary, UnitCount
from ciguard.plan.history_inputs import base_count_with_files
from ciguard.plan.inventory import file_of, inventory, with_base_counts
from ciguard.plan.planner import Provenance

A, B, C = InventoryUnit("a.py::A::t"), InventoryUnit("b.py::t[x]"), InventoryUnit("c", file="d/c.x")

WALLS_S = {f"t{number:02}": 10.0 + number % 7 for number in range(40)}


def test_units_are_sorted_by_key_with_their_run_order() -> None:
    found = inventory([C, A, B], exclude={}, ordered=True)
    assert found.units == (A, B, C)
    assert found.run_order == (1, 2, 0)
    assert inventory([C, A, B], exclude={}, ordered=False).run_order == (0, 1, 2)


def test_every_file_is_counted_including_empty_ones() -> None:
    found = inventory([A, B, C], exclude={"": ["b*"]}, files=["a.py", "empty.py"], ordered=True)
    assert found.summary().files == {"a.py": 1, "b.py": 1, "d/c.x": 1, "empty.py": 0}


def test_excluded_unit_is_listed_with_its_rule_and_counted() -> None:
    found = inventory([A, B, C], exclude={"": ["b.py::t[x]", "*::A::*"]}, ordered=True)
    assert found.units == (C,)
    assert [(one.unit, one.rule) for one in found.excluded] == [
        ("a.py::A::t", "exclude: *::A::*"),
        ("b.py::t[x]", "exclude: b.py::t[x]"),
    ]
    assert found.summary().collected == 3
    everything = inventory([A, B, C], exclude={}, ordered=True)
    assert found.summary().hash == everything.summary().hash


def test_inventory_hash_is_that_of_the_sorted_keys() -> None:
    keys = [["", "", "a.py::A::t"], ["s", "v", "b"]]
    units = [InventoryUnit("b", "s", "v"), A]
    found = inventory(units, exclude={}, ordered=True).summary().hash
    assert found == hashlib.sha256(json.dumps(keys).encode()).hexdigest()


def test_repeated_unit_is_rejected_by_name() -> None:
    with pytest.raises(InputError, match=r"listed more than once: a\.py::A::t"):
        inventory([A, B, A], exclude={}, ordered=True)
    inventory(
        [A, InventoryUnit(A.unit, "s"), InventoryUnit(A.unit, "", "v")], exclude={}, ordered=True
    )


def test_empty_inventory_is_nothing_to_do() -> None:
    with pytest.raises(NothingToDo, match="there is no test"):
        inventory([], exclude={}, ordered=True)
    with pytest.raises(NothingToDo, match="all 1 tests are excluded"):
        inventory([A], exclude={"": ["*"]}, ordered=True)


@pytest.mark.parametrize(
    ("unit", "file"),
    [
        (A, "a.py"),
        (C, "d/c.x"),
        (InventoryUnit("Ns.Class.Method"), None),
        (InventoryUnit("::t"), None),
    ],
)
def test_the_file_of_a_unit(unit: InventoryUnit, file: str | None) -> None:
    assert file_of(unit) == file


def test_listing_may_omit_the_only_suite_or_variant() -> None:
    one = {"unit": suite(0.0, None, "net10")}
    (found,) = resolve_suites([InventoryUnit("a")], one, "file")
    assert found.key == ("unit", "net10", "a")
    two = {"unit": suite(0.0, None, "net10", "net471"), "more": suite()}
    with pytest.raises(InputError, match=r"(?s)no suite ''.*there are 'more', 'unit'"):
        resolve_suites([InventoryUnit("a")], two, "file")
    with pytest.raises(InputError, match=r"(?s)no variant ''.*'net10', 'net471'"):
        resolve_suites([InventoryUnit("a", "unit")], two, "file")


def test_folder_of_test_files_can_be_the_place_of_units() -> None:
    units = [InventoryUnit("m.TestA", file="."), InventoryUnit("m/p.TestA", file="p"), C]
    files = ["a_test.go", "p/a_test.go", "p/b_test.go", "q/a_test.go"]
    found = inventory(units, exclude={}, files=files, ordered=True)
    assert found.folders == {".", "p"}
    assert dict(zip(found.file_names, found.in_folder() or (), strict=True)) == {
        ".": True,
        "p": True,
        "d/c.x": False,
    }
    assert found.files == {".": 1, "p": 1, "d/c.x": 1, "q/a_test.go": 0}
    assert inventory([A], exclude={}, files=["a.py"], ordered=True).in_folder() is None


def test_siblings_share_suite_and_variant() -> None:
    of_suite = {"s": ancestors, "t": ancestors}
    units = [
        InventoryUnit("f::a", "s"),
        InventoryUnit("f::a", "s", "v"),
        InventoryUnit("f::a", "t"),
    ]
    several = inventory(units, exclude={}, ordered=True).ancestors(of_suite)
    assert len({name for position in range(3) for name in several(position)}) == 6


@pytest.mark.parametrize("suites", [("",), ("one", "two")])
def test_members_of_an_ancestor_match_a_full_search(suites: tuple[str, ...]) -> None:
    ids = ("a.py::t", "a.py::t2", "a.py::C::t", "a.py::C::t[x]", "a.pyc::t", "b/a.py::t", "\ud800")
    units = [InventoryUnit(unit, suite) for unit in ids for suite in suites]
    there = inventory(units, exclude={}, ordered=True)
    of_suite = dict.fromkeys(suites, ancestors)
    names, members = there.ancestors(of_suite), there.members(of_suite)
    for position in range(len(units)):
        for name in names(position):
            requested = [other for other in range(len(units)) if name in names(other)]
            assert members(name) == requested


def test_base_count_comes_from_the_history() -> None:
    legs = tuple(HistoryLeg(f"0{n}", complete=True, planned=(UnitCount(n),)) for n in (1, 2))
    runs = (HistoryRun(7, branch="main", event="push", legs=legs),)
    keys = (CaseKey("", "", "b.py::T::t", "b.py::T::t"), CaseKey("", "", "t00", "t00"))
    known = History(history([("b.py::T::t", 0, 1.0), ("t00", 0, 1.0)]).values, runs, keys)
    suites = {"": replace(suite(), cwd="sub/.")}
    count = base_count_with_files(known, BaseQuery("main", run_id=8), suites)
    files = frozenset({"sub/b.py", "t00"})
    assert count == BaseUnitCount((UnitCount(3),), runs[0], 0, files)
    mine = BaseQuery("main", run_id=7)
    assert base_count_with_files(known, mine, suites) is None, "it is the asker itself"
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
    origin = Provenance(base=BaseUnitCount(counts, HistoryRun(7), 0))
    found = planned(units, suites=suites, pool_of=pool_of, shards=1, origin=origin).plan
    keys = {unit.key for unit in found.shards[0].units}
    fewer, gone = base_findings(found, Policy(), keys)
    assert (fewer.kind, fewer.facts["combination"]) == ("fewer_units", "emptied")
    assert (gone.kind, gone.facts["combinations"]) == ("combination_gone", ("removed",))
