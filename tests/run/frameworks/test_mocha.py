"""The Mocha adapter: how its plugin enters, and what its exit codes mean."""

from __future__ import annotations

import pytest
from run.frameworks.test_registry import batch

from ciguard.init.project import matches
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import environment
from ciguard.run.frameworks.node import MOCHA

SUITE = Suite("js", ("npx", "mocha"), args=("spec",), variants={"v": Variant(("--bail",))})


def test_plugin_enters_by_node_options() -> None:
    invocation = MOCHA.execution(SUITE, "v", batch())
    assert invocation.argv == ("npx", "mocha", "spec", "--bail")
    env = environment({"NODE_OPTIONS": "--no-warnings"}, SUITE, "v", invocation)
    assert env["NODE_OPTIONS"] == '--no-warnings --require "/p/inside/ciguard_mocha.cjs"'
    assert env["CIGUARD_UNITS_FILE"] == "/p/units.json"
    listed = MOCHA.listing(Suite("js", ("./run.sh",)), "", "/p/answer", "/p/inside")
    assert listed.argv == ("./run.sh",)
    assert listed.env == {"CIGUARD_COLLECT_FILE": "/p/answer"}


@pytest.mark.parametrize(
    ("code", "had_results", "clean"),
    [(0, False, True), (1, True, True), (1, False, False), (7, True, False), (-9, True, False)],
)
def test_normal_exit_codes(code: int, had_results: bool, clean: bool) -> None:
    assert MOCHA.is_normal_exit(code, had_results=had_results) is clean


def test_listing_without_an_answer_quotes_mocha() -> None:
    listing = MOCHA.read_listing(SUITE, b"", b"Error: No test files found\n", 1)
    assert listing.units == ()
    assert "Error: No test files found" in listing.errors[0]


@pytest.mark.parametrize("path", ["test/cart.js", "web/test/cart.mjs", "src/cart.spec.ts"])
def test_files_have_the_names_of_mocha(path: str) -> None:
    assert any(matches(path, pattern) for pattern in MOCHA.file_patterns)
    assert not any(matches("src/latest/cart.js", pattern) for pattern in MOCHA.file_patterns)


def test_missing_packages_have_an_advice() -> None:
    assert "npm ci" in MOCHA.advice("npm error npx canceled due to missing packages")
    assert MOCHA.advice("1 passing") == ""


def test_file_is_loaded_before_its_start() -> None:
    assert MOCHA.file_of("test/deep/a.js") == "test/deep/a.js"
    assert MOCHA.ancestors("test/deep/a.js") == ("test/deep/a.js", "test/deep/", "test/", "")
