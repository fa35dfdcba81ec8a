"""Minitest through the whole loop: what passes, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from frameworks.loop import Loop, bad, is_whole, lay_out, needs_gem

ENDS = ("test/ends_test.rb", "EndsTest#test_ends")
SETUP = "test/setup_test.rb"
FILES = [
    *("test/deep/sums_test.rb", "test/ends_test.rb", "test/imports_test.rb"),
    *("test/memory_test.rb", "test/odd names_test.rb", "test/setup_test.rb", "test/sums_test.rb"),
]


def test_every_test_of_every_file_is_recorded(minitest: Loop) -> None:
    assert minitest.planned() == FILES
    verdict = minitest.run(WAY="exit0", FAIL="1")
    is_whole(verdict, minitest)
    results = [line for line in minitest.record_lines() if line.get("type") == "result"]
    odd, sums = "test/odd names_test.rb", "test/sums_test.rb"
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == odd}
    assert bad(verdict) == {
        ENDS: "crash",
        (odd, "odd [x] (y)#test_0005_twice"): "errored",
        (odd, "a class of this name#test_0001_is there #2"): "failed",
        (sums, "SumsTest#test_adds"): "failed",
    }
    assert cases == {
        'odd [x] (y)#test_0001_says "it\'s" so': "passed",
        "odd [x] (y)#test_0002_a line\nfeed": "passed",
        "odd [x] (y)#test_0003_grüße 😀 日本": "passed",
        "odd [x] (y)#test_0004_twice": "passed",
        "odd [x] (y)#test_0005_twice": "errored",
        "odd [x] (y)#test_0006_": "passed",
        "odd [x] (y)#test_0007_/pattern.*/": "passed",
        "a class of this name#test_0001_is there": "passed",
        "a class of this name#test_0001_is there #2": "failed",
    }
    messages = {line["case"]: line["message"] for line in results if line.get("message")}
    where = minitest.folder.resolve()
    twice = messages["odd [x] (y)#test_0005_twice"]
    assert twice.startswith("RuntimeError: no UTF-8: \ufffd\n    ")
    assert messages["SumsTest#test_adds"] == f"Expected: 42\n  Actual: 43\n{where}/{sums}:10"
    assert messages["SumsTest#test_divides"] == "not yet"
    assert minitest.execution() == {"executed"}
    begun = [case for unit, case in minitest.cases_begun() if unit == odd]
    assert sorted(begun) == sorted(cases)


@pytest.mark.soak
@pytest.mark.parametrize("command", ["rake -f own.rake test", "ruby -Itest all.rb"])
def test_other_commands_run_the_same(minitest: Loop, command: str) -> None:
    minitest.environ = {"RUN": command}
    minitest.plan()
    assert minitest.planned() == FILES
    verdict = minitest.run(WAY="kill")
    assert bad(verdict) == {ENDS: "crash"}
    is_whole(verdict, minitest)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("", {}),
        ("exit0", {("test/models/ends_test.rb", ""): "crash"}),
        ("fails", {("test/models/ends_test.rb", "EndsTest#test_ends"): "failed"}),
    ],
)
def test_rails_runs_its_files_in_one_process(
    tmp_path: Path, way: str, expected: dict[tuple[str, str], str]
) -> None:
    """Rails loads the files itself, and would run them in processes of its own."""
    needs_gem("rails", "ruby-railties")
    toml = '[suite.rails]\nframework = "minitest"\ncommand = ["bin/rails", "test"]\n'
    rails = lay_out(tmp_path, "rails", toml, PARALLEL_WORKERS="2")
    assert rails.planned() == ["test/models/ends_test.rb", "test/models/sums_test.rb"]
    verdict = rails.run(WAY=way)
    assert bad(verdict) == expected
    is_whole(verdict, rails)


@pytest.mark.soak
def test_own_reporters_and_hooks_go_on(minitest: Loop) -> None:
    reporter = """
    class Own < Minitest::AbstractReporter
      def record(test) = puts("own: #{test.name}")
    end
    module Minitest
      def self.plugin_own_init(_) = self.reporter.reporters.replace([Own.new])
      extensions << "own"
    end
    """
    helper = minitest.folder / "test" / "test_helper.rb"
    helper.write_text(helper.read_text() + reporter)
    verdict = minitest.run()
    assert verdict["verdict"] == "passed"
    assert minitest.printed.count("own: test_has_the_same_base_name") == 1
    assert minitest.printed.count("after the run") == 2


def test_filter_is_named_with_the_units_and_in_the_record(minitest: Loop) -> None:
    environ = {"RUN": "ruby -Itest all.rb --seed 7 -e /twice/ --name adds"}
    minitest.run_shard("01", "01", **environ)
    assert minitest.execution() == {"filter -e /twice/", "filter --name adds"}
    assert minitest.listed_filters(**environ) == ["--name adds", "-e /twice/"]
    assert minitest.seeds() == {"--seed 7"}


@pytest.mark.soak
def test_focus_is_named_with_its_file(minitest: Loop) -> None:
    needs_gem("minitest/focus", "ruby-minitest-focus")
    path = minitest.folder / SETUP
    text = path.read_text().replace("  def test_one", "  focus\n  def test_one")
    path.write_text(f'require "minitest/focus"\n{text}')
    minitest.run()
    assert f"focus {SETUP}: focus" in minitest.execution()


@pytest.mark.soak
def test_error_after_the_run_is_no_pass(minitest: Loop) -> None:
    """No test failed, and Minitest ends with 1."""
    verdict = minitest.run(WAY="after")
    assert bad(verdict) == {}
    assert verdict["verdict"] == "failed"


@pytest.mark.soak
def test_file_without_a_test_is_skipped(minitest: Loop) -> None:
    (minitest.folder / SETUP).write_text('require "sums_test"\n')
    minitest.plan()
    verdict = minitest.run()
    assert verdict["verdict"] == "passed"
    is_whole(verdict, minitest)


@pytest.mark.soak
def test_fail_fast_names_what_it_left_out(minitest: Loop) -> None:
    """As Rails and others do it: a reporter interrupts the run."""
    reporter = """
    class Fast < Minitest::AbstractReporter
      def record(test) = (raise Interrupt unless test.passed? || test.skipped?)
    end
    module Minitest
      def self.plugin_fast_init(_) = self.reporter.reporters.unshift(Fast.new)
      extensions << "fast"
    end
    """
    helper = minitest.folder / "test" / "test_helper.rb"
    helper.write_text(helper.read_text() + reporter)
    first = minitest.folder / FILES[0]
    first.write_text(
        'require "test_helper"\nclass FirstTest < Minitest::Test\n  def test_it = flunk\nend\n'
    )
    verdict = minitest.run()
    assert verdict["verdict"] == "incomplete"
    assert bad(verdict) == {(FILES[0], "FirstTest#test_it"): "failed"}
    assert "Minitest was interrupted, or is to fail fast" in " ".join(minitest.printed.split())
