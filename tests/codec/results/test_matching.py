from __future__ import annotations

import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.results.base import ExternalName
from ciguard.codec.results.matching import match_units
from ciguard.model import CaseKey

UNITS = [
    InventoryUnit("pkg/test_a.py::TestX::test_m[a/b.c]"),
    InventoryUnit("pkg/test_a.py::TestX::test_n"),
    InventoryUnit("pkg/test_a.py::test_plain"),
    InventoryUnit("web/cart.spec.ts", suite="web"),
    InventoryUnit("Shop.CartTests.Adds", suite="net", variant="v1", file="src/CartTests.cs"),
    InventoryUnit("Shop.CartTests.Adds", suite="net", variant="v2", file="src/CartTests.cs"),
    InventoryUnit("Sums.Adds", suite="c"),
    InventoryUnit("shop.CartTest", suite="j"),
    InventoryUnit("example.test/m.TestA", suite="go"),
    InventoryUnit("example.test/m.TestA/sub", suite="go"),
    InventoryUnit("example.test/m.TestA/a::b[c/d]", suite="go"),
    InventoryUnit("example.test/m/v2.5/deep.TestA", suite="go"),
    InventoryUnit("gopkg.test/yaml.v3.TestA", suite="go"),
    InventoryUnit("example/test/m.TestA", suite="go"),
    InventoryUnit("alone.TestA/sub", suite="go"),
    InventoryUnit("web/cart.spec.ts", suite="go"),
    InventoryUnit("[chromium] e2e/cart.spec.ts", suite="pw"),
    InventoryUnit("[webkit] e2e/cart.spec.ts", suite="pw"),
    InventoryUnit("shop::prices tests::adds", suite="rust"),
]


def found(unit: str, spelling: ExternalName | None = None, suite_key: str = "/") -> tuple[int, ...]:
    suite, _, variant = suite_key.partition("/")
    key = CaseKey(suite, variant, unit, unit)
    (target,) = match_units([key], {key: spelling} if spelling else {}, UNITS)
    return target


@pytest.mark.parametrize(
    ("unit", "spelling", "suite_key", "expected"),
    [
        ("pkg/test_a.py::test_plain", None, "/", (2,)),
        ("x", ExternalName("pkg.test_a.TestX", "test_m[a/b.c]"), "/", (0,)),
        ("x", ExternalName("pkg.test_a", "test_plain"), "/", (2,)),
        ("x", ExternalName("TestX", "test_n", "pkg/test_a.py"), "/", (1,)),
        ("pkg\\test_a.py::TestX::test_n", None, "/", (1,)),
        ("x", ExternalName("pkg.test_a", "test_gone"), "/", ()),
        ("x", ExternalName("Shop.CartTests", "Adds"), "net/v2", (5,)),
        ("x", ExternalName("Shop.CartTests", "Adds"), "net/v3", ()),
        ("x", ExternalName("Cart", "adds one", "web/cart.spec.ts"), "web/", (3,)),
        ("pkg/test_a.py", ExternalName(file="pkg/test_a.py"), "/", (0, 1, 2)),
        ("pkg/test_a", ExternalName(file="pkg/test_a"), "/", (0, 1, 2)),
        ("src/CartTests.cs", ExternalName(file="src/CartTests.cs"), "net/v1", (4,)),
        ("pkg/test_a.py::test_gone", ExternalName(file="pkg/test_a.py"), "/", ()),  # no total of it
        ("x", ExternalName(file="web/cart.spec.ts"), "web/", (3,)),
        ("x", ExternalName("web.cart", "adds one", "./web/cart.spec.ts"), "web/", (3,)),  # RSpec
        ("x", ExternalName("web/cart.spec.ts", "adds > one"), "web/", (3,)),  # Vitest
        ("x", ExternalName("Sums.Adds", "Sums.Adds"), "c/", (6,)),  # CTest
        ("x", ExternalName("shop.CartTest", "adds"), "j/", (7,)),  # a class is the unit
        ("x", ExternalName("example.test/m", "TestA"), "go/", (8,)),  # gotestsum
        ("x", ExternalName("example.test/m", "TestA/sub"), "go/", (9,)),
        ("x", ExternalName("example.test/m", "TestA/a::b[c/d]"), "go/", (10,)),
        ("x", ExternalName("example.test/m/v2.5/deep", "TestA"), "go/", (11,)),
        ("x", ExternalName("gopkg.test/yaml.v3", "TestA"), "go/", (12,)),
        ("x", ExternalName("example/test/m", "TestA"), "go/", (13,)),
        ("x", ExternalName("alone", "TestA/sub"), "go/", (14,)),
        ("x", ExternalName("example.test/m", "TestA/other"), "go/", ()),
        ("x", ExternalName("example.test/m/TestA", "sub"), "go/", ()),
        ("x", ExternalName("example.test.m", "TestA"), "go/", ()),
        ("x", ExternalName("example.test/m", None), "go/", ()),
        ("x", ExternalName("web/cart.spec", "ts > one"), "go/", ()),
        ("x", ExternalName("pkg/test_a", "test_plain"), "/", (2,)),
        ("x", ExternalName("Cart", "adds", "/home/w/r/web/cart.spec.ts"), "web/", (3,)),
        ("x", ExternalName("Cart", "adds", "D:\\a\\r\\web\\cart.spec.ts"), "web/", (3,)),
        ("x", ExternalName("Cart", "adds", "/home/w/r/xweb/cart.spec.ts"), "web/", ()),
        ("x", ExternalName("Cart", "adds", "r/web/cart.spec.ts"), "web/", ()),  # not absolute
        ("x", ExternalName("[webkit] /w/e2e/cart.spec.ts", "adds"), "pw/", (17,)),
        ("x", ExternalName("[firefox] /w/e2e/cart.spec.ts", "adds"), "pw/", ()),
        ("x", ExternalName("shop::prices", "tests::adds"), "rust/", (18,)),  # nextest
    ],
)
def test_entry_matches_the_expected_unit(
    unit: str, spelling: ExternalName | None, suite_key: str, expected: tuple[int, ...]
) -> None:
    assert found(unit, spelling, suite_key) == expected


def test_ambiguous_match_is_no_match() -> None:
    twins = [InventoryUnit("a/b.py::t"), InventoryUnit("a/b.rb::t")]
    key = CaseKey("", "", "a.b::t", "a.b::t")
    assert match_units([key], {key: ExternalName("a.b", "t")}, twins) == [()]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("/w/test/a.js", "/w/a.js", "/w/test/b.js"), [(1,), (0,), (2,)]),
        (("/w/test/a.js",), [(1,)]),
        (("/w/a.js",), [(0,)]),
        (("/w/test/b.js", "/w/x/a.js", "/v/a.js"), [(2,), (), (0,)]),  # x/a.js is not planned
        (("/w/x/test/b.js", "/w/x/test/a.js", "/w/a.js"), [(2,), (1,), ()]),
        (("/w/test/b.js", "C:\\w\\test\\b.js"), [(2,), (2,)]),
    ],
)
def test_absolute_path_counts_from_the_folder_with_most_units(
    files: tuple[str, ...], expected: list[tuple[int, ...]]
) -> None:
    units = [InventoryUnit(unit) for unit in ("a.js", "test/a.js", "test/b.js")]
    keys = [CaseKey("", "", file, file) for file in files]
    spellings = {key: ExternalName("C", "t", key.unit) for key in keys}
    assert match_units(keys, spellings, units) == expected
