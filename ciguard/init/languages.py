"""Test frameworks of other languages than Python: what names each, what its tests need. Pure.

What the scripts of a package.json add to a call of the framework is kept: a project that is tested
by `NODE_OPTIONS=--experimental-vm-modules jest --config unit.json` fails without either
(https://docs.npmjs.com/cli/using-npm/scripts). One table. Commands are those of npm 11, pnpm 11,
Yarn 4, Go 1.27, Bundler 4, Maven 3.9, CMake 4, nextest 0.9, Composer 2.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ciguard.errors import InputError
from ciguard.init.toolchains import TOP, Environment
from ciguard.workflow.job_templates import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)
# Before the program: a shard covers a part of the code, so that it is not called with coverage.
COVERAGE: Final = ("c8", "nyc")
WRAPPERS: Final = ("cross-env", "env", "npx", "node", *COVERAGE)
SEPARATOR: Final = re.compile(r"&&|\|\||;")
SHELL: Final = re.compile(r"[$|<>`&]")  # what only a shell understands
# What never ends. The same words say other things elsewhere: `-w` is how many workers Jest has,
# `--ui` the interface of Mocha.
ENDLESS: Final[Mapping[str, re.Pattern[str]]] = {
    "jest": re.compile(r"--watch(?:All|-all)?(?:=.*)?$"),
    "vitest": re.compile(r"(?:-w|--watch|--ui)(?:=.*)?$"),
    "mocha": re.compile(r"(?:-w|--watch)(?:=.*)?$"),
    "playwright": re.compile(r"--ui(?:=.*)?$"),
}


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """A folder with a project file.

    Attributes:
        path: "." for the top.
        files: all of the repository.
        text: of the project file.
    """

    path: str
    files: Collection[str]
    text: str

    @property
    def start(self) -> str:
        return "" if self.path == TOP else f"{self.path}/"

    def has(self, name: str) -> bool:
        return f"{self.start}{name}" in self.files


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a framework needs in a project that names it.

    Attributes:
        framework: name of its adapter.
        project_file: in the project's folder.
        named: what in the project file says that the framework is used.
        environment: what makes its tests runnable.
        args: of the suite.
        kind: of the frameworks of one kind a project has the first that it names.
        shown_by: file in the project's folder, of a framework whose test files have no pattern.
    """

    framework: str
    project_file: str
    named: re.Pattern[str]
    environment: Callable[[ProjectFolder], Environment]
    args: tuple[str, ...] = ()
    kind: str = ""
    shown_by: str = ""


# By the lock file beside package.json; Corepack takes the version that packageManager names.
_COREPACK: Final = "npm install --global corepack && corepack enable"
_NODE_INSTALLS: Final = {
    "pnpm-lock.yaml": f"{_COREPACK} && pnpm install --frozen-lockfile",
    "yarn.lock": f"{_COREPACK} && yarn install --immutable",
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
}
_NODE_RUN: Final = {"pnpm-lock.yaml": ("pnpm", "exec"), "yarn.lock": ("yarn", "run")}
# npx would fetch what the project has not installed. Without `--`, it takes the name of the program
# for the value of `--no`, and all options of the program for its own (npm 7 to 11).
_NO_INSTALL: Final = ("npx", "--no", "--")


def node(folder: ProjectFolder, *command: str, more: tuple[str, ...] = ()) -> Environment:
    """Node.js in the version that the project names, and its packages; `more` commands after.

    Args:
        command: the framework, which is called as the test script of the project does.
    """
    named = [name for name in (".nvmrc", ".node-version") if folder.has(name)]
    named += ["package.json"] if '"engines"' in folder.text else []
    version = f"node-version-file: {folder.start}{named[0]}" if named else "node-version: lts/*"
    install = next((one for name, one in _NODE_INSTALLS.items() if folder.has(name)), "npm install")
    run = next((one for name, one in _NODE_RUN.items() if folder.has(name)), _NO_INSTALL)
    tools = (f"- uses: {ACTIONS['setup_node']}\n  with:\n    {version}",)
    commands = (install, *more)
    call = framework_call(folder.text, command)
    return Environment(tools, commands, commands, (*run, *command), call.args, call.env)


def go(folder: ProjectFolder) -> Environment:
    """Go in the version that go.mod names."""
    version = f"go-version-file: {folder.start}go.mod"
    tools = (f"- uses: {ACTIONS['setup_go']}\n  with:\n    {version}",)
    return Environment(tools, (), (), ())


def bundler(folder: ProjectFolder, *command: str) -> Environment:
    """Ruby in the version that the project names, and its gems."""
    named = any(folder.has(name) for name in (".ruby-version", ".tool-versions"))
    version = "" if named else '\n  with:\n    ruby-version: "3.4"'
    tools = (f"- uses: {ACTIONS['setup_ruby']}{version}",)
    install = ("bundle install",)
    return Environment(tools, install, install, ("bundle", "exec", *command))


def minitest(folder: ProjectFolder) -> Environment:
    """Rails runs its own tests, Rake those of other projects."""
    if folder.has("bin/rails"):
        return replace(bundler(folder), command=("bin/rails", "test"))
    return bundler(folder, "rake", "test")


def maven(_: ProjectFolder) -> Environment:
    """A current Java; the tests are compiled once, and so are they in each job."""
    java = f"- uses: {ACTIONS['setup_java']}\n  with:\n    distribution: temurin"
    tools = (f'{java}\n    java-version: "21"\n    cache: maven',)
    compile_ = ("mvn --batch-mode --quiet test-compile",)
    return Environment(tools, compile_, compile_, ())


def composer(_: ProjectFolder) -> Environment:
    """PHP, without the coverage driver that would slow it down, and the project's packages."""
    tools = (f"- uses: {ACTIONS['setup_php']}\n  with:\n    coverage: none",)
    install = ("composer install --no-interaction --prefer-dist",)
    return Environment(tools, install, install, ())


def cmake(_: ProjectFolder) -> Environment:
    """What a hosted runner has; `build` is the folder of the build."""
    commands = ("cmake -S . -B build", "cmake --build build --parallel")
    return Environment((), commands, commands, ("ctest", "--test-dir", "build"))


def nextest(_: ProjectFolder) -> Environment:
    """The Rust that a hosted runner has, or the project names (rust-toolchain.toml); nextest."""
    install = f"- uses: {ACTIONS['install_action']}\n  with:\n    tool: cargo-nextest"
    return Environment((install,), (), (), ())


def _key(name: str) -> re.Pattern[str]:
    return re.compile(rf'"{re.escape(name)}"\s*:')


RECIPES: Final = (
    Recipe(
        "vitest", "package.json", _key("vitest"), lambda at: node(at, "vitest", "run"), kind="node"
    ),
    Recipe("jest", "package.json", _key("jest"), lambda at: node(at, "jest"), kind="node"),
    Recipe("mocha", "package.json", _key("mocha"), lambda at: node(at, "mocha"), kind="node"),
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
    # A gem names it in its gemspec, from which Bundler takes it.
    Recipe(
        "rspec",
        "Gemfile",
        re.compile(r"rspec|^\s*gemspec\b", re.M),
        lambda at: bundler(at, "rspec"),
        kind="ruby",
    ),
    Recipe("minitest", "Gemfile", re.compile("[\"'](?:minitest|rails)\\b"), minitest, kind="ruby"),
    # A gem names its framework in its gemspec, which may have any name.
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
)
PROJECT_FILES: Final = tuple(dict.fromkeys(recipe.project_file for recipe in RECIPES))


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A framework as a script calls it: arguments behind the program, variables before it."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def framework_call(text: str, program: Sequence[str]) -> ScriptCall:
    """How the test script calls a program; without anything where none does.

    Args:
        text: of package.json.
        program: its name, and the word for a run behind it: `vitest run`; () for none.

    Raises:
        InputError: only a shell, or an unknown wrapper, can tell the program's arguments.
    """
    unread = ""
    for name, script in _test_scripts(text) if program else ():
        for part in SEPARATOR.split(script):
            try:
                found = _call(part, program)
            except ValueError:
                unread = unread or f"scripts.{name}: {part.strip()}"
                continue
            if found is not None:
                return found
    if unread:
        what = f"its arguments of {program[0]} cannot be read from {unread}"
        fix = f"configure a suite in ciguard.toml: framework = {json.dumps(program[0])}, and args"
        raise InputError(what, where="package.json", fix=f"{fix}; then run ciguard init again")
    return ScriptCall()


def _test_scripts(text: str) -> Iterator[tuple[str, str]]:
    """`test` first, then `test:unit` and its like in the order of the file."""
    try:
        scripts = json.loads(text).get("scripts", {})
        names = [name for name in scripts if name.startswith("test")]
    except (ValueError, AttributeError, TypeError):
        return
    for name in sorted(names, key=lambda name: name != "test"):
        yield name, str(scripts[name])


def _call(part: str, program: Sequence[str]) -> ScriptCall | None:
    """The call of a program in a command; None where the command is none.

    Raises:
        ValueError: what calls it, or a part of its arguments, is not known.
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
    if subcommand and args[:1] == subcommand:
        args = args[1:]
    return ScriptCall(tuple(word for word in args if not ENDLESS[name].match(word)), env)


def _calls(word: str, name: str) -> bool:
    """Return whether a word is the program, or its file: `node_modules/mocha/bin/_mocha.js`."""
    return re.sub(r"^_|\.[cm]?js$", "", word.rpartition("/")[2]) == name
