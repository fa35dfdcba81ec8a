"""What pytest's arguments select: agreement with pytest itself over a project of odd names."""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import clean_environment

from ciguard.audit.filters import pytest_selection
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import TestSet, positions_in
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

MODULE = """
import pytest

pytestmark = [pytest.mark.{mark}]

def test_alone():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("n", ["a", "b c", "d::e", "[f]", "G-1"])
def test_rows(n):
    pass

class TestCart:
    def test_adds(self):
        pass

    @pytest.mark.gpu
    def test_alone(self):
        pass

    class TestInner:
        @pytest.mark.parametrize("n", [1, 2])
        def test_rows(self, n):
            pass

class TestCartTotal:
    def test_adds(self):
        pass
"""
FILES = {
    "tests/test_cart.py": "unit",
    "tests/unit/test_cart.py": "unit",
    "tests/unit/test_cart_total.py": "slow",
    "tests/unit/deep/test_user.py": "unit",
    "tests/web/test_page.py": "web",
    "test_top.py": "top",
}
# Reads lists of arguments, and writes what pytest collects for each; null where it refuses.
DRIVER = """
import io, json, sys
import pytest

class Items:
    def pytest_collection_finish(self, session):
        self.found = [
            (item.nodeid, sorted({m.name for m in item.iter_markers()})) for item in session.items
        ]

answers, out = [], sys.stdout
sys.stdout = sys.stderr = io.StringIO()
for arguments in json.load(sys.stdin):
    items = Items()
    options = ["--collect-only", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *arguments], plugins=[items])
    answers.append(items.found if code in (0, 5) else None)
json.dump(answers, out)
"""
PATHS = (
    *("tests", "tests/", "./tests/unit", "tests/unit/deep", "tests/test_cart.py", "."),
    *("tests/unit/test_cart.py::TestCart", "tests/unit/test_cart.py::TestCart::test_alone"),
    *("tests/test_cart.py::test_rows", "tests/test_cart.py::test_rows[a]"),
    *("tests/test_cart.py::test_rows[d::e]", "tests/test_cart.py::TestCart::TestInner"),
    *("tests/web/test_page.py::TestCart::TestInner::test_rows[1]", "test_top.py"),
)
NAMES = (
    *(
        "cart",
        "CART",
        "test_cart",
        "Cart",
        "TestCart",
        "TestInner",
        "inner",
        "alone",
        "rows",
        "adds",
    ),
    *("unit", "web", "deep", "slow", "gpu", "total", "a", "d::e", "[f]", "G-1", "nothing", "tests"),
    *("test_cart.py", "user.py", "top", "rows[1]", "[", "parametrize"),
)
MARKS = ("unit", "slow", "gpu", "web", "top", "Slow", "parametrize", "nothing")
IGNORED = ("tests/unit", "tests/unit/", "tests/unit/deep", "tests/test_cart.py", "./test_top.py")
PREFIXES = (
    "tests/unit",
    "tests/unit/test_cart.py::TestCart",
    "tests/test_cart.py::test_r",
    "test_",
)


def expression(random_: random.Random, names: Sequence[str], depth: int = 0) -> str:
    kind = random_.random()
    if depth > 2 or kind < 0.4:
        return random_.choice(names)
    if kind < 0.55:
        return f"not {expression(random_, names, depth + 1)}"
    if kind < 0.7:
        return f"({expression(random_, names, depth + 1)})"
    operator = random_.choice(["and", "or"])
    left, right = (expression(random_, names, depth + 1) for _ in range(2))
    return f"{left} {operator} {right}"


def arguments(random_: random.Random) -> list[str]:
    found = random_.sample(PATHS, random_.choice([0, 0, 1, 1, 2]))
    if random_.random() < 0.5:
        found += ["-k", expression(random_, NAMES)]
    if random_.random() < 0.3:
        found += [f"-m{expression(random_, MARKS)}"]
    # pytest looks for what is ignored from the root down, and then again for each argument.
    if random_.random() < 0.2 and not any(path in found for path in PATHS):
        found += [f"--ignore={random_.choice(IGNORED)}"]
    if random_.random() < 0.2:
        found += ["--deselect", random_.choice(PREFIXES)]
    found += random_.choice(
        [[], ["-q"], ["--tb=short"], ["--maxfail", "3"], ["-p", "no:faulthandler"]]
    )
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for path, mark in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(MODULE.format(mark=mark), "utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib\nmarkers =\n"
        + "".join(f"    {mark}\n" for mark in ("unit", "slow", "gpu", "web", "top")),
        "utf-8",
    )
    return folder


def collected(project: Path, calls: Sequence[Sequence[str]]) -> list[list[tuple[str, list[str]]]]:
    answer = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=project,
        input=json.dumps(calls),
        env=clean_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[list[tuple[str, list[str]]]] = json.loads(answer.stdout)
    return found


@pytest.mark.parametrize("count", [20, pytest.param(2000, marks=pytest.mark.soak)])
def test_evaluator_selects_what_pytest_collects(project: Path, count: int) -> None:
    random_ = random.Random(count)
    calls = [[], *(arguments(random_) for _ in range(count))]
    everything, *answers = collected(project, calls)
    assert len(everything) == 11 * len(FILES)
    tests = TestSet([InventoryUnit(name, categories=tuple(marks)) for name, marks in everything])
    evaluator = Evaluator(tests, pytest_selection)
    for call, answer in zip(calls[1:], answers, strict=True):
        assert answer is not None, call
        found = evaluator.select(pytest_selection.parse(shlex.join(call), "ci.yml:1"))
        assert found.is_known, call
        selected = {tests.units[place].unit for place in positions_in(found.sure)}
        assert selected == {name for name, _ in answer}, call


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("-k 'a and'", "-k 'a and': a name is missing"),
        ("-k 'a b'", "-k 'a b': no operator before 'b'"),
        ("-k '(a'", "-k '(a': no closing parenthesis"),
        ("-m 'a or or b'", "-m 'a or or b': a name is missing before 'or'"),
        ("-k 'a & b'", "-k 'a & b': unexpected '&'"),
    ],
)
def test_expression_that_pytest_refuses_is_refused(option: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        pytest_selection.parse(option, "ci.yml:7")
    assert str(raised.value).startswith(f"ci.yml:7: {problem}")


PARSER = """
import json
from _pytest.config import get_config

config = get_config()
config.pluginmanager.load_setuptools_entrypoints("pytest11")
parser = getattr(config._parser, "optparser", None) or config._parser._getparser()
print(json.dumps({name: one.nargs for one in parser._actions for name in one.option_strings}))
"""


def test_options_take_as_many_words_as_pytest_gives_them() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PARSER], env=clean_environment(), capture_output=True, check=True
    )
    known = json.loads(answer.stdout)  # of pytest and of the plugins that are installed
    tables = (
        (pytest_selection.FLAGS, 0),
        (pytest_selection.WITH_VALUE, None),
        (pytest_selection.OPTIONAL_VALUE, "?"),
    )
    expected = {name: words for names, words in tables for name in names if name in known}
    assert len(expected) > 45
    assert expected == {name: known[name] for name in expected}


@pytest.mark.parametrize(
    ("text", "sure", "possible"),
    [
        ("--cov --tb short tests", 0b01, 0b01),  # has no value where an option follows
        ("--cov src tests", 0b01, 0b01),
        ("--cov=src tests", 0b01, 0b01),
        ("--show-capture no src", 0b10, 0b10),
        ("-n 2 --maxprocesses 4 src", 0b10, 0b10),
        # An option that may select tests makes the selection unknown.
        *((text, 0, 0b11) for text in ("--lf", "--splits 3 --group 1", "--shard-id=1")),
        *((text, 0, 0b11) for text in ("--run-slow tests", "tests --new-option x")),
    ],
)
def test_value_of_an_option_is_no_path(text: str, sure: int, possible: int) -> None:
    names = ("tests/a.py::test_a", "src/b.py::test_b")
    tests = TestSet([InventoryUnit(name, categories=()) for name in names])
    found = Evaluator(tests, pytest_selection).select(pytest_selection.parse(text, ""))
    assert tuple(found) == (sure, possible)


def test_marker_of_a_list_without_markers_decides_nothing() -> None:
    tests = TestSet([InventoryUnit("tests/a.py::test_a")])
    select = Evaluator(tests, pytest_selection).select
    assert tuple(select(pytest_selection.parse("-m slow", ""))) == (0, 1)
    assert tuple(select(pytest_selection.parse("-k test_a", ""))) == (1, 1)
    assert tuple(select(pytest_selection.parse("-k slow", ""))) == (0, 1)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["python", "-m", "pytest", "tests", "-k", "a b"], "tests -k 'a b'"),
        (["uv", "run", "pytest"], ""),
        (["/opt/bin/py.test", "-x"], "-x"),
        (["make", "test"], ""),
    ],
)
def test_filter_is_what_follows_the_program(words: list[str], expected: str) -> None:
    assert pytest_selection.find_filter(words) == expected
