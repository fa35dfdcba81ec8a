"""Node's frameworks: npx, the whole loop, and what plugins record beside results; all real."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from conftest import clean_environment
from frameworks.loop import NODE_MODULES, Loop, bad, is_whole, link_node_modules, needs_node

import ciguard.run
from ciguard.run.frameworks.registry import FRAMEWORKS

if TYPE_CHECKING:
    Lines = list[dict[str, Any]]


PLUGINS = Path(ciguard.run.__file__).parent / "plugins"
IMPORTS = {
    "mocha": "const test = it;",
    "playwright": 'const { test } = require("@playwright/test"); const { describe } = test;',
    "vitest": 'import { describe, test } from "vitest";',
}
A, B = "test/a.test.js", "test/b.test.js"


class Project:
    """A folder with test files of one framework."""

    def __init__(self, folder: Path, framework: str) -> None:
        needs_node("@playwright/test" if framework == "playwright" else framework)
        link_node_modules(folder)
        (folder / "package.json").write_text("{}")
        self.folder = folder
        self.framework = framework

    def write(self, **texts: str) -> None:
        """Write `test/NAME.test.js`."""
        (self.folder / "test").mkdir(exist_ok=True)
        for name, text in texts.items():
            path = self.folder / "test" / f"{name}.test.js"
            path.write_text(f"{IMPORTS.get(self.framework, '')}\n{text}")

    def lines(self, words: str = "", units: Sequence[str] = (), **environ: str) -> Lines:
        """What the plugin wrote: of a run of these units, or without any of a listing."""
        record, chosen = self.folder / "record", self.folder / "units.json"
        record.unlink(missing_ok=True)
        chosen.write_text(json.dumps(units))
        plugin = PLUGINS / FRAMEWORKS[self.framework].plugin_files[0]
        option = "--import" if plugin.suffix == ".mjs" else "--require"
        files = {"CIGUARD_RECORD_FILE": str(record), "CIGUARD_UNITS_FILE": str(chosen)}
        first = {"mocha": "test/*.js", "playwright": "test", "vitest": "run"}
        subprocess.run(
            [
                self.folder / "node_modules" / ".bin" / self.framework,
                *filter(None, (first.get(self.framework), *words.split())),
            ],
            cwd=self.folder,
            env=clean_environment(
                NODE_OPTIONS=f"{option} {plugin}",
                **(files if units else {"CIGUARD_COLLECT_FILE": str(record)}),
                **environ,
            ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=120,
            check=False,
        )
        return [json.loads(line) for line in record.read_text().splitlines()]


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    return Project(tmp_path, request.param)


def events(lines: Lines, *kinds: str) -> list[str]:
    """Kind or reason, and detail."""
    return [
        f"{line.get('reason', line['kind'])} {line['detail']}"
        for line in lines
        if line.get("kind") in kinds
    ]


def outcomes(lines: Lines) -> dict[tuple[str, str], str]:
    """By unit and case, with a "+" for each execution that the framework repeated."""
    return {
        (line["unit"], line.get("case", "")): line["outcome"] + "+" * line.get("reruns", 0)
        for line in lines
        if line["type"] == "result"
    }


@pytest.mark.parametrize("name", ["jest", "mocha", "node"])
def test_plugin_has_no_syntax_newer_than_node_10(name: str) -> None:
    """A job of a matrix may run Jest 27 in Node.js 10: there is nothing to rewrite for it."""
    needs_node("esbuild")
    written = [
        subprocess.check_output(
            [NODE_MODULES / ".bin/esbuild", PLUGINS / f"ciguard_{name}.cjs", f"--target={target}"]
        )
        for target in ("esnext", "node10")
    ]
    assert written[0] == written[1]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("project", "words", "found"),
    [
        ("jest", "-t a --randomize --seed=7", ["filter --testNamePattern=a", "seed --seed=7"]),
        ("mocha", "--fgrep a", ["filter --grep=/a/", "not_executed .mocharc.json: dry-run"]),
        (
            "vitest",
            "-t a --sequence.shuffle --sequence.seed=7",
            ["filter --testNamePattern=a", "seed --sequence.seed=7"],
        ),
        ("playwright", "-g a", ["filter -g a", "filter grepInvert: /none/"]),
    ],
    indirect=["project"],
)
def test_settings_that_leave_tests_out_are_named(
    project: Project, words: str, found: list[str]
) -> None:
    project.write(
        a='describe("a", () => { test.only("x", () => {}); test("y", () => {}); });',
        b='test("b", () => {});',
    )
    lines = project.lines(units=[B])
    assert events(lines, "execution", "seed") == ["executed "]
    assert list(outcomes(lines).values()) == ["passed"]
    (project.folder / ".mocharc.json").write_text('{"dry-run": true}')
    config = "module.exports = { grepInvert: /none/ };"
    (project.folder / "playwright.config.js").write_text(config)
    filters = [line["filter"] for line in project.lines(words) if "filter" in line]
    assert [f"filter {text}" for text in filters] == [one for one in found if "filter" in one]
    lines = project.lines(words, units=[A])
    assert sorted(events(lines, "execution", "seed")) == sorted([*found, f"focus {A}: .only"])


@pytest.mark.parametrize("project", ["jest"], indirect=True)
@pytest.mark.parametrize("focused", ["test.only", "test.only.each([1])", "describe.only"])
def test_older_runner_of_jest_names_focus_and_cases(project: Project, focused: str) -> None:
    needs_node("jest-jasmine2")
    body = 'test("y", () => {});' if focused == "describe.only" else ""
    project.write(
        a=f'{focused}("x", () => {{{body}}}); test("z", () => {{}});', b='test("b", () => {});'
    )
    lines = project.lines("--testRunner=jest-jasmine2", [A, B])
    assert events(lines, "execution") == ["executed ", f"focus {A}: .only"]
    assert list(outcomes(lines).values()) == ["passed", "skipped", "passed"]
    assert events(lines, "case_start", "case_end")[-2:] == ["case_start b", "case_end b"]


@pytest.mark.parametrize("project", ["jest"], indirect=True)
def test_threshold_that_is_turned_off_is_reported(project: Project) -> None:
    project.write(a='test("one", () => {});')
    config = "module.exports = { coverageThreshold: { global: { lines: 100 } } };"
    (project.folder / "jest.config.js").write_text(config)
    assert events(project.lines(units=[A]), "execution") == ["executed "]
    found = events(project.lines("--coverage", [A]), "execution")
    assert found == ["executed ", "no_effect coverageThreshold"]


@pytest.mark.parametrize("project", ["jest"], indirect=True)
def test_tests_that_run_again_replace_no_coverage(project: Project) -> None:
    """Each process of Jest writes its coverage over that of the one before it."""
    tries = project.folder / "tries.json"
    for name in "ab":
        (project.folder / f"{name}.js").write_text("exports.x = () => 1;")
        project.write(**{name: f'test("one", require("../{name}").x);'})
    further = {"CIGUARD_PROCESS": "2", "CIGUARD_TRIES_FILE": str(tries)}
    for counts, units, covered in (({}, [A, B], "ab"), ({A: 1}, [A], "ab"), ({A: 1}, [B], "b")):
        tries.write_text(json.dumps(counts))
        project.lines("--coverage", units, **further)
        files = json.loads((project.folder / "coverage/coverage-final.json").read_text())
        assert "".join(sorted(Path(file).stem for file in files)) == covered


@pytest.mark.parametrize("project", ["jest"], indirect=True)
def test_bail_blames_no_file_that_follows(project: Project) -> None:
    """Jest ends its process for it while the next file runs."""
    project.write(a='test("one", () => { throw new Error(); });', b='test("two", () => {});')
    lines = project.lines("--bail", [A, B])
    assert outcomes(lines) == {(A, "one"): "failed", (B, "two"): "passed"}
    assert [line["unit"] for line in lines if line.get("kind") == "closed"] == [A, B]


@pytest.mark.parametrize(
    ("project", "body", "case"),
    [
        ("jest", 'jest.retryTimes(2); test("a", tries);', "a"),
        pytest.param(
            "jest",
            'describe("g", () => {'
            ' jest.retryTimes(2, { entireDescribe: true }); test("a", tries); });',
            "g a",
            marks=pytest.mark.soak,
        ),
        pytest.param("vitest", 'test("a", { retry: 2 }, tries);', "a", marks=pytest.mark.soak),
    ],
    indirect=["project"],
)
def test_further_try_is_a_rerun_of_its_case(project: Project, body: str, case: str) -> None:
    """Jest had `a` failed and `a #2` passed; Mocha and Playwright have tests of their own."""
    head = 'let count = 0; const tries = () => { if (count++ < 1) throw new Error("first"); };'
    project.write(a=f'{head}\n{body}\ntest("b", () => {{}});')
    assert outcomes(project.lines(units=[A])) == {(A, case): "passed+", (A, "b"): "passed"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("project", "name", "config"),
    [
        (
            *("jest", "jest.config.js"),
            "module.exports = { projects: [{ displayName: 'one', globals: { WHERE: 'one' } },"
            " { displayName: 'two', globals: { WHERE: 'two' },"
            " testPathIgnorePatterns: ['b.test'] }] };",
        ),
        (
            "vitest",
            "vitest.config.mjs",
            "const define = (name) => ({ 'globalThis.WHERE': JSON.stringify(name) });"
            "export default { test: { projects: [{ define: define('one'), test: { name: 'one' } },"
            " { define: define('two'), test: { name: 'two', include: ['test/a*'] } }] } };",
        ),
    ],
    indirect=["project"],
)
def test_projects_that_share_a_file_are_told_apart(
    project: Project, name: str, config: str
) -> None:
    (project.folder / name).write_text(config)
    project.write(
        a='test("a", () => { if (globalThis.WHERE === "two") throw new Error("here"); });',
        b='test("b", () => {});',
    )
    listed = {line["unit"]: line["file"] for line in project.lines() if "unit" in line}
    assert listed == {f"[one] {A}": A, f"[two] {A}": A, B: B}
    lines = project.lines(units=[f"[two] {A}", B, f"[one] {A}", f"[none] {A}"])
    assert outcomes(lines) == {
        (f"[two] {A}", "a"): "failed",
        (B, "b"): "passed",
        (f"[one] {A}", "a"): "passed",
    }
    (left,) = events(lines, "not_collected")
    assert left.startswith("not_collected left out by the configuration of")
    lines = project.lines(units=[f"[one] {A}"])
    assert outcomes(lines) == {(f"[one] {A}", "a"): "passed"}


@pytest.mark.parametrize(
    ("framework", "package", "option"),
    [
        ("mocha", "mocha", "--version"),
        pytest.param("jest", "jest", "--version", marks=pytest.mark.soak),
        pytest.param("playwright", "@playwright/test", "--version", marks=pytest.mark.soak),
        pytest.param("vitest", "vitest", "--help", marks=pytest.mark.soak),  # names it, too
    ],
)
def test_options_reach_the_framework_and_not_npx(
    framework: str, package: str, option: str, tmp_path: Path
) -> None:
    """`npx --no jest --version` says the version of npm."""
    needs_node(package)
    link_node_modules(tmp_path)
    argv = [*FRAMEWORKS[framework].default_command, option]
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    version = json.loads((NODE_MODULES / package / "package.json").read_text())["version"]
    assert version in done.stdout


ENDS = ("test/ends.test.js", "ends")
FILES = [
    *("test/adds.test.js", "test/deep/adds.test.js", "test/ends.test.js", "test/imports.test.js"),
    *("test/memory.test.js", "test/odd names.test.js", "test/setup.test.js"),
]


@pytest.fixture(params=["jest", pytest.param("vitest", marks=pytest.mark.soak), "mocha"])
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop(request: pytest.FixtureRequest, framework: str) -> Loop:
    suite = request.getfixturevalue(f"node_{framework}")
    assert isinstance(suite, Loop)
    return suite


def test_every_case_of_every_file_is_recorded(loop: Loop, framework: str) -> None:
    assert loop.planned() == FILES
    verdict = loop.run(WAY="kill", FAIL="1")
    is_whole(verdict, loop)
    separator = " > " if framework == "vitest" else " "
    odd = "test/odd names.test.js"
    twice = (odd, f"odd [x] (y){separator}twice #2")
    assert bad(verdict) == {ENDS: "crash", twice: "failed"}
    lines = loop.record_lines()
    for unit in FILES:  # Vitest can tell of a file before it does of its last tests
        kinds = [line.get("kind") or line["type"] for line in lines if line.get("unit") == unit]
        assert kinds[0] == "start"
        assert "result" not in kinds[kinds.index("closed") if "closed" in kinds else len(kinds) :]
    results = [line for line in lines if line.get("type") == "result"]
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == odd}
    names = ('says "it\'s" so', "a line\nfeed", "grüße 😀 日本", "twice", "twice #2", "")
    assert cases == {
        f"odd [x] (y){separator}{name}": "failed" if name == "twice #2" else "passed"
        for name in names
    }
    # A case is named before its body runs: the last one is that which ends the process.
    places = {
        (line["unit"], line["detail"]): place
        for place, line in enumerate(lines)
        if line.get("kind") == "case_start"
    }
    assert [name for unit, name in places if unit == ENDS[0]] == ["before", "ends"]
    for place, line in enumerate(lines):
        if line.get("case") and line["outcome"] in ("passed", "failed"):
            assert places[line["unit"], line["case"]] < place
    skipped = {line["case"] for line in results if line["outcome"] == "skipped"}
    assert skipped == {f"sums{separator}{name}" for name in ("divides", "multiplies")}


@pytest.mark.soak
def test_own_reporters_go_on(loop: Loop, framework: str) -> None:
    hooks = {"jest": "onRunComplete", "vitest": "onTestRunEnd", "mocha": "done"}
    bodies = {"mocha": "(failures, end) { console.log('OWN'); end(failures); }"}
    body = bodies.get(framework, "() { console.log('OWN'); }")
    reporter = f"module.exports = class {{ {hooks[framework]}{body} }};"
    (loop.folder / "own.cjs").write_text(reporter)
    (loop.folder / "jest.config.js").write_text("module.exports = { reporters: ['./own.cjs'] };")
    config = "export default { test: { globals: true, reporters: ['./own.cjs'] } };"
    (loop.folder / "vitest.config.mjs").write_text(config)
    options = {"require": "./mocha.cjs", "spec": "test/**/*.test.js", "reporter": "./own.cjs"}
    (loop.folder / ".mocharc.cjs").write_text(f"module.exports = {json.dumps(options)};")
    assert loop.run()["verdict"] == "passed"
    assert loop.printed.count("OWN") == 2
