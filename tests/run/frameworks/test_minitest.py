"""The Minitest adapter: how its plugin enters, and what its exit codes mean."""

from __future__ import annotations

import pytest
from run.frameworks.test_registry import batch

from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import environment
from ciguard.run.frameworks.ruby import MINITEST

SUITE = Suite("m", ("bin/rails", "test"), args=("test/models",), variants={"v": Variant(("-v",))})


def test_plugin_enters_by_ruby_options_and_search_path() -> None:
    invocation = MINITEST.execution(SUITE, "v", batch())
    assert invocation.argv == ("bin/rails", "test", "test/models", "-v")
    env = environment({"RUBYOPT": "-W0", "RUBYLIB": "/lib"}, SUITE, "v", invocation)
    assert env["RUBYOPT"] == "-W0 -rciguard_minitest"
    assert env["RUBYLIB"] == "/p/inside:/lib"
    assert env["CIGUARD_UNITS_FILE"] == "/p/units.json"


def test_listing_asks_for_the_files() -> None:
    invocation = MINITEST.listing(Suite("m", ("rake", "test")), "", "/p/answer", "/p/inside")
    assert invocation.argv == ("rake", "test")
    assert invocation.env["CIGUARD_COLLECT_FILE"] == "/p/answer"


@pytest.mark.parametrize(
    ("code", "had_results", "clean"),
    [(0, False, True), (1, True, True), (1, False, False), (3, True, False), (-9, True, False)],
)
def test_normal_exit_codes(code: int, had_results: bool, clean: bool) -> None:
    assert MINITEST.is_normal_exit(code, had_results=had_results) is clean


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("bundler: command not found: rake", "bundle install"),
        ("Could not find minitest-5.27.0 in locally installed gems", "bundle install"),
        ("Could not locate Gemfile or .bundle/ directory", "set the suite's command"),
        ("rake aborted!\nNo Rakefile found (looking for: rakefile, Rakefile)", "bin/rails test"),
        ("Don't know how to build task 'test' (See the list of available tasks)", "bin/rails test"),
        ("ciguard: no test file was required", "bin/rails test"),
    ],
)
def test_command_that_runs_no_test_has_an_advice(output: str, expected: str) -> None:
    assert expected in MINITEST.advice(output)
    assert MINITEST.advice("1 runs, 1 assertions, 0 failures") == ""


def test_file_is_loaded_before_its_start() -> None:
    assert MINITEST.file_of("test/a_test.rb") == "test/a_test.rb"
    assert MINITEST.ancestors("test/deep/a_test.rb") == (
        *("test/deep/a_test.rb", "test/deep/", "test/", ""),
    )
