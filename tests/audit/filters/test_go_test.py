"""What `go test` selects: known answers, and agreement with the binary that it builds."""

from __future__ import annotations

import random
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ciguard.audit.filters import go_test
from ciguard.audit.filters.base import Evaluator
from ciguard.audit.filters.expression import Selection, positions_in
from ciguard.audit.test_set import TestSet
from ciguard.codec.inventory_file import InventoryUnit
from ciguard.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

NAMES = (
    "example.org/shop/cart.TestAdds",
    "example.org/shop/cart.TestAddsTwice",
    "example.org/shop/cart/total.TestSum",
    "example.org/shop/order.TestPays",
    "example.org/shop/order.ExampleOrder",
)


def selection(text: str, names: tuple[str, ...] = NAMES) -> Selection:
    tests = TestSet(tuple(map(InventoryUnit, names)))
    return Evaluator(tests, go_test).select(go_test.parse(text, "ci.yml:1"))


def selected(text: str) -> list[int]:
    found = selection(text)
    assert found.is_known
    return list(positions_in(found.sure))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("./...", [0, 1, 2, 3, 4]),
        ("./... -run TestAdds", [0, 1]),
        ("./... -run 'TestAdds$'", [0]),
        ("./... -run '^TestAdds$|Pays'", [0, 3]),
        ("./... --run=Adds/one", [0, 1]),
        ("./... -test.run=Adds", [0, 1]),
        ("./... -skip Adds", [2, 3, 4]),
        # A level that `go test -list` does not show: the test itself runs.
        ("./... -skip Adds/one", [0, 1, 2, 3, 4]),
        ("./... -skip 'Adds/one|Adds'", [0, 1, 2, 3, 4]),
        ("./... -skip 'Adds|Adds/one'", [2, 3, 4]),
        ("./... -run '[/]x|Sum'", [2]),
        ("./cart", [0, 1]),
        ("./cart/...", [0, 1, 2]),
        ("example.org/shop/order", [3, 4]),
        ("example.org/shop/... -v -count=1 -timeout 5m -race", [0, 1, 2, 3, 4]),
        ("./order ./cart -run Pays", [3]),
        ("./order -args -run Nothing", [3, 4]),
    ],
)
def test_arguments_select_what_go_test_runs(text: str, expected: list[int]) -> None:
    assert selected(text) == expected


def test_unknown_option_and_ambiguous_folder_are_not_known() -> None:
    assert selection("./... -new-option") == Selection(0, 0b11111)
    # The module may be example.org or example.org/a: `./a` is one package or the other.
    names = ("example.org/a/a.TestX", "example.org/a.TestY", "example.org/a/a/a.TestZ")
    found = selection("./a", names)
    assert not found.sure
    assert list(positions_in(found.possible)) == [0, 1]


def test_expression_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"ci\.yml:1: -run '\(a': missing \)"):
        go_test.parse("-run '(a'", "ci.yml:1")


def test_filter_is_what_follows_go_test() -> None:
    assert go_test.find_filter(["go", "vet"]) == ""
    assert go_test.find_filter(["/usr/bin/go", "test", "./a b", "-v"]) == "'./a b' -v"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("gotestsum --junitfile j.xml -- -run 'A b' ./...", "-run 'A b' ./..."),
        ("./bin/gotestsum -f testname --rerun-fails=2 --packages='./a ./b' -- -v", "./a ./b -v"),
        ("gotestsum --rerun-fails --packages ./a -- -run X -args -- y", "./a -run X -args -- y"),
        ("gotestsum --format=dots --no-color ./cart -run X", "./cart -run X"),
        ("gotestsum --newer-option -- ./cart", "./cart"),
        ("gotestsum --junitfile j.xml", ""),
        ("gotestsum", ""),
        ("gotestsum --raw-command -- go test -json -run X", "-json -run X"),
    ],
)
def test_filter_is_what_gotestsum_passes_on(command: str, expected: str) -> None:
    assert go_test.find_filter(shlex.split(command)) == expected


def test_other_program_of_gotestsum_is_not_known() -> None:
    text = go_test.find_filter(["gotestsum", "--raw-command", "--", "./scripts/test.sh"])
    assert selection(text) == Selection(0, 0b11111)


MODULE = """package shop
import "testing"
"""
TESTS = ("TestAdds", "TestAddsTwice", "TestRemoves", "TestA", "TestB_c", "ExampleCart", "FuzzParse")
PIECES = (
    *(
        "Test",
        "Adds",
        "A",
        "^Test",
        "$",
        "|",
        "/",
        "[AB]",
        "(Adds|A)",
        ".",
        ".*",
        "Twice",
        "_",
        "c",
    ),
    *("(?i)test", "[/|]", "x?", "\\\\w", "Fuzz", "Example", "Removes"),
)


@pytest.mark.soak
def test_evaluator_selects_what_the_binary_runs(tmp_path: Path) -> None:
    go = shutil.which("go")
    version = subprocess.run(
        [go or "false", "version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"go1\.(\d+)", version.stdout)
    if go is None or found is None or int(found[1]) < 20:
        pytest.skip("needs Go 1.20 or newer, which knows -skip")
    (tmp_path / "go.mod").write_text("module example.org/shop\n\ngo 1.20\n", "utf-8")
    bodies = [
        f"func {name}() {{\n\t// Output:\n}}\n"
        if name.startswith("Example")
        else f"func {name}(f *testing.F) {{ f.Fuzz(func(t *testing.T, s string) {{}}) }}\n"
        if name.startswith("Fuzz")
        else f"func {name}(t *testing.T) {{}}\n"
        for name in TESTS
    ]
    bodies.append("type Cart struct{}\n")
    (tmp_path / "shop_test.go").write_text(MODULE + "".join(bodies), "utf-8")
    build = subprocess.run(
        [go, "test", "-c", "-o", "shop.test"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    random_, names = random.Random(2), tuple(f"example.org/shop.{name}" for name in TESTS)
    for _ in range(2000):
        words = [
            f"-{option}=" + "".join(random_.choices(PIECES, k=random_.randint(1, 4)))
            for option in ("run", "skip")
            if random_.random() < 0.7
        ]
        options = [word.replace("-", "-test.", 1) for word in words]
        answer = subprocess.run(
            [str(tmp_path / "shop.test"), "-test.v", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if "invalid regexp" in answer.stderr:
            with pytest.raises(InputError):
                go_test.parse(shlex.join(words), "")
            continue
        assert answer.returncode == 0, (words, answer.stdout, answer.stderr)
        ran = set(re.findall(r"^=== RUN +(\w+)$", answer.stdout, re.MULTILINE))
        places = positions_in(selection(shlex.join(words), names).sure)
        assert {TESTS[place] for place in places} == ran, words
