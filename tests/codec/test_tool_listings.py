"""What test tools print when they list their tests, each in its own shape."""

from __future__ import annotations

import pytest

from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.tool_listings import LISTINGS, read_listing, relative_to
from ciguard.errors import InputError

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
PYTEST_ERROR = """\

==================================== ERRORS ====================================
______________________ ERROR collecting tests/test_err.py ______________________
tests/test_err.py::1: in <module>
=========================== short test summary info ============================
ERROR tests/test_err.py
!!!!!!!!!!!!!!!!!!!! Interrupted: 1 error during collection !!!!!!!!!!!!!!!!!!!!
no tests collected, 1 error in 1.21s
"""
PYTEST_SELECTED = """\
tests/test_e.py::test_e

1/4 tests collected (3 deselected) in 0.77s
"""
PYTEST_COUNTS = "tests/sub/test_b.py: 1\ntests/test_a.py: 2\n\n"
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PYTEST + PYTEST_SELECTED, 4),
        (PYTEST_SELECTED + PYTEST_ERROR + PYTEST, 4),
        ("\n" + PYTEST, 3),
        ("\nno tests collected in 0.96s\n" + PYTEST.replace("\n", "\r\n"), 3),
        ("a.py::t[b\x85c]\n\n1 test collected, 1 error in 0.02s\n", 1),
        ("\nno tests collected (4 deselected) in 0.76s\n", 0),
        (PYTEST_ERROR, 0),
        pytest.param("9" * 5000 + " tests collected\n" + PYTEST, 3, id="no number"),
    ],
)
def test_every_run_in_a_listing_is_read(text: str, expected: int) -> None:
    units = read_listing(text)
    assert units is not None
    assert len(units) == expected
    assert not [unit for unit in units if "warning" in unit.unit or unit.unit.endswith("\r")]


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (PYTEST.replace("tests/test_a.py::test_one\n", "", 1), (2, 3)),
        (PYTEST_SELECTED.replace("\n\n", "\ntests/test_f.py::test_f\n\n"), (2, 1)),
        (PYTEST + "tests/test_e.py::test_e\n", (4, 3)),
        # The tree of a listing without -q.
        ("<Module test_a.py>\n  <Function test_a>\n\n=== 1 test collected in 0.83s ===\n", (0, 1)),
        *((text, None) for text in (PYTEST_COUNTS, PYTEST_COUNTS.replace("\n", "\r\n"))),
        (PYTEST + PYTEST_COUNTS, None),
    ],
)
def test_listing_that_does_not_name_each_test_is_refused(
    text: str, counts: tuple[int, int] | None
) -> None:
    what = "numbers of tests, not their names: 'tests/sub/test_b.py: 1'"
    if counts:
        what = "listed tests: {}, collected tests: {}".format(*counts)
    with pytest.raises(InputError) as raised:
        read_listing(text)
    assert raised.value.what == what
    assert ("pytest --collect-only -q" if counts else "-o addopts=") in raised.value.fix


def test_test_of_several_target_frameworks_is_one() -> None:
    units = read_listing(DOTNET + DOTNET.replace("net8.0", "net9.0"))
    assert units == read_listing(DOTNET)
    twice = read_listing(GO + GO)  # of any other tool, a repeated test is a mistake of the list
    assert twice is not None
    assert len(twice) == 2 * len(read_listing(GO) or ())


@pytest.mark.parametrize(
    ("unit", "file", "expected"),
    [
        ("/src/shop/test/a.js", "/src/shop/test/a.js", ("test/a.js", "test/a.js")),
        ("/src/shop/test/a.js", None, ("test/a.js", None)),
        ("/src/shopping/a.js", "/src/shopping/a.js", ("/src/shopping/a.js", "/src/shopping/a.js")),
        ("src/shop/a.js", None, ("src/shop/a.js", None)),
        (r"/src/shop/a\b.js", None, (r"a\b.js", None)),
    ],
)
def test_paths_below_a_folder_become_relative(
    unit: str, file: str | None, expected: tuple[str, str | None]
) -> None:
    (found,) = relative_to([InventoryUnit(unit, file=file)], "/src/shop")
    assert (found.unit, found.file) == expected


def test_paths_of_windows_become_relative_with_slashes() -> None:
    units = [InventoryUnit(r"C:\shop\test\a.js"), InventoryUnit(r"D:\shop\test\a.js")]
    found = relative_to(units, "C:/shop")
    assert [unit.unit for unit in found] == ["test/a.js", r"D:\shop\test\a.js"]
