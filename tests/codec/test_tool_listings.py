"""What test tools print when they list their tests, each in its own shape."""

from __future__ import annotations

import pytest

from ciguard.codec.tool_listings import LISTINGS, read_listing

DOTNET = """\
  Determining projects to restore...
  App.Tests -> /src/App.Tests/bin/Debug/net8.0/App.Tests.dll
Test run for /src/App.Tests/bin/Debug/net8.0/App.Tests.dll (.NETCoreApp,Version=v8.0)

The following Tests are available:
    App.Tests.Cart.Adds
    App.Tests.Cart.Removes(n: 1, m: "a b")
Test run for /src/Lib.Tests/bin/Debug/net8.0/Lib.Tests.dll (.NETCoreApp,Version=v8.0)

The following Tests are available:
    Lib.Tests.Parse
"""
PYTEST = """\
tests/test_a.py::test_one
tests/test_a.py::test_two[a b::c]
tests/sub/test_b.py::TestC::test_d

=============================== warnings summary ===============================
tests/test_a.py::test_one: a warning
3 tests collected in 0.02s
"""
GO = """\
?   \texample.org/shop/none\t[no test files]
TestAdds
TestRemoves
BenchmarkAdds
FuzzParse
ExampleCart
ok  \texample.org/shop/cart\t0.008s
TestPays
ok  \texample.org/shop/order\t0.316s
"""
GTEST = """\
Running main() from gtest_main.cc
Cart.
  Adds
  DISABLED_Never
DISABLED_Old.
  Test
Typed/0.  # TypeParam = std::vector<int>
  Zero
Some/Rows.
  Fits/0  # GetParam() = "a"
"""
JEST = "/src/shop/test/cart.test.js\n/src/shop/test/odd names.spec.tsx\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "dotnet test --list-tests",
            DOTNET,
            ["App.Tests.Cart.Adds", 'App.Tests.Cart.Removes(n: 1, m: "a b")', "Lib.Tests.Parse"],
        ),
        (
            "pytest --collect-only -q",
            PYTEST,
            [
                "tests/test_a.py::test_one",
                "tests/test_a.py::test_two[a b::c]",
                "tests/sub/test_b.py::TestC::test_d",
            ],
        ),
        (
            "go test -list",
            GO,
            [
                *("example.org/shop/cart.TestAdds", "example.org/shop/cart.TestRemoves"),
                *("example.org/shop/cart.FuzzParse", "example.org/shop/cart.ExampleCart"),
                "example.org/shop/order.TestPays",
            ],
        ),
        ("--gtest_list_tests", GTEST, ["Cart.Adds", "Typed/0.Zero", "Some/Rows.Fits/0"]),
        (
            "jest --listTests",
            JEST,
            ["/src/shop/test/cart.test.js", "/src/shop/test/odd names.spec.tsx"],
        ),
    ],
)
def test_listing_of_a_tool_gives_its_tests(name: str, text: str, expected: list[str]) -> None:
    units = read_listing(text)
    assert units is not None
    assert [unit.unit for unit in units] == expected
    recognised = [tool for tool, (recognise, _) in LISTINGS.items() if recognise(text)]
    assert recognised[0] == name


def test_node_ids_have_their_file() -> None:
    units = read_listing(PYTEST)
    assert units is not None
    assert [unit.file for unit in units] == [
        "tests/test_a.py",
        "tests/test_a.py",
        "tests/sub/test_b.py",
    ]


@pytest.mark.parametrize("text", ["", "a\nb\n", '["a", "b"]', '{"unit": "a"}\n', "a.py::b\n"])
def test_inventory_is_no_listing_of_a_tool(text: str) -> None:
    assert read_listing(text) is None
