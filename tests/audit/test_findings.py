"""A matrix against its tests: what is in several shards, in none and why, which terms decide."""

from __future__ import annotations

import io
import json

import pytest

from ciguard.audit.filters import pytest_selection, vstest
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import TestSet, positions_in
from ciguard.audit.findings import Audit, audit
from ciguard.audit.shard_filters import NO_COMMON, HandMatrix, ShardFilter, read_json
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

UNITS = (
    InventoryUnit("App.Tests.Cart.Adds", file="tests/App/Cart.cs", categories=()),
    InventoryUnit("App.Tests.Cart.Removes", file="tests/App/Cart.cs", categories=()),
    InventoryUnit("App.Tests.Order.Pays", file="tests/App/Order.cs", categories=("Slow",)),
    InventoryUnit("App.Tests.Order.Ships", file="tests/App/Order.cs", categories=("Never",)),
    InventoryUnit("App.Tests.User.Logs", file="tests/App/User.cs", categories=()),
    InventoryUnit("Lib.Tests.Parse", file="tests/Lib/Parse.cs", categories=()),
)


def audited(*shards: dict[str, object], common: str = "", units: object = UNITS) -> Audit:
    content = json.dumps({"shards": list(shards), "global_filter": common}).encode()
    tests = TestSet(units)  # type: ignore[arg-type]
    return audit(read_json(io.BytesIO(content), "matrix.json"), Evaluator(tests, vstest))


def shard(name: str, filter_: str, project: str = "tests/App/") -> dict[str, object]:
    return {"name": name, "filter": filter_, "project": project}


def places(tests: int) -> list[int]:
    return list(positions_in(tests))


def test_tests_in_several_shards_are_counted_with_their_executions() -> None:
    found = audited(shard("a", "Cart"), shard("b", "Cart|Order"), shard("c", "Adds|User"))
    assert places(found.in_several) == [0, 1]
    assert places(found.in_any) == [0, 1, 2, 3, 4]
    assert (found.executions, found.redundant) == (8, 3)
    kinds = {(one.first, one.second): (one.kind, places(one.tests)) for one in found.overlaps}
    assert kinds == {
        (0, 1): ("contained", [0, 1]),
        (0, 2): ("overlapping", [0]),
        (1, 2): ("overlapping", [0]),
    }
    assert [places(one.own) for one in found.shards] == [[], [2, 3], [4]]


def test_project_decides_nothing_of_tests_without_files() -> None:
    """`dotnet test --list-tests` prints names only."""
    units = tuple(InventoryUnit(unit.unit, categories=()) for unit in UNITS)
    found = audited(shard("a", "Cart"), shard("b", "", project=""), units=units)
    assert [places(one.selected.sure) for one in found.shards] == [[], [0, 1, 2, 3, 4, 5]]
    assert [places(one.selected.possible) for one in found.shards] == [[0, 1], [0, 1, 2, 3, 4, 5]]
    assert (found.in_several, found.orphans) == (0, 0)


def test_tests_in_no_shard_have_the_first_reason_that_holds() -> None:
    found = audited(
        shard("a", "Cart"),
        shard("b", "Order&Category!=Slow"),
        common="(<shard filter>)&Category!=Never",
    )
    assert {reason: places(tests) for reason, tests in found.missing.items()} == {
        "outside_projects": [5],
        "common_filter": [3],
        "label": [2],
        "not_requested": [4],
    }
    assert places(found.orphans) == [2, 4]


def test_label_is_the_reason_also_where_pytest_negates_it() -> None:
    units = (
        InventoryUnit("tests/a.py::test_fast", categories=()),
        InventoryUnit("tests/a.py::test_slow", categories=("slow",)),
        InventoryUnit("tests/a.py::test_gpu", categories=("gpu",)),
        InventoryUnit("tests/b.py::test_b", categories=("slow",)),
    )
    expression = pytest_selection.parse("tests/a.py -m 'not (slow or not cpu and gpu)'", "")
    one = ShardFilter("a", "", expression)
    matrix = HandMatrix((one,), NO_COMMON, language=pytest_selection)
    found = audit(matrix, Evaluator(TestSet(units), pytest_selection))
    assert [places(found.missing[reason]) for reason in ("label", "not_requested")] == [[1, 2], [3]]


def test_term_of_which_nothing_is_known_is_named() -> None:
    units = (InventoryUnit("tests/a.py::test_a"), InventoryUnit("tests/b.py::test_b"))
    shards = [
        ShardFilter(text, text, pytest_selection.parse(text, ""))
        for text in ("tests --frobnicate x", "tests/b.py -m slow", "tests/b.py")
    ]
    matrix = HandMatrix(tuple(shards), NO_COMMON, language=pytest_selection)
    found = audit(matrix, Evaluator(TestSet(units), pytest_selection))
    assert [one.unsure for one in found.shards] == [
        (("--frobnicate", False),),
        (("slow", True),),
        (),
    ]
    assert places(found.undecided) == [0]
    assert not found.orphans


def test_equal_shards_and_empty_ones_are_told() -> None:
    found = audited(shard("a", "Cart"), shard("b", "Name=Adds|Name=Removes"), shard("c", "Nothing"))
    assert [(one.first, one.second, one.kind) for one in found.overlaps] == [(0, 1, "equal")]
    assert [one.is_empty for one in found.shards] == [False, False, True]
    assert [(one.text, one.shards) for one in found.empty_terms] == [("Nothing", (2,))]
    assert found.term_count == 4


def test_term_that_its_neighbour_makes_true_is_vacuous() -> None:
    names = ["Cart.Adds", "Cart.Buys", "Cart.Tests", "Cart.Undo"]
    units = tuple(InventoryUnit(f"Tests.{name}", categories=()) for name in names)
    found = audited(
        # `s.C` is a part of `Tests.Cart`, and of no name of a method.
        shard("a-c", "Tests.Cart&(s.A|s.B|s.C)", ""),
        shard("t-z", "Tests.Cart&(s.T|s.U)", ""),
        shard("name", "~Tests.Cart&(~s.A|~s.B|~s.C)".replace("~", "Name~"), ""),
        units=units,
    )
    assert found.vacuous_terms == ((0, ("s.C",)),)


def test_only_term_of_a_shard_is_meant_to_select_all() -> None:
    units = (InventoryUnit("tests/a.py::test_a", categories=()),)
    for text, expected in (("tests", ()), ("tests tests/a.py", ("tests", "tests/a.py"))):
        one = ShardFilter("rest", text, pytest_selection.parse(text, ""))
        matrix = HandMatrix((one,), NO_COMMON, language=pytest_selection)
        found = audit(matrix, Evaluator(TestSet(units), pytest_selection))
        assert tuple(term for one in found.vacuous_terms for term in one.terms) == expected


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "m.json:1:2: malformed JSON"),
        (b"{}", "m.json: no list of shards"),
        (b'{"shards": []}', "m.json: no list of shards"),
        (b'{"shards": [3]}', "m.json: shards[0]: expected an object, found 3"),
        (b'{"shards": [{"filter": "A"}]}', "m.json: shards[0]: a shard has no name"),
        (b'{"shards": [{"name": "a", "filter": 3}]}', "m.json: shards[0].filter: expected a text"),
        (
            b'{"shards": [{"name": "a", "timeout_minutes": 1e999}]}',
            "m.json: shards[0].timeout_minutes: out of range: inf",
        ),
        (
            b'{"shards": [{"name": "a", "filter": "(A"}]}',
            "m.json: shards[0] (a): no closing parenthesis at column 3",
        ),
        (b'{"shards": [{"name": "a"}, {"name": "a"}]}', "m.json: 2 shards are named 'a'"),
        (
            b'{"shards": [{"name": "a"}], "global_filter": "B"}',
            "m.json: global_filter: <shard filter> does not occur once in it",
        ),
    ],
)
def test_matrix_that_cannot_be_read_is_refused_with_its_place(content: bytes, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        read_json(io.BytesIO(content), "m.json")
    assert str(raised.value).startswith(problem)
