"""The RSpec adapter: how its plugin enters, and what its exit codes mean."""

from __future__ import annotations

import pytest
from run.frameworks.test_registry import batch

from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import environment
from ciguard.run.frameworks.ruby import RSPEC

SUITE = Suite("rspec", ("rspec",), args=("spec",), variants={"v": Variant(("--tag", "slow"))})


def test_plugin_enters_by_ruby_options_and_search_path() -> None:
    invocation = RSPEC.execution(SUITE, "v", batch())
    assert invocation.argv == ("rspec", "spec", "--tag", "slow")
    env = environment({"RUBYOPT": "-W0", "RUBYLIB": "/lib"}, SUITE, "v", invocation)
    assert env["RUBYOPT"] == "-W0 -rciguard_rspec"
    assert env["RUBYLIB"] == "/p/inside:/lib"
    assert env["DISABLE_SPRING"] == "1"
    assert env["CIGUARD_UNITS_FILE"] == "/p/units.json"


def test_script_gets_no_arguments() -> None:
    invocation = RSPEC.listing(Suite("rspec", ("./run.sh",)), "", "/p/answer", "/p/inside")
    assert invocation.argv == ("./run.sh",)
    assert invocation.env["CIGUARD_COLLECT_FILE"] == "/p/answer"


@pytest.mark.parametrize(
    ("code", "had_results", "clean"),
    [(0, False, True), (1, True, True), (1, False, False), (3, True, False), (-9, True, False)],
)
def test_normal_exit_codes(code: int, had_results: bool, clean: bool) -> None:
    assert RSPEC.is_normal_exit(code, had_results=had_results) is clean


@pytest.mark.parametrize(
    "output",
    [
        "bundler: command not found: rspec\nInstall missing gem executables with `bundle install`",
        "Could not find rspec-core-3.13.0 in locally installed gems (Bundler::GemNotFound)",
    ],
)
def test_missing_gems_have_an_advice(output: str) -> None:
    assert "bundle install" in RSPEC.advice(output)
    assert RSPEC.advice("1 example, 0 failures") == ""


def test_file_is_loaded_before_its_start() -> None:
    assert RSPEC.file_of("spec/a_spec.rb") == "spec/a_spec.rb"
    assert RSPEC.ancestors("spec/deep/a_spec.rb") == (
        *("spec/deep/a_spec.rb", "spec/deep/", "spec/", ""),
    )
