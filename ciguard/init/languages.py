"""Recipes of test frameworks of other languages than Python: how to detect and set up each. Pure.

Arguments and variables in the test script of a package.json are kept: a project that is tested by
`NODE_OPTIONS=--experimental-vm-modules jest --config unit.json` fails without either
(https://docs.npmjs.com/cli/using-npm/scripts). Commands are those of npm 11, pnpm 11, Yarn 4,
Go 1.27, Bundler 4, Maven 3.9, CMake 4, nextest 0.9, Composer 2, SDK 10 of .NET.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

from ciguard.errors import InputError
from ciguard.init.toolchains import TOP, Environment
from ciguard.workflow.job_templates import ACTIONS, quoted
from ciguard.workflow.test_commands import NODE_RUNNER, package_scripts

_Call = tuple[tuple[str, ...], Mapping[str, str]]  # arguments after the program, variables

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
# Wrappers that measure coverage are dropped: a shard covers only a part of the code.
COVERAGE: Final = ("c8", "nyc")
WRAPPERS: Final = ("cross-env", "env", "npx", "node", *COVERAGE)
SEPARATOR: Final = re.compile(r"&&|\|\||;")
SHELL: Final = re.compile(r"[$|<>`&]")  # syntax that only a shell evaluates
# Options with which a framework never ends. Their meaning depends on the framework: `-w` is the
# number of workers of Jest, `--ui` the interface of Mocha.
ENDLESS: Final[Mapping[str, re.Pattern[str]]] = {
    "jest": re.compile(r"--watch(?:All|-all)?(?:=.*)?$"),
    "vitest": re.compile(r"(?:-w|--watch|--ui)(?:=.*)?$"),
    "mocha": re.compile(r"(?:-w|--watch)(?:=.*)?$"),
    "playwright": re.compile(r"--ui(?:=.*)?$"),
    **dict.fromkeys(("node", "tsx"), re.compile(r"--watch(?:-path)?(?:=.*)?$")),
}


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """A folder with a project file.

    Attributes:
        path: "." for the top.
        files: all files of the repository.
        text: of the project file.
        name: of the project file.
    """

    path: str
    files: Collection[str]
    text: str
    name: str = ""

    @property
    def start(self) -> str:
        return "" if self.path == TOP else f"{self.path}/"

    def has(self, name: str) -> bool:
        return f"{self.start}{name}" in self.files


@dataclass(frozen=True, slots=True)
class Recipe:
    """Detection and set-up of a framework.

    Attributes:
        framework: name of the adapter.
        project_file: name of the file in the project's folder, or pattern of names.
        mention: text in the project file that shows that the project uses the framework.
        environment: set-up of the project's tests.
        args: of the suite.
        kind: a project uses only the first framework of a kind; "" for the framework itself.
        shown_by: file that proves the framework, if its test files have no pattern.
        is_only: the project names all projects of the repository.
        in_tests: projects lie in folders of tests.
    """

    framework: str
    project_file: str
    mention: re.Pattern[str]
    environment: Callable[[ProjectFolder], Environment]
    args: tuple[str, ...] = ()
    kind: str = ""
    shown_by: str = ""
    is_only: bool = False
    in_tests: bool = False


_COREPACK: Final = "npm install --global corepack && corepack enable && "
# Package manager -> (lock files, command that installs what they lock). Corepack installs the
# version in packageManager.
_NODE_INSTALLS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "pnpm": (("pnpm-lock.yaml",), "pnpm install --frozen-lockfile"),
    "yarn": (("yarn.lock",), "yarn install --immutable"),
    "npm": (("package-lock.json", "npm-shrinkwrap.json"), "npm ci"),
}
_NAMED_MANAGER: Final = re.compile(r'"packageManager"\s*:\s*"(npm|pnpm|yarn)@')
_NODE_RUN: Final = {"pnpm": ("pnpm", "exec"), "yarn": ("yarn", "run")}
PACKAGE_FILES: Final = "**/*.*proj\n**/*.props"
# A project of tests in a solution, by its name; and in its own file, by a package.
_SOLUTION: Final = re.compile(r"(?i)tests?[^\"\n]*\.(?:cs|fs|vb)proj\"")
_TEST_PACKAGE: Final = re.compile(
    r'(?i)Include="(?:Microsoft\.NET\.Test\.Sdk|xunit(?:\.v3)?|NUnit|MSTest|TUnit)"|"MSTest\.Sdk'
)
FIRST_TOOLCHAIN: Final = 21  # Go 1.21 refuses to build a module that needs a newer version
# Without `--no`, npx would download a missing program. Without `--`, npx takes the program's name
# as the value of `--no`, and the program's options as its own (npm 7 to 11).
_NO_INSTALL: Final = ("npx", "--no", "--")


def node(folder: ProjectFolder, *command: str, more: tuple[str, ...] = ()) -> Environment:
    """Set up Node.js in the project's version, and its packages; then run `more` commands.

    Args:
        command: the framework; its arguments and variables are those of the test script.
    """
    files = [name for name in (".nvmrc", ".node-version") if folder.has(name)]
    files += ["package.json"] if '"engines"' in folder.text else []
    version = (
        f"node-version-file: {quoted(folder.start + files[0])}" if files else "node-version: lts/*"
    )
    manager, install = _package_manager(folder)
    run = () if command[:1] == ("node",) else _NODE_RUN.get(manager, _NO_INSTALL)
    tools = (f"- uses: {ACTIONS['setup_node']}\n  with: {{{version}}}",)
    commands = (install, *more)
    call = framework_call(folder.text, command)
    return Environment(tools, commands, (*run, *command), *call)


def _package_manager(folder: ProjectFolder) -> tuple[str, str]:
    """Return the package manager that packageManager or a lock file names, and its command.

    A folder without a lock file may be part of the workspace of the top folder.
    """
    named = _NAMED_MANAGER.search(folder.text)
    managers = [named[1]] if named else [*_NODE_INSTALLS]
    for start, manager in product((folder.start, ""), managers):
        locks, install = _NODE_INSTALLS[manager]
        if any(f"{start}{name}" in folder.files for name in locks):
            break
    else:
        manager = managers[-1]
        install = f"{manager} install"
    return manager, install if manager == "npm" else _COREPACK + install


def go(folder: ProjectFolder) -> Environment:
    """Set up Go in the version of go.mod, which before Go 1.21 only names that of the language."""
    named = re.findall(r"^(?:toolchain +go|go +)1\.(\d+)", folder.text, re.M)
    is_toolchain = any(int(minor) >= FIRST_TOOLCHAIN for minor in named)
    file = quoted(f"{folder.start}go.mod")
    version = f"go-version-file: {file}" if is_toolchain else "go-version: stable"
    tools = (f"- uses: {ACTIONS['setup_go']}\n  with: {{{version}}}",)
    return Environment(tools, (), ())


def bundler(folder: ProjectFolder, *command: str) -> Environment:
    """Set up Ruby in the project's version, and its gems."""
    has_version = any(folder.has(name) for name in (".ruby-version", ".tool-versions"))
    version = "" if has_version else '\n  with: {ruby-version: "3.4"}'
    tools = (f"- uses: {ACTIONS['setup_ruby']}{version}",)
    install = ("bundle install",)
    return Environment(tools, install, ("bundle", "exec", *command))


def minitest(folder: ProjectFolder) -> Environment:
    """Set up Ruby; Rails runs its own tests, Rake those of other projects."""
    if folder.has("bin/rails"):
        return replace(bundler(folder), command=("bin/rails", "test"))
    return bundler(folder, "rake", "test")


def maven(_: ProjectFolder) -> Environment:
    """Set up a current Java, and compile the tests, in each job."""
    java = 'distribution: temurin, java-version: "21", cache: maven'
    tools = (f"- uses: {ACTIONS['setup_java']}\n  with: {{{java}}}",)
    compile_ = ("mvn --batch-mode --quiet test-compile",)
    return Environment(tools, compile_, ())


def composer(_: ProjectFolder) -> Environment:
    """Set up PHP, without the coverage driver, which slows it down, and the packages."""
    tools = (f"- uses: {ACTIONS['setup_php']}\n  with: {{coverage: none}}",)
    install = ("composer install --no-interaction --prefer-dist",)
    return Environment(tools, install, ())


def cmake(_: ProjectFolder) -> Environment:
    """Build in the folder `build` with the tools of a hosted runner."""
    commands = ("cmake -S . -B build", "cmake --build build --parallel")
    return Environment((), commands, ("ctest", "--test-dir", "build"))


def nextest(_: ProjectFolder) -> Environment:
    """Set up nextest; Rust is that of the hosted runner or of rust-toolchain.toml."""
    install = f"- uses: {ACTIONS['install_action']}\n  with: {{tool: cargo-nextest}}"
    return Environment((install,), (), ())


def dotnet(folder: ProjectFolder) -> Environment:
    """Set up .NET with a cache of packages, whose key is the project files; build the tests."""
    is_pinned = "global.json" in folder.files
    version = "global-json-file: global.json" if is_pinned else 'dotnet-version: "10.0.x"'
    cache = f"cache: true, cache-dependency-path: {quoted(PACKAGE_FILES)}"
    tools = (f"- uses: {ACTIONS['setup_dotnet']}\n  with: {{{version}, {cache}}}",)
    build = (shlex.join(("dotnet", "build", folder.name)),)
    return Environment(tools, build, ("dotnet", "test", folder.name))


def _key(name: str) -> re.Pattern[str]:
    return re.compile(rf'"{re.escape(name)}"\s*:')


RECIPES: Final = (
    Recipe(
        "vitest", "package.json", _key("vitest"), lambda at: node(at, "vitest", "run"), kind="node"
    ),
    Recipe("jest", "package.json", _key("jest"), lambda at: node(at, "jest"), kind="node"),
    Recipe("mocha", "package.json", _key("mocha"), lambda at: node(at, "mocha"), kind="node"),
    Recipe(
        "node-test",
        "package.json",
        NODE_RUNNER,
        lambda at: node(at, *NODE_RUNNER.findall(at.text)[:1], "--test"),
        kind="node",
    ),
    Recipe(
        "playwright",
        "package.json",
        _key("@playwright/test"),
        lambda at: node(at, "playwright", "test", more=("npx playwright install --with-deps",)),
    ),
    Recipe("go", "go.mod", re.compile(r"^module\s", re.M), go, args=("./...",)),
    Recipe(
        "nextest",
        "Cargo.toml",
        re.compile(r"^\s*\[(?:workspace|package)\b", re.M),
        nextest,
        args=("--workspace",),
        shown_by=".config/nextest.toml",
    ),
    # A gem may name RSpec only in its gemspec.
    Recipe(
        "rspec",
        "Gemfile",
        re.compile(r"rspec|^\s*gemspec\b", re.M),
        lambda at: bundler(at, "rspec"),
        kind="ruby",
    ),
    Recipe("minitest", "Gemfile", re.compile("[\"'](?:minitest|rails)\\b"), minitest, kind="ruby"),
    # A gemspec may have any file name, so minitest is detected by the Rakefile.
    Recipe("minitest", "Rakefile", re.compile(r"\bTestTask\b"), minitest),
    Recipe("maven", "pom.xml", re.compile(r"<project\b"), maven),
    Recipe("phpunit", "composer.json", _key("phpunit/phpunit"), composer),
    Recipe(
        "ctest",
        "CMakeLists.txt",
        re.compile(r"^\s*(?:enable_testing|include)\s*\(\s*(?:\)|CTest\b)", re.M | re.I),
        cmake,
        shown_by="CMakeLists.txt",
    ),
    Recipe("dotnet", "*.slnx", _SOLUTION, dotnet, shown_by="*.slnx", is_only=True),
    Recipe("dotnet", "*.sln", _SOLUTION, dotnet, shown_by="*.sln", is_only=True),
    Recipe("dotnet", "*.??proj", _TEST_PACKAGE, dotnet, shown_by="*.??proj", in_tests=True),
)
PROJECT_FILES: Final = tuple(dict.fromkeys(recipe.project_file for recipe in RECIPES))


def framework_call(text: str, program: Sequence[str]) -> _Call:
    """Return (arguments, variables) of a program in a test script; none if no script calls it.

    Args:
        text: of package.json.
        program: name, and the subcommand for a run, as `vitest run`; () for none.

    Raises:
        InputError: the arguments depend on a shell or on an unknown wrapper.
    """
    unread = ""
    for name, script in _test_scripts(text) if program else ():
        for part in SEPARATOR.split(script):
            try:
                call = _call(part, program)
            except ValueError:
                unread = unread or f"scripts.{name}: {part.strip()}"
                continue
            if call is not None:
                return call
    if unread:
        what = f"its arguments of {program[0]} cannot be read from {unread}"
        framework = "node-test" if "--test" in program else program[0]
        fix = f"configure a suite in ciguard.toml: framework = {json.dumps(framework)}, and args"
        raise InputError(what, where="package.json", fix=f"{fix}; then run ciguard init again")
    return (), {}


def _test_scripts(text: str) -> list[tuple[str, str]]:
    """Return (name, script): `test` first, then `test:unit` and the like in the file's order."""
    scripts = [item for item in package_scripts(text).items() if item[0].startswith("test")]
    return sorted(scripts, key=lambda item: item[0] != "test")


def _call(part: str, program: Sequence[str]) -> _Call | None:
    """Return the call of a program in a command; None if the command does not call it.

    Raises:
        ValueError: a wrapper, or a part of the arguments, is not known.
    """
    name, *subcommand = program
    if not any(_calls(word, name) for word in part.split()):
        return None
    words = shlex.split(part)
    at = next((at for at, word in enumerate(words) if _calls(word, name)), len(words))
    env: dict[str, str] = {}
    wrapper, node_options = "", []
    for word in words[:at]:
        if word in WRAPPERS:
            wrapper = word
        elif assignment := ASSIGNMENT.fullmatch(word):
            env[assignment[1]] = assignment[2]
        elif wrapper == "node":  # node --experimental-vm-modules node_modules/.bin/jest
            node_options.append(word)
        elif wrapper not in COVERAGE:
            raise ValueError(word)
    if SHELL.search(part):
        raise ValueError(part)
    if node_options:
        env["NODE_OPTIONS"] = " ".join(filter(None, (env.get("NODE_OPTIONS", ""), *node_options)))
    args = words[at + 1 :]
    if subcommand == ["--test"]:
        if not NODE_RUNNER.match(" ".join(words[at:])):
            return None
        args.remove("--test")
    if subcommand and args[:1] == subcommand:
        args = args[1:]
    return tuple(word for word in args if not ENDLESS[name].match(word)), env


def _calls(word: str, name: str) -> bool:
    """Return whether a word is the program or its file, as `node_modules/mocha/bin/_mocha.js`."""
    return re.sub(r"^_|\.[cm]?js$", "", word.rpartition("/")[2]) == name
