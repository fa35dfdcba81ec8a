"""Rows of the registry: how a plugin enters, what exit codes mean, which advice a failure gets."""

from __future__ import annotations

import pytest
from run.frameworks.test_registry import batch

from ciguard.init.project import matches
from ciguard.model import Suite, Variant
from ciguard.run.frameworks.base import environment
from ciguard.run.frameworks.registry import FRAMEWORKS


@pytest.mark.parametrize(
    ("name", "command", "inherited", "expected"),
    [
        (
            "rspec",
            ("rspec",),
            {"RUBYOPT": "-W0", "RUBYLIB": "/lib"},
            {"RUBYOPT": "-W0 -rciguard_rspec", "RUBYLIB": "/p/inside:/lib", "DISABLE_SPRING": "1"},
        ),
        (
            "minitest",
            ("bin/rails", "test"),
            {"RUBYOPT": "-W0", "RUBYLIB": "/lib"},
            {"RUBYOPT": "-W0 -rciguard_minitest", "RUBYLIB": "/p/inside:/lib"},
        ),
        (
            "mocha",
            ("npx", "mocha"),
            {"NODE_OPTIONS": "--no-warnings"},
            {"NODE_OPTIONS": '--no-warnings --require "/p/inside/ciguard_mocha.cjs"'},
        ),
    ],
)
def test_plugin_enters_by_variables_of_the_interpreter(
    name: str, command: tuple[str, ...], inherited: dict[str, str], expected: dict[str, str]
) -> None:
    adapter = FRAMEWORKS[name]
    suite = Suite(name, command, args=("tests",), variants={"v": Variant(("--slow",))})
    invocation = adapter.execution(suite, "v", batch())
    assert invocation.argv == (*command, "tests", "--slow")
    env = environment(inherited, suite, "v", invocation)
    assert {key: env[key] for key in expected} == expected
    assert env["CIGUARD_UNITS_FILE"] == "/p/units.json"
    listing = adapter.listing(Suite(name, ("./run.sh",)), "", "/p/answer", "/p/inside")
    assert listing.argv == ("./run.sh",)
    assert listing.env["CIGUARD_COLLECT_FILE"] == "/p/answer"


ONE = (True, False)  # a normal exit with results, and without
BOTH, NEITHER = (True, True), (False, False)
EXIT_CODES = {
    "command": {0: BOTH, 1: ONE, 2: NEITHER, -9: NEITHER},
    "ctest": {0: BOTH, 8: ONE, 1: NEITHER},
    "maven": {0: BOTH, 1: NEITHER},
    "minitest": {0: BOTH, 1: ONE, 3: NEITHER, -9: NEITHER},
    "mocha": {0: BOTH, 1: ONE, 7: NEITHER, -9: NEITHER},
    "nextest": {0: BOTH, 100: ONE, 4: NEITHER, 101: NEITHER, 104: NEITHER, -9: NEITHER},
    "phpunit": {0: BOTH, 1: ONE, 2: ONE, 255: NEITHER, -9: NEITHER},
    "playwright": {0: BOTH, 1: ONE, 130: NEITHER},
    "pytest": {0: BOTH, 1: ONE, **dict.fromkeys((2, 3, 4, -9, 137), NEITHER)},
    "rspec": {0: BOTH, 1: ONE, 3: NEITHER, -9: NEITHER},
}


@pytest.mark.parametrize("name", EXIT_CODES)
def test_exit_codes_of_failed_tests_are_normal_where_there_are_results(name: str) -> None:
    is_normal = FRAMEWORKS[name].is_normal_exit
    found = {
        code: (is_normal(code, had_results=True), is_normal(code, had_results=False))
        for code in EXIT_CODES[name]
    }
    assert found == EXIT_CODES[name]


def test_pytest_without_a_test_ends_with_five() -> None:
    assert FRAMEWORKS["pytest"].is_normal_exit(5, had_results=False)


@pytest.mark.parametrize(
    ("name", "output", "expected"),
    [
        ("maven", "The JAVA_HOME environment variable is not defined", "actions/setup-java"),
        ("minitest", "bundler: command not found: rake", "bundle install"),
        ("minitest", "Could not find minitest-5.27.0 in locally installed gems", "bundle install"),
        ("minitest", "Could not locate Gemfile or .bundle/ directory", "set the suite's command"),
        ("minitest", "rake aborted!\nNo Rakefile found (looking for: Rakefile)", "bin/rails test"),
        ("minitest", "Don't know how to build task 'test' (See the list", "bin/rails test"),
        ("minitest", "ciguard: no test file was required", "bin/rails test"),
        ("minitest", "1 runs, 1 assertions, 0 failures", ""),
        ("mocha", "npm error npx canceled due to missing packages", "npm ci"),
        ("mocha", "1 passing", ""),
        ("nextest", "ciguard: cargo cannot be started: No such file\n", "rustup"),
        ("nextest", "x\nerror: no such command: `nextest`\n", "cargo-nextest"),
        ("nextest", "error: could not compile", ""),
        (
            *("phpunit", "ciguard: vendor/bin/phpunit cannot be started: No such file"),
            "composer install",
        ),
        ("phpunit", "OK (1 test, 1 assertion)", ""),
        ("rspec", "bundler: command not found: rspec\nInstall missing gem", "bundle install"),
        ("rspec", "Could not find rspec-core-3.13.0 in locally installed gems", "bundle install"),
        ("rspec", "1 example, 0 failures", ""),
    ],
)
def test_command_that_runs_no_test_has_an_advice(name: str, output: str, expected: str) -> None:
    advice = FRAMEWORKS[name].advice(output)
    assert expected in advice
    assert bool(advice) is bool(expected)


@pytest.mark.parametrize(
    ("name", "unit", "groups"),
    [
        ("command", "Shop.Cart.Adds(1)", ("Shop.Cart.Adds", "Shop.Cart", "Shop", "")),
        ("maven", "org.p.ATest", ("org.p.ATest", "org.p", "org", "")),
        ("minitest", "test/deep/a.rb", ("test/deep/a.rb", "test/deep/", "test/", "")),
        ("mocha", "test/deep/a.js", ("test/deep/a.js", "test/deep/", "test/", "")),
        ("nextest", "shop a::b::c", ("shop a::b::", "shop a::", "shop ", "")),
        ("phpunit", "tests/deep/ATest.php", ("tests/deep/ATest.php", "tests/deep/", "tests/", "")),
        ("playwright", "tests/a.spec.ts", ("tests/a.spec.ts", "tests/", "")),
        (
            *("playwright", "[Mobile Safari] tests/[id]/a b.spec.ts"),
            (
                "[Mobile Safari] tests/[id]/a b.spec.ts",
                "[Mobile Safari] tests/[id]/",
                "[Mobile Safari] tests/",
                "[Mobile Safari] ",
                "",
            ),
        ),
        (
            *("pytest", "a/b/test_x.py::TestC::test_m[p/q::r]"),
            (
                "a/b/test_x.py::TestC::test_m",
                "a/b/test_x.py::TestC",
                "a/b/test_x.py",
                "a/b/",
                "a/",
                "",
            ),
        ),
        ("pytest", "test_x.py::test_m", ("test_x.py::test_m", "test_x.py", "")),
        ("rspec", "spec/deep/a_spec.rb", ("spec/deep/a_spec.rb", "spec/deep/", "spec/", "")),
    ],
)
def test_groups_of_a_unit_go_from_the_nearest_to_all(
    name: str, unit: str, groups: tuple[str, ...]
) -> None:
    assert FRAMEWORKS[name].ancestors(unit) == groups


@pytest.mark.parametrize(
    ("name", "unit", "file"),
    [
        ("minitest", "test/a_test.rb", "test/a_test.rb"),
        ("mocha", "test/deep/a.js", "test/deep/a.js"),
        ("phpunit", "tests/ATest.php", "tests/ATest.php"),
        ("playwright", "[Mobile Safari] tests/[id]/a b.spec.ts", "tests/[id]/a b.spec.ts"),
        ("rspec", "spec/a_spec.rb", "spec/a_spec.rb"),
    ],
)
def test_file_is_loaded_before_its_start(name: str, unit: str, file: str) -> None:
    assert FRAMEWORKS[name].file_of(unit) == file


@pytest.mark.parametrize("path", ["test/cart.js", "web/test/cart.mjs", "src/cart.spec.ts"])
def test_files_have_the_names_of_mocha(path: str) -> None:
    patterns = FRAMEWORKS["mocha"].file_patterns
    assert any(matches(path, pattern) for pattern in patterns)
    assert not any(matches("src/latest/cart.js", pattern) for pattern in patterns)


@pytest.mark.parametrize(
    ("name", "unit", "expected"),
    [
        ("gtest", "[sums] Some/Rows.Fits/0", ("Some/Rows", "Fits/0")),
        ("gtest", "Sums.Adds", ("Sums", "Adds")),
        ("maven", "org.p.ATest", ("org.p.ATest", "")),
        ("nextest", "shop::odd two words", ("shop::odd", "two words")),
    ],
)
def test_ids_are_those_of_junit_files(name: str, unit: str, expected: tuple[str, str]) -> None:
    assert FRAMEWORKS[name].junit_name(unit) == expected
