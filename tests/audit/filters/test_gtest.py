"""Filters of GoogleTest: known answers, and agreement with a program built with it."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from ciguard.audit.filters import gtest
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import positions_in
from ciguard.audit.test_set import TestSet
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.codec.tool_listings import read_listing

NAMES = ("Cart.Adds", "Cart.Removes", "CartTotal.Adds", "Order.Adds/0", "Typed/1.Zero")


def selected(text: str, units: tuple[InventoryUnit, ...]) -> list[str]:
    found = Evaluator(TestSet(units), gtest).select(gtest.parse(text, ""))
    assert found.is_known
    return [units[place].unit for place in positions_in(found.sure)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", NAMES),
        ("*", NAMES),
        ("Cart.*", ("Cart.Adds", "Cart.Removes")),
        ("cart.*", ()),
        ("Cart", ()),
        ("Cart*", ("Cart.Adds", "Cart.Removes", "CartTotal.Adds")),
        ("Cart.Adds:Typed/?.*", ("Cart.Adds", "Typed/1.Zero")),
        ("-Cart.*", ("CartTotal.Adds", "Order.Adds/0", "Typed/1.Zero")),
        ("*.Adds*-Cart.*:Order.*", ("CartTotal.Adds",)),
        # A second dash is a part of the pattern.
        ("*-Cart.*-Order.*", NAMES),
        ("Order.[A]dds/0", ()),
    ],
)
def test_filter_selects_what_the_program_runs(text: str, expected: tuple[str, ...]) -> None:
    assert selected(text, tuple(map(InventoryUnit, NAMES))) == list(expected)


def test_filter_is_the_value_of_the_last_option() -> None:
    words = ["./shop_test", "--gtest_filter=A*", "--gtest_filter", "B*", "--gtest_shuffle"]
    assert gtest.find_filter(words) == "B*"
    assert gtest.find_filter(["./shop_test"]) == ""


PROGRAM = """
#include <gtest/gtest.h>
TEST(Cart, Adds) {}
TEST(Cart, Removes) {}
TEST(CartTotal, Adds) {}
TEST(Order, Pays) {}
TEST(A, B) {}
class Rows : public testing::TestWithParam<int> {};
TEST_P(Rows, Fits) {}
TEST_P(Rows, Adds) {}
INSTANTIATE_TEST_SUITE_P(Some, Rows, testing::Values(1, 2, 3));
"""
PIECES = ("*", "?", "Cart", "Adds", ".", "Rows", "/", "Some/Rows.Fits/1", "A.B", "s", "Order.*", "")


@pytest.mark.soak
def test_evaluator_selects_what_a_program_lists(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or not Path("/usr/include/gtest/gtest.h").is_file():
        pytest.skip("needs g++ and GoogleTest: apt-get install g++ libgtest-dev")
    (tmp_path / "shop.cc").write_text(PROGRAM, "utf-8")
    options = ["-std=c++17", "-o", "shop", "shop.cc", "-lgtest", "-lgtest_main", "-lpthread"]
    subprocess.run([compiler, *options], cwd=tmp_path, check=True)
    program = str(tmp_path / "shop")

    def listed(*words: str) -> tuple[InventoryUnit, ...]:
        command = [program, "--gtest_list_tests", *words]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return read_listing(answer.stdout) or ()

    units, random_ = listed(), random.Random(1)
    assert len(units) == 11
    for _ in range(2000):
        patterns = [
            "".join(random_.choices(PIECES, k=random_.randint(1, 4)))
            for _ in range(random_.randint(1, 4))
        ]
        text = patterns[0]
        for pattern in patterns[1:]:
            text += random_.choice(":::-") + pattern
        if text:  # an empty value is no filter of a workflow
            expected = [unit.unit for unit in listed(f"--gtest_filter={text}")]
            assert selected(text, units) == expected, text
