from __future__ import annotations

import pytest

from ciguard.codec.history import Spelling
from ciguard.codec.inventory import InventoryUnit
from ciguard.codec.joining import Joined, join
from ciguard.model import CaseKey

UNITS = [
    InventoryUnit("pkg/test_a.py::TestX::test_m[a/b.c]"),
    InventoryUnit("pkg/test_a.py::TestX::test_n"),
    InventoryUnit("pkg/test_a.py::test_plain"),
    InventoryUnit("web/cart.spec.ts", suite="web"),
    InventoryUnit("Shop.CartTests.Adds", suite="net", variant="v1", file="src/CartTests.cs"),
    InventoryUnit("Shop.CartTests.Adds", suite="net", variant="v2", file="src/CartTests.cs"),
]


def found(unit: str, spelling: Spelling | None = None, way: str = "/") -> tuple[int, ...]:
    suite, _, variant = way.partition("/")
    key = CaseKey(suite, variant, unit, unit)
    (target,) = join([key], {key: spelling} if spelling else {}, UNITS).targets
    return target


@pytest.mark.parametrize(
    ("unit", "spelling", "way", "expected"),
    [
        ("pkg/test_a.py::test_plain", None, "/", (2,)),
        ("x", Spelling("pkg.test_a.TestX", "test_m[a/b.c]"), "/", (0,)),
        ("x", Spelling("pkg.test_a", "test_plain"), "/", (2,)),
        ("x", Spelling("TestX", "test_n", "pkg/test_a.py"), "/", (1,)),
        ("pkg\\test_a.py::TestX::test_n", None, "/", (1,)),
        ("x", Spelling("pkg.test_a", "test_gone"), "/", ()),
        ("x", Spelling("Shop.CartTests", "Adds"), "net/v2", (5,)),
        ("x", Spelling("Shop.CartTests", "Adds"), "net/v3", ()),
        ("x", Spelling("Cart", "adds one", "web/cart.spec.ts"), "web/", (3,)),
        ("pkg/test_a.py", Spelling(file="pkg/test_a.py"), "/", (0, 1, 2)),
        ("pkg/test_a", Spelling(file="pkg/test_a"), "/", (0, 1, 2)),
        ("x", Spelling("TestX", None, "pkg/test_a"), "/", (0, 1)),
        ("src/CartTests.cs", Spelling(file="src/CartTests.cs"), "net/v1", (4,)),
        ("pkg/test_a.py::test_gone", Spelling(file="pkg/test_a.py"), "/", ()),  # no total of it
        ("x", Spelling(file="web/cart.spec.ts"), "web/", (3,)),
    ],
)
def test_where_an_entry_belongs(
    unit: str, spelling: Spelling | None, way: str, expected: tuple[int, ...]
) -> None:
    assert found(unit, spelling, way) == expected


def test_a_match_that_is_not_unique_is_none() -> None:
    twins = [InventoryUnit("a/b.py::t"), InventoryUnit("a/b.rb::t")]
    key = CaseKey("", "", "a.b::t", "a.b::t")
    assert join([key], {key: Spelling("a.b", "t")}, twins).targets == ((),)


def test_the_share_that_is_joined() -> None:
    joined = Joined(((0,), (), (1, 2), (0,)))
    assert joined.share == 0.75
    assert Joined(()).share == 1.0
