"""Projects of other languages get suites with their own frameworks and steps."""

from __future__ import annotations

import json
import re
import tomllib

import pytest
import yaml

from ciguard.errors import InputError
from ciguard.init.languages import RECIPES, ProjectFolder, Recipe, framework_call
from ciguard.init.project import Suggestion, is_dependency_file, join_suggestions, suggest_languages
from ciguard.init.toolchains import steps_of
from ciguard.init.workflow_files import configuration_tables, with_tables
from ciguard.run.frameworks.registry import FRAMEWORKS

JEST = '{"devDependencies": {"jest": "30"}}'

MODULES = {"NODE_OPTIONS": "--experimental-vm-modules"}
Call = tuple[tuple[str, ...], dict[str, str]]


def called(args: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Call:
    return args, env or {}


def suggested(files: dict[str, str]) -> tuple[Suggestion, list[str]]:
    texts = {path: text for path, text in files.items() if is_dependency_file(path)}
    said: list[str] = []
    return suggest_languages(tuple(files), texts, FRAMEWORKS, said.append)[0], said


def test_each_project_gets_a_suite_and_the_tools_once() -> None:
    found, said = suggested(
        {
            "web/package.json": JEST,
            "web/package-lock.json": "",
            "web/src/a.test.ts": "",
            "admin/package.json": JEST,
            "admin/pnpm-lock.yaml": "",
            "admin/__tests__/a.js": "",
            "go.mod": "module m\n",
            "sums_test.go": "",
        }
    )
    assert [(one.name, one.cwd, one.command, one.args) for one in found.suites] == [
        ("jest-admin", "admin", ("pnpm", "exec", "jest"), ()),
        ("jest-web", "web", ("npx", "--no", "--", "jest"), ()),
        ("go", "", (), ("./...",)),
    ]
    steps = yaml.safe_load(found.setup)
    assert [step.get("working-directory") for step in steps if "run" in step] == ["admin", "web"]
    assert sum("setup-node" in step.get("uses", "") for step in steps) == 1
    assert "go: 1 test file" in said


TESTS = '<PackageReference Include="xunit" />'
SHOP = {"test/Shop.Tests/Shop.Tests.csproj": TESTS, "Shop/Shop.csproj": ""}
NEWEST = {"dotnet-version": "10.0.x"}
SLN = '"Shop.Tests", "test\\Shop.Tests\\Shop.Tests.csproj"'


@pytest.mark.parametrize(
    ("files", "suite"),
    [
        ({"Shop.sln": SLN, "Shop.Mobile.sln": SLN, "A.slnx": "<Solution/>"}, ("", "Shop.sln")),
        ({"src/Shop.slnx": SLN, "samples/A/A.sln": SLN}, ("src", "Shop.slnx")),
        ({"A/A.fsproj": ""}, ("test/Shop.Tests", "Shop.Tests.csproj")),
        ({"Shop.sln": SLN, "global.json": "{}"}, ("", "Shop.sln")),
    ],
)
def test_solution_or_else_its_test_projects_are_the_suites_of_dotnet(
    files: dict[str, str], suite: tuple[str, str]
) -> None:
    found, said = suggested({**SHOP, **files})
    folder, target = suite
    assert [(one.name, one.framework, one.cwd, one.command) for one in found.suites] == [
        ("dotnet", "dotnet", folder, ("dotnet", "test", target))
    ]
    setup, build = yaml.safe_load(found.setup)
    version = {"global-json-file": "global.json"} if "global.json" in files else NEWEST
    cache = {"cache": True, "cache-dependency-path": "**/*.*proj\n**/*.props"}
    assert setup["with"] == {**version, **cache}
    assert build["run"] == f"dotnet build {target}"
    assert build.get("working-directory", "") == folder
    assert said == [f"dotnet: {target}" + (f" below {folder}" if folder else "")]


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("c8 node --test && npm run types", ("node", "--test")),
        ("tsx --test", ("npx", "--no", "--", "tsx", "--test")),
    ],
)
def test_script_that_calls_the_runner_of_node_gets_a_suite(
    script: str, command: tuple[str, ...]
) -> None:
    package = json.dumps({"scripts": {"lint": "node lint.js", "test": script}})
    found, said = suggested({"package.json": package, "test/a.js": ""})
    (suite,) = found.suites
    assert (suite.framework, suite.command, suite.args) == ("node-test", command, ())
    assert said[-1] == "node-test: 1 test file"


YARN = JEST.replace("{", '{"packageManager": "yarn@1.22.22+sha512.a6", ', 1)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"package.json": YARN, "a.test.js": ""}, "corepack enable && yarn install"),
        ({"package.json": YARN, "package-lock.json": "", "a.test.js": ""}, "&& yarn install"),
        ({"package.json": YARN, "yarn.lock": "", "a.test.js": ""}, "yarn install --immutable"),
        ({"package.json": JEST, "a.test.js": ""}, "npm install"),
        ({"a/package.json": JEST, "pnpm-lock.yaml": "", "a/a.test.js": ""}, "--frozen-lockfile"),
        ({"go.mod": "module m\n\ngo 1.15\n", "a_test.go": ""}, "go-version: stable"),
        ({"go.mod": "module m\n\ngo 1.22\n", "a_test.go": ""}, "go-version-file: go.mod"),
        ({"go.mod": "go 1.20\ntoolchain go1.22.1\nmodule m\n", "a_test.go": ""}, "file: go.mod"),
    ],
)
def test_tools_are_those_that_the_project_names(files: dict[str, str], expected: str) -> None:
    setup = suggested(files)[0].setup.replace('"', "")
    assert re.search(rf"(?m){re.escape(expected)}(\}}| # zizmor.*)?$", setup)


def test_workspace_that_configures_nextest_gets_a_suite() -> None:
    files = {"Cargo.toml": "[workspace]\n", ".config/nextest.toml": "", "a/Cargo.toml": "[package]"}
    found, said = suggested(files)
    assert [(one.name, one.cwd, one.args) for one in found.suites] == [
        ("nextest", "", ("--workspace",))
    ]
    (step,) = yaml.safe_load(found.setup)
    assert step["uses"].startswith("taiki-e/install-action@")
    assert step["with"] == {"tool": "cargo-nextest"}
    assert said == ["nextest: .config/nextest.toml"]


def test_cmake_project_is_built_for_its_tests() -> None:
    texts = {"CMakeLists.txt": "project(x CXX)\ninclude(CTest)\n", "sub/CMakeLists.txt": "x()"}
    found, said = suggested(texts)
    assert [(one.name, one.cwd, one.command) for one in found.suites] == [
        ("ctest", "", ("ctest", "--test-dir", "build"))
    ]
    assert "cmake --build build --parallel" in found.setup
    assert said == ["ctest: CMakeLists.txt"]


@pytest.mark.parametrize(
    "files",
    [
        {"Cargo.toml": "[workspace]", "tests/a.rs": ""},  # `cargo test` runs them
        {"package.json": JEST},  # no test
        {"CMakeLists.txt": "project(x CXX)\n"},
        {"package.json": '{"name": "jest"}', "a.test.js": ""},
        {"docs/package.json": JEST, "docs/a.test.js": ""},
        {"go.mod": "// nothing", "a_test.go": ""},
    ],
)
def test_project_without_tests_or_framework_gets_no_suite(files: dict[str, str]) -> None:
    assert suggested(files)[0].suites == ()


def test_composer_project_gets_php() -> None:
    text = '{"require-dev": {"phpunit/phpunit": "^11"}}'
    found, said = suggested({"composer.json": text, "tests/ATest.php": "", "src/A.php": ""})
    assert [(one.name, one.framework, one.command) for one in found.suites] == [
        ("phpunit", "phpunit", ())
    ]
    setup, install = yaml.safe_load(found.setup)
    assert setup["uses"].startswith("shivammathur/setup-php@")
    assert install["run"] == "composer install --no-interaction --prefer-dist"
    assert "phpunit: 1 test file" in said


def test_project_inside_of_another_belongs_to_it() -> None:
    found, _ = suggested(
        {"package.json": JEST, "packages/a/package.json": JEST, "packages/a/a.test.js": ""}
    )
    assert [(one.name, one.cwd) for one in found.suites] == [("jest", "")]


RAKE = ("minitest", ("bundle", "exec", "rake", "test"))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"Gemfile": 'gem "rails"', "bin/rails": ""}, [("minitest", ("bin/rails", "test"))]),
        ({"Gemfile": "gem 'minitest'", "Rakefile": "Minitest::TestTask.create"}, [RAKE]),
        ({"Gemfile": "gemspec", "Rakefile": "Rake::TestTask.new(:test)"}, [RAKE]),
        (
            {"Gemfile": 'gem "rails"\ngem "rspec-rails"', "spec/a_spec.rb": ""},
            [("rspec", ("bundle", "exec", "rspec"))],
        ),
        ({"Gemfile": 'gem "rack"', "Rakefile": 'task(:test) { sh "true" }'}, []),
    ],
)
def test_ruby_project_gets_one_suite(
    files: dict[str, str], expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    for start in ("", "shop/"):
        there = {f"{start}{path}": text for path, text in files.items()}
        suites = suggested({**there, f"{start}test/a_test.rb": ""})[0].suites
        assert [(one.framework, one.command) for one in suites] == expected


def test_suites_of_python_come_first() -> None:
    found, _ = suggested({"package.json": JEST, "a.test.js": ""})
    python = Suggestion("- run: one", (), {"x": "tox"})
    both = join_suggestions(python, found)
    assert both.setup.startswith("- run: one\n- uses: actions/setup-node@")
    assert both.unknown == {"x": "tox"}


def test_suite_calls_the_framework_as_the_test_script_does() -> None:
    script = "NODE_OPTIONS=--experimental-vm-modules jest -c unit.json"
    text = json.dumps({"scripts": {"test": script}, "devDependencies": {"jest": "30"}})
    found, _ = suggested({"package.json": text, "a.test.js": ""})
    toml = with_tables("", configuration_tables("", found.suites), "ciguard.toml")
    assert 'timeout = "10m" # of one file; ' in toml
    assert tomllib.loads(toml)["suite"]["jest"] == {
        "framework": "jest",
        "command": ["npx", "--no", "--", "jest"],
        "args": ["-c", "unit.json"],
        "env": {"NODE_OPTIONS": "--experimental-vm-modules"},
        "timeout": "10m",
    }


def test_gem_names_rspec_in_its_gemspec() -> None:
    files = {"Gemfile": "source 'https://rubygems.org'\ngemspec\n", "spec/a_spec.rb": ""}
    assert [one.framework for one in suggested(files)[0].suites] == ["rspec"]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.framework)
def test_steps_of_each_framework_are_yaml(recipe: Recipe) -> None:
    for path in (".", "web app"):
        found = recipe.environment(ProjectFolder(path, frozenset(), ""))
        steps = yaml.safe_load(steps_of([(path, found)]))
        assert all("uses" in step or "run" in step for step in steps)


@pytest.mark.parametrize(
    ("script", "program", "expected"),
    [
        ("jest", ("jest",), called()),
        ("jest --color=true --watch", ("jest",), called(("--color=true",))),
        (
            "NODE_OPTIONS=--experimental-vm-modules npx jest -c 'a b.json'",
            ("jest",),
            called(("-c", "a b.json"), MODULES),
        ),
        (
            "cross-env TZ=UTC node --experimental-vm-modules node_modules/jest/bin/jest.js --ci",
            ("jest",),
            called(("--ci",), {"TZ": "UTC", **MODULES}),
        ),
        ("pnpm lint && vitest run --typecheck", ("vitest", "run"), called(("--typecheck",))),
        ("vitest --dir test", ("vitest", "run"), called(("--dir", "test"))),
        ("playwright test -c e2e", ("playwright", "test"), called(("-c", "e2e"))),
        # The same words mean other things to other programs.
        ("jest -w 2 -i", ("jest",), called(("-w", "2", "-i"))),
        ("mocha -w -g slow -i --ui tdd", ("mocha",), called(("-g", "slow", "-i", "--ui", "tdd"))),
        ("vitest -w --ui", ("vitest", "run"), called()),
        (
            "c8 mocha --enable-source-maps ./test/*.cjs --require ./test/before.cjs",
            ("mocha",),
            called(("--enable-source-maps", "./test/*.cjs", "--require", "./test/before.cjs")),
        ),
        (
            "nyc --reporter text cross-env TZ=UTC node --expose-gc node_modules/.bin/_mocha -b",
            ("mocha",),
            called(("-b",), {"TZ": "UTC", "NODE_OPTIONS": "--expose-gc"}),
        ),
        ("c8 npm run unit", ("mocha",), called()),
        ("node test.js", ("jest",), called()),
        ("eslint .", ("jest",), called()),
        ("node", ("jest",), called()),
        ("c8 --reporter=lcov node --test && tsc", ("node", "--test"), called()),
        ("node build.js --test", ("node", "--test"), ((), {})),
        ("node build.js; node --test --watch t.js", ("node", "--test"), called(("t.js",))),
        (
            "cross-env CI=1 node --import tsx --test a.ts",
            ("node", "--test"),
            called(("--import", "tsx", "a.ts"), {"CI": "1"}),
        ),
        ("tsx --test", ("tsx", "--test"), called()),
    ],
)
def test_call_of_the_test_script_is_kept(
    script: str, program: tuple[str, ...], expected: Call
) -> None:
    assert framework_call(json.dumps({"scripts": {"test": script}}), program) == expected


@pytest.mark.parametrize(
    "script", ["jest --config $CONFIG", "jest 'not closed", "dotenv -e .env -- jest --ci"]
)
def test_call_that_cannot_be_read_is_refused(script: str) -> None:
    with pytest.raises(
        InputError, match=r"its arguments of jest cannot be read from scripts\.test:"
    ):
        framework_call(json.dumps({"scripts": {"test": script}}), ("jest",))
    readable = {"test": script, "test:unit": "jest --ci"}
    assert framework_call(json.dumps({"scripts": readable}), ("jest",))[0] == ("--ci",)


def test_script_called_test_comes_first() -> None:
    scripts = {"test:unit": "jest -c unit.json", "test": "jest -c all.json", "dev": "jest --dev"}
    assert framework_call(json.dumps({"scripts": scripts}), ("jest",))[0] == ("-c", "all.json")
    del scripts["test"]
    assert framework_call(json.dumps({"scripts": scripts}), ("jest",))[0] == ("-c", "unit.json")


DEEP = pytest.param("[" * 100_000, id="deep")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"scripts": []}', '{"scripts": null}', DEEP])
def test_file_without_scripts_adds_nothing(text: str) -> None:
    assert framework_call(text, ("jest",)) == called()
