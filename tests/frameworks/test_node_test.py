"""node's own test runner: accidents that it ends green or blames on no test; which files run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from conftest import call_in_process
from frameworks.loop import NODE_MODULES, TOOLS, Loop, bad, is_whole, lay_out, needs_program

import ciguard.run
from ciguard.document import first_line

HEAD: Final = """const { after, before, describe, it, run, test } = require("node:test");
test("first", () => {});
"""
KILL: Final = 'test("culprit", () => { %s; }); test("next", () => {});'
EXIT: Final = "after(() => process.exit(0));"
TIMER: Final = "new Promise(() => { setInterval(() => {}, 1000); })"
SWALLOW: Final = """process.removeAllListeners("uncaughtException");
process.on("uncaughtException", () => {}); require("./missing");"""
RUN: Final = """test("runs", async () => { delete process.env.NODE_TEST_CONTEXT;
  for await (const one of run({ files: [require("path").resolve("fails.js")] })); });"""
# By name: the text after HEAD, and what is wrong with it, by case.
ACCIDENTS: Final = {
    "exit-0": (KILL % "process.exit(0)", {"culprit": "crash"}),
    "exit-3": (KILL % "process.exit(3)", {"culprit": "crash"}),
    "exit-import": ("process.exit(0);", {"": "crash"}),
    "exit-after": (EXIT, {"": "crash"}),
    "exit-subtest": (
        'test("parent", async (t) => { await t.test("culprit", () => process.exit(0)); });',
        {"parent > culprit": "crash"},
    ),
    "exit-suite": (
        'describe("group", () => { after(() => process.exit(0)); it("inner", () => {}); });',
        {"group": "crash"},
    ),
    "abort": (KILL % "process.abort()", {"culprit": "crash"}),
    "kill": (KILL % 'process.kill(process.pid, "SIGKILL"); for (;;) {}', {"culprit": "crash"}),
    "term": (KILL % 'process.kill(process.pid, "SIGTERM"); for (;;) {}', {"culprit": "crash"}),
    "heap": (
        KILL % "const all = []; for (;;) all.push(new Array(1000).fill({ all }))",
        {"culprit": "out_of_memory"},
    ),
    "syntax": ('test("open", () => {', {"": "errored"}),
    "throws": ('throw new Error("at import");', {"": "errored"}),
    "imports": ('import("./missing.mjs");', {"": "errored"}),
    "late": (
        'test("leaves", () => { setTimeout(() => { throw new Error(); }, 20); });'
        'test("longer", () => new Promise((end) => setTimeout(end, 60)));',
        {"": "errored"},
    ),
    "rejection": (
        'test("leaves", () => { Promise.reject(new Error()); });'
        'test("longer", () => new Promise((end) => setTimeout(end, 60)));',
        {"": "errored"},
    ),
    "describe": (
        'describe("group", () => { it("inner", () => {}); throw new Error(); });',
        {"group": "errored", "group > inner": "failed"},
    ),
    "hook": (
        'describe("group", () => { before(() => { throw new Error(); }); it("in", () => {}); });',
        {"group": "errored", "group > in": "failed"},
    ),
    "exit-code": (
        'test("fails", () => { throw new Error(); }); after(() => { process.exitCode = 0; });'
        'process.on("exit", () => { process.exitCode = 0; });',
        {"fails": "failed"},
    ),
    "unawaited": (
        'test("parent", (t) => { t.test("child", () => new Promise((end) => '
        "setTimeout(end, 50))); });",
        {"parent": "failed", "parent > child": "failed"},
    ),
    "only": ('test.only("one", () => {}); test("other", () => { throw 1; });', {"other": "failed"}),
    "equal": (KILL % 'require("assert").strictEqual(1, 2)', {"culprit": "failed"}),
    "deep": (
        KILL % 'require("assert").deepStrictEqual({ a: 1, b: 2 }, { a: 1, b: 3 })',
        {"culprit": "failed"},
    ),
    "todo": ('test("todo", { todo: true }, () => { throw new Error(); });', {}),
    "none": ("", {}),
    # What the file itself says or does must not hide its end.
    "says": ('test("says", (t) => t.diagnostic("Error: a"));' + EXIT, {"": "crash"}),
    "exit-13": ("after(() => process.exit(13));", {"": "crash"}),
    "exit-7": ("after(() => process.exit(7));", {"": "crash"}),
    "swallows": (SWALLOW, {"": "errored"}),
    "swallows-first.js": (SWALLOW, {"": "errored"}),
    "waits.mjs": (
        'import { test } from "node:test"; process.on("exit", () => { process.exitCode = 0; });'
        'test("first", () => {}); await new Promise(() => {});',
        {"": "errored"},
    ),
    "runs": (RUN, {}),
    "runs-exit": (RUN + EXIT, {"": "crash"}),
}  # fmt: skip
HANGS: Final = {
    "loop": ('test("culprit", { timeout: 100 }, () => { for (;;); });', {"culprit": "timeout"}),
    "timer": (f'test("culprit", () => {TIMER});', {"culprit": "timeout"}),
    "handle": ('test("leaves", () => { setInterval(() => {}, 1000); });', {"": "timeout"}),
    "pending": (KILL % "return new Promise(() => {})", {"culprit": "failed", "next": "failed"}),
    "await.mjs": (
        'import { test } from "node:test"; test("first", () => {}); await new Promise(() => {});',
        {"": "errored"},
    ),
}
SINCE_24: Final = {"unawaited": {}, "pending": {"culprit": "timeout"}}


def soak(*values: object) -> Any:
    return pytest.param(*values, marks=pytest.mark.soak)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project whose `node` is of the version that the parameter names."""
    needs_program("node", "20 or newer")
    (tmp_path / "bin").mkdir()
    if request.param != 20:
        node = TOOLS / f"nodes/node_modules/node{request.param}/bin/node"
        if not node.is_file():
            pytest.skip(f"needs Node.js {request.param}: make tools")
        (tmp_path / "bin/node").symlink_to(node)
    return tmp_path


@pytest.fixture
def version(request: pytest.FixtureRequest) -> int:
    return int(request.node.callspec.params["folder"])


def accidents(
    place: str, table: Mapping[str, tuple[str, Mapping[str, str]]], version: int
) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The files of a table, and what is wrong with them, by unit and case."""
    files, wrong = {}, {}
    for name, (text, expected) in table.items():
        unit = f"{place}/{name}" if "." in name else f"{place}/{name}.test.js"
        files[unit] = text if "." in name else HEAD + text
        now = SINCE_24.get(name, expected) if version >= 24 else expected
        wrong.update({(unit, case): how for case, how in now.items()})
    return files, wrong


def planned(folder: Path, toml: str, files: Mapping[str, str]) -> Loop:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return lay_out(folder, "empty", toml, PATH=f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin")


def suite(name: str, *words: str, timeout: str = "30s") -> str:
    words = ("node", *words)
    command = json.dumps(["sh", "-c", " ".join(words)])
    return f'[suite.{name}]\nframework = "node-test"\ncommand = {command}\ntimeout = "{timeout}"\n'


def results(loop: Loop) -> dict[tuple[str, str], str]:
    lines = (line for line in loop.record_lines() if line["type"] == "result")
    return {(line["unit"], line.get("case", "")): line["outcome"] for line in lines}


@pytest.mark.parametrize("folder", [20, soak(22), soak(24)], indirect=True)
def test_accident_is_named_with_its_test(folder: Path, version: int) -> None:
    files, wrong = accidents("acts", ACCIDENTS, version)
    files["acts/none.test.js"] = ""
    (folder / "fails.js").write_text(HEAD + 'test("fails", () => { throw 1; });')
    toml = suite("acts", "--max-old-space-size=60", "--test", "acts/*")
    loop = planned(folder, toml, files)
    verdict = loop.run()
    is_whole(verdict, loop)
    assert bad(verdict) == wrong
    texts = {one["unit"]: one["message"] for one in verdict["failures"]}
    assert "exit code 0" in texts["acts/exit-0.test.js"]
    assert "killed by SIGKILL" in texts["acts/kill.test.js"]
    assert all('"leaves"' in texts[f"acts/{name}.test.js"] for name in ("late", "rejection"))
    assert "strictly equal: 1 !== 2" in first_line(texts["acts/equal.test.js"])
    assert "deep-equal: + b: 2, - b: 3" in first_line(texts["acts/deep.test.js"])
    found = results(loop)
    assert found["acts/todo.test.js", "todo"] == found["acts/none.test.js", ""] == "skipped"
    lines = loop.record_lines()
    ends = [one["unit"] for one in lines if "closed" in one.values() or "died" in one.values()]
    assert len(ends) == len(set(ends))
    lost = ("exit-import", "syntax", "throws", "none", "swallows-first")
    begun = {unit for unit in files if not any(f"/{name}." in unit for name in lost)}
    assert {unit for unit, case in found if case == "first"} == begun
    assert all(found[unit, "first"] == "passed" for unit in begun)
    # What follows a death has not run.
    assert ("acts/exit-0.test.js", "next") not in found


@pytest.mark.soak
@pytest.mark.parametrize("folder", [20, 22, 24], indirect=True)
def test_hanging_test_is_named(folder: Path, version: int) -> None:
    files, wrong = accidents("hangs", HANGS, version)
    loop = planned(folder, suite("hangs", "--test", "hangs/*", timeout="3s"), files)
    verdict = loop.run()
    is_whole(verdict, loop)
    assert bad(verdict) == wrong


NAMES: Final = """const { describe, it, test } = require("node:test");
const { execFileSync } = require("child_process");
const wait = (ms) => new Promise((end) => setTimeout(end, ms));
for (const ms of [30, 10]) test("twice", async (t) => { await t.test("sub", () => wait(ms)); });
describe("group", { concurrency: true }, () => {
  it("slow", () => wait(60)); it("fast", () => wait(10)); it.skip("left", () => {});
});
describe.skip("skipped group", () => { it("never", () => {}); });
test("starts a runner of its own", () => {
  if (Object.keys(process.env).some((name) => /^CIGUARD_(RECORD|UNITS)/.test(name))) throw 1;
  delete process.env.NODE_TEST_CONTEXT;
  execFileSync(process.execPath, ["--test", "inner.js"]);
});
"""


@pytest.mark.parametrize("folder", [20, soak(22), soak(24)], indirect=True)
def test_tests_are_told_apart_and_reporters_go_on(folder: Path) -> None:
    words = ("--test", "--test-reporter=tap", "--test-reporter-destination=own.tap", "names.js")
    files = {"names.js": NAMES, "inner.js": 'require("node:test").test("inner", () => {});'}
    loop = planned(folder, suite("main", *words), files)
    assert loop.planned() == ["names.js"]
    verdict = loop.run()
    assert verdict["verdict"] == "passed", loop.printed
    assert {case: outcome for (_, case), outcome in results(loop).items()} == {
        **dict.fromkeys(("twice", "twice > sub", "twice #2", "twice #2 > sub"), "passed"),
        **dict.fromkeys(("group > slow", "group > fast"), "passed"),
        **dict.fromkeys(("group > left", "skipped group"), "skipped"),
        "starts a runner of its own": "passed",
    }
    lines = {line.get("case"): line for line in loop.record_lines() if line["type"] == "result"}
    assert lines["twice > sub"]["wall_s"] >= 0.03 > lines["twice"]["wall_s"]
    peaks = [line for line in loop.record_lines() if line["type"] == "result"]
    assert len(peaks) == 9
    assert "ok 1 - twice" in (folder / "own.tap").read_text()


ODD: Final = ("[id].test.js", "{a,b}.test.js", "(x) * ?.test.js", "b [!a] 'z' ü.test.js")


@pytest.mark.parametrize("folder", [20, 22, 24], indirect=True)
@pytest.mark.parametrize("word", ["", "--test-force-exit"])
def test_job_runs_its_own_files_once(folder: Path, word: str) -> None:
    text = 'const fs = require("fs"); require("node:test").test("a", () => fs.appendFileSync(%s));'
    names = (*ODD, "i.test.js", "a.test.js")
    files = {
        f"test/{name}": text % f"'ran', {json.dumps(name)} + '\\n'" for name in names
    } | {"test/sub/deep.test.js": "", "other.mjs": ""}  # fmt: skip
    (folder / "test/sub").mkdir(parents=True)
    loop = planned(folder, suite("main", word, "--test", "--test-concurrency=4"), files)
    assert loop.planned() == sorted(f"test/{name}" for name in (*names, "sub/deep.test.js"))
    loop.run_shard("01", "01")
    ran = (folder / "ran").read_text().splitlines()
    plan = json.loads((folder / "plan.json").read_text())
    assert sorted(f"test/{name}" for name in ran) == sorted(
        unit["unit"]
        for unit in plan["shards"][0]["units"]
        if unit["unit"] != "test/sub/deep.test.js"
    )
    lines = [
        line
        for line in loop.record_lines()
        if line.get("kind") == "closed" or line["type"] == "start"
    ]
    kinds = [line["type"] for line in lines]
    assert kinds == ["start", "event"] * (len(kinds) // 2)  # one at a time


@pytest.mark.parametrize("folder", [20, soak(22), soak(24)], indirect=True)
@pytest.mark.parametrize("is_there", [True, False])
def test_no_file_begins_after_a_stop_or_without_one(folder: Path, is_there: bool) -> None:
    """Without arguments, the runner would run all files."""
    for name in ("a.test.js", "b.test.js"):
        (folder / name).write_text("process.exit(9);")
    (folder / "units").write_text(json.dumps(["a.test.js" if is_there else "gone.test.js"]))
    (folder / "stop").touch()
    names = {"RECORD_FILE": "record", "UNITS_FILE": "units", "STOP_FILE": "stop"}
    plugin = Path(ciguard.run.__file__).parent / "plugins/ciguard_node_test.cjs"
    environ = {f"CIGUARD_{name}": str(folder / file) for name, file in names.items()}
    environ |= {"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"}
    environ |= {"NODE_OPTIONS": f"--require {plugin}"}
    done = subprocess.run(
        ["node", "--test"], cwd=folder, env=environ, check=False, capture_output=True
    )
    assert done.returncode == is_there
    kinds = [json.loads(line).get("kind") for line in (folder / "record").read_text().splitlines()]
    assert kinds == (["execution"] if is_there else ["execution", "not_collected"])


@pytest.mark.parametrize(
    ("folder", "option", "setting"),
    [
        (20, "--test_only", "focus --test-only"),
        (22, "--test_only", "focus --test-only"),
        (24, '--test_name_pattern "fir st"', "filter --test-name-pattern fir st"),
    ],
    indirect=["folder"],
)
def test_filter_is_found_as_node_reads_it(folder: Path, option: str, setting: str) -> None:
    """From 22 on, a test that is not selected never ends: it is no crash of its file."""
    files = {"a.test.js": HEAD, "b.test.js": HEAD + 'test.only("fir st", () => {});'}
    loop = planned(folder, suite("main", "--test"), files)
    verdict = loop.run(NODE_OPTIONS=option)
    assert (verdict["verdict"], bad(verdict)) == ("incomplete", {})
    assert results(loop)["b.test.js", "fir st"] == "passed"
    assert loop.execution() == {setting}
    kind, _, listed = setting.partition(" ")
    assert loop.listed_filters(NODE_OPTIONS=option) == [listed] * (kind == "filter")


TYPED: Final = 'import { test } from "node:test"; const a: number = 1; test("typed", () => { a; });'
LAUNCHERS: Final = {
    "tsx": "node_modules/.bin/tsx --test",
    "import": "node --import tsx --test",
    "c8": "node_modules/.bin/c8 --reporter=text node --import tsx --test",
    "npm": "npm test --",
}


@pytest.mark.parametrize("folder", [20], indirect=True)
@pytest.mark.parametrize("launcher", ["c8", soak("tsx"), soak("import"), soak("npm")])
def test_runner_is_reached_behind_its_launcher(folder: Path, launcher: str) -> None:
    if not (NODE_MODULES / "tsx").is_dir():
        pytest.skip("needs tsx of npm: make tools")
    (folder / "node_modules").symlink_to(NODE_MODULES, target_is_directory=True)
    package = {"scripts": {"test": "node --import tsx --test"}}
    files = {"test/a.test.ts": TYPED, "test/b.test.ts": TYPED, "package.json": json.dumps(package)}
    command = json.dumps(
        [*LAUNCHERS[launcher].split(), *(name for name in files if "test" in name)]
    )
    toml = f'[suite.main]\nframework = "node-test"\ncommand = {command}\n'
    loop = planned(folder, toml, files)
    assert loop.planned() == ["test/a.test.ts", "test/b.test.ts"]
    assert loop.run()["verdict"] == "passed", loop.printed
    assert {case for _, case in results(loop)} == {"typed"}


@pytest.mark.parametrize(
    ("folder", "words", "said"),
    [
        (20, "--test --test_shard=1/2 a.test.js", "--test-shard=1/2: ciguard divides the files"),
        (20, "--test --unknown", "bad option: --unknown"),
        soak(20, "a.test.js", "the command must start `node --test`"),
        soak(20, "run.mjs", "the command must start `node --test`"),
        (22, "--test --experimental-test-isolation=none a.test.js", "a process for each file"),
        soak(24, "--test --test-isolation none a.test.js", "a process for each file"),
        soak(24, "--test 'nothing/*'", "no test to plan"),
    ],
    indirect=["folder"],
)
def test_what_cannot_be_selected_is_said_by_the_plan(folder: Path, words: str, said: str) -> None:
    (folder / "a.test.js").write_text(HEAD)
    text = 'import { run } from "node:test"; run({ files: ["a.test.js"] }).resume();'
    (folder / "run.mjs").write_text(text)
    (folder / "ciguard.toml").write_text(suite("main", *words.split()))
    path = f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    done = call_in_process("plan", "--shards", "1", "-o", "plan.json", cwd=folder, PATH=path)
    assert done.returncode in (3, 5)
    assert said in " ".join(done.stderr.split())
    assert ("must start" in done.stderr) == ("must start" in said)
