"""Filters of `dotnet test`: known answers, refusals, and agreement with a plain reading of them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ciguard.audit.filters import vstest
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import TestSet, positions_in
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

UNITS = (
    InventoryUnit("Shop.Cart.Adds", categories=("Unit",)),
    InventoryUnit("Shop.Cart.Removes(n: 1, m: 2)", categories=("Unit", "Slow")),
    InventoryUnit("Shop.Cart.Removes(n: 2, m: 2)", categories=()),
    InventoryUnit("Shop.Order.Adds", categories=("GPU",), traits={"Owner": "Ada"}),
    InventoryUnit("Bank.Tests.Order", categories=(), traits={"Priority": "1"}),
)
ALL = (0, 1, 2, 3, 4)


def selected(text: str, units: tuple[InventoryUnit, ...] = UNITS) -> tuple[int, ...]:
    found = Evaluator(TestSet(units), vstest).select(vstest.parse(text, "filter"))
    assert found.is_known
    return tuple(positions_in(found.sure))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ALL),
        ("   ", ALL),
        ("Cart", (0, 1, 2)),
        ("cART", (0, 1, 2)),
        ("FullyQualifiedName~Shop.Cart", (0, 1, 2)),
        ("fullyqualifiedname = shop.order.adds", (3,)),
        ("FullyQualifiedName=Shop.Order", ()),
        ("FullyQualifiedName!=Shop.Order.Adds", (0, 1, 2, 4)),
        ("FullyQualifiedName!~Order", (0, 1, 2)),
        ("Name=Adds", (0, 3)),
        ("DisplayName~Removes", (1, 2)),
        ("ClassName=Shop.Cart", (0, 1, 2)),
        ("ClassName~Tests", (4,)),
        ("Category=Unit", (0, 1)),
        ("TestCategory=unit", (0, 1)),
        ("Category~lo", (1,)),
        # What has no category differs from each of them.
        ("Category!=Unit", (2, 3, 4)),
        ("Category!~GPU", (0, 1, 2, 4)),
        ("Owner=Ada", (3,)),
        ("Owner!=Ada", (0, 1, 2, 4)),
        ("Priority=1", (4,)),
        # `&` first, from left to right, whatever blanks are there.
        ("Name=Adds|Category=Slow&Category=GPU", (0, 3)),
        ("(Name=Adds|Category=Slow)&Category=Unit", (0, 1)),
        (" ( Name = Adds | Category = Slow ) & Category = Unit ", (0, 1)),
        ("((((Cart))))&Adds", (0,)),
        ("Cart&Adds|Order&Adds", (0, 3)),
        (r"Removes\(n: 1, m: 2\)", (1,)),
        (r"Name~\(n: 2", (2,)),
    ],
)
def test_filter_selects_what_dotnet_test_runs(text: str, expected: tuple[int, ...]) -> None:
    assert selected(text) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A&", "a condition is missing at column 3"),
        ("|A", "a condition is missing at column 1"),
        ("A&&B", "a condition is missing at column 3"),
        ("()", "a condition is missing at column 2"),
        ("(A", "no closing parenthesis at column 3"),
        ("A)", "no opening parenthesis before ')' at column 2"),
        ("A(B)", "no operator before '(' at column 2"),
        ("Name=", "no condition: 'Name=' at column 1"),
        ("=x", "no condition: '=x' at column 1"),
        ("Name==x", "no condition: 'Name==x' at column 1"),
        ("A&Name!x", "no condition: 'Name!x' at column 3"),
        (r"a\b", "a backslash before 'b', which needs none, at column 1"),
        ("a\\", "a backslash before '', which needs none, at column 1"),
        ("(" * 300 + "A" + ")" * 300, "more than 200 parentheses inside each other at column 202"),
    ],
)
def test_filter_that_dotnet_test_refuses_is_refused_with_the_column(
    text: str, problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        vstest.parse(text, "shard a")
    assert str(raised.value).startswith(f"shard a: {problem}")


def test_category_of_a_list_without_categories_decides_nothing() -> None:
    tests = TestSet([InventoryUnit("Shop.Cart"), InventoryUnit("Shop.Order")])
    found = Evaluator(tests, vstest).select(vstest.parse("Cart&Category!=GPU", ""))
    assert (list(positions_in(found.sure)), list(positions_in(found.possible))) == ([], [0])


def test_trait_of_a_list_with_categories_only_decides_nothing() -> None:
    tests = TestSet([InventoryUnit("Shop.Cart", categories=())])
    select = Evaluator(tests, vstest).select
    assert tuple(select(vstest.parse("Priority=1", ""))) == (0, 1)
    assert tuple(select(vstest.parse("Category=GPU", ""))) == (0, 0)


def test_category_may_be_listed_as_a_trait() -> None:
    tests = TestSet([InventoryUnit("Shop.Cart", traits={"Category": "GPU"})])
    assert tuple(Evaluator(tests, vstest).select(vstest.parse("Category=gpu", ""))) == (1, 1)


# What a filter means, read one test at a time: the definition that the sets must agree with.
PROPERTIES = ("FullyQualifiedName", "Name", "ClassName", "Category", "Owner")
WORDS = st.sampled_from(["a", "B", "ab", "A.b", "b.A", "Aa"])
CONDITIONS = st.tuples(st.sampled_from(PROPERTIES), st.sampled_from(["=", "!=", "~", "!~"]), WORDS)
TREES = st.recursive(
    CONDITIONS,
    lambda inner: st.tuples(st.sampled_from("&|"), st.lists(inner, min_size=2, max_size=3)),
    max_leaves=8,
)
TESTS = st.lists(
    st.builds(
        InventoryUnit,
        unit=st.sampled_from(["a.b.A", "A.b.b", "aA.ab", "b", "ab.ab", "B.a(x.y)"]),
        categories=st.lists(WORDS, max_size=2).map(tuple),
        traits=st.one_of(st.just({}), st.fixed_dictionaries({"Owner": WORDS})),
    ),
    max_size=6,
)


def written(tree: tuple[object, ...]) -> str:
    if isinstance(tree[1], list):
        return f" {tree[0]} ".join(f"({written(part)})" for part in tree[1])
    return "".join(map(str, tree))


def holds(tree: tuple[object, ...], unit: InventoryUnit) -> bool:
    if isinstance(tree[1], list):
        answers = [holds(part, unit) for part in tree[1]]
        return all(answers) if tree[0] == "&" else any(answers)
    name, operator, value = map(str, tree)
    head = unit.unit.split("(")[0]
    last = head.rindex(".") if "." in head else -1
    values = {
        "FullyQualifiedName": [unit.unit],
        "ClassName": [unit.unit[: max(last, 0)]],
        "Name": [unit.unit[last + 1 :]],
        "Category": list(unit.categories or ()),
        "Owner": [text for key, text in (unit.traits or {}).items() if key == "Owner"],
    }[name]
    texts = [text.lower() for text in values]
    is_met = (
        any(value.lower() in text for text in texts)
        if operator.endswith("~")
        else value.lower() in texts
    )
    return is_met != operator.startswith("!")


@given(TREES, TESTS)
def test_sets_agree_with_a_reading_test_by_test(
    tree: tuple[object, ...], units: list[InventoryUnit]
) -> None:
    expected = tuple(place for place, unit in enumerate(units) if holds(tree, unit))
    assert selected(written(tree), tuple(units)) == expected


@given(st.text(alphabet="ab=!~&|()\\ .", max_size=30))
def test_any_text_is_a_filter_or_an_input_error(text: str) -> None:
    # Another exception than this one fails the test.
    with contextlib.suppress(InputError):
        assert selected(text, ()) == ()
