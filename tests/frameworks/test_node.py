"""Node's frameworks through the whole loop: what passes, fails, dies or vanishes is accounted for.

One suite of files, which each of them runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from frameworks.loop import (
    Loop,
    bad,
    holds_memory,
    is_whole,
    kill_at_random_moments,
    lay_out,
    link_node_modules,
    needs_node,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ENDS = ("test/ends.test.js", "ends")
SETUP = "test/setup.test.js"
Bad = dict[tuple[str, str], str]


@dataclass(frozen=True)
class Tool:
    """A framework, and where it differs from others.

    Attributes:
        name: of the adapter, the package, and the program.
        words: behind the program.
        separator: between the names of a group and of a test.
        ways: by `WAY`, what is bad.
    """

    name: str
    words: str = ""
    separator: str = " "
    ways: Mapping[str, Bad] = field(default_factory=dict)

    def case(self, *names: str) -> str:
        return self.separator.join(names)

    @property
    def toml(self) -> str:
        program = f"node_modules/.bin/{self.name}{self.words}"
        command = json.dumps(["sh", "-c", f'exec ${{RUN:-{program}}} "$@"', self.name])
        return f'[suite.js]\nframework = "{self.name}"\ncommand = {command}\ntimeout = "8s"\n'


DEATHS: dict[str, Bad] = {
    "kill": {ENDS: "crash"},
    "hang": {ENDS: "timeout"},
    "heap": {ENDS: "out_of_memory"},
    "close": {("test/ends.test.js", ""): "crash"},
}
EMPTY: dict[str, Bad] = {"empty": {("test/imports.test.js", ""): "errored"}}
TOOLS = [
    Tool(
        "jest",
        ways=DEATHS
        | EMPTY
        | {
            "setup": {(SETUP, "one"): "failed", (SETUP, "two"): "failed"},
        },
    ),
    Tool(
        "vitest",
        " run",
        separator=" > ",
        ways=DEATHS
        | EMPTY
        | {
            # The test closes those of its worker.
            "close": {},
            "setup": {(SETUP, ""): "errored"},
        },
    ),
    Tool(
        "mocha",
        # A file without tests is skipped, as Mocha passes over it.
        ways=DEATHS
        | {
            "setup": {(SETUP, ""): "errored"},
        },
    ),
]
FILES = [
    *("test/adds.test.js", "test/deep/adds.test.js", "test/ends.test.js", "test/imports.test.js"),
    *("test/memory.test.js", "test/odd names.test.js", "test/setup.test.js"),
]


@pytest.fixture(
    params=[
        pytest.param(tool, marks=pytest.mark.soak if tool.name == "vitest" else ())
        for tool in TOOLS
    ],
    ids=[tool.name for tool in TOOLS],
)
def tool(request: pytest.FixtureRequest) -> Tool:
    assert isinstance(request.param, Tool)
    return request.param


@pytest.fixture
def loop(tmp_path: Path, tool: Tool) -> Loop:
    needs_node(tool.name)
    link_node_modules(tmp_path)
    return lay_out(tmp_path, "node", tool.toml)


def test_every_case_of_every_file_is_recorded(loop: Loop, tool: Tool) -> None:
    assert loop.planned() == FILES
    verdict = loop.run(WAY="kill", FAIL="1")
    is_whole(verdict, loop)
    odd = "test/odd names.test.js"
    twice = (odd, tool.case("odd [x] (y)", "twice #2"))
    assert bad(verdict) == tool.ways["kill"] | {twice: "failed"}
    lines = loop.record_lines()
    for unit in FILES:  # Vitest can tell of a file before it does of its last tests
        kinds = [line.get("kind") or line["type"] for line in lines if line.get("unit") == unit]
        assert kinds[0] == "start"
        assert "result" not in kinds[kinds.index("closed") if "closed" in kinds else len(kinds) :]
    results = [line for line in lines if line.get("type") == "result"]
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == odd}
    names = ('says "it\'s" so', "a line\nfeed", "grüße 😀 日本", "twice", "twice #2", "")
    assert cases == {
        tool.case("odd [x] (y)", name): "failed" if name == "twice #2" else "passed"
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
    assert skipped == {tool.case("sums", "divides"), tool.case("sums", "multiplies")}


@pytest.mark.soak
@pytest.mark.parametrize("way", ["hang", "heap", "empty", "setup", "close"])
def test_report_names_the_culprit_and_no_other_test(loop: Loop, tool: Tool, way: str) -> None:
    verdict = loop.run(WAY=way, NODE_OPTIONS="--max-old-space-size=300")
    is_whole(verdict, loop)
    expected = tool.ways.get(way, {})
    assert bad(verdict) == expected, loop.printed
    assert verdict["verdict"] == ("failed" if expected else "passed")


@pytest.mark.soak
def test_limit_of_a_test_is_a_timeout(loop: Loop) -> None:
    verdict = loop.run(WAY="slow")
    is_whole(verdict, loop)
    assert bad(verdict) == {ENDS: "failed"}
    assert [one["ending"] for one in verdict["failures"]] == ["timeout"]


@pytest.mark.soak
def test_memory_is_that_of_the_file_that_holds_it(loop: Loop) -> None:
    loop.run()
    # A worker counts what an earlier file freed as in use before its own.
    holds_memory(loop, "test/memory.test.js", least_mib=60, most_mib=260)


@pytest.mark.soak
def test_own_reporters_go_on(loop: Loop, tool: Tool) -> None:
    hooks = {"jest": "onRunComplete", "vitest": "onTestRunEnd", "mocha": "done"}
    bodies = {"mocha": "(failures, end) { console.log('OWN'); end(failures); }"}
    body = bodies.get(tool.name, "() { console.log('OWN'); }")
    reporter = f"module.exports = class {{ {hooks[tool.name]}{body} }};"
    (loop.folder / "own.cjs").write_text(reporter)
    (loop.folder / "jest.config.js").write_text("module.exports = { reporters: ['./own.cjs'] };")
    config = "export default { test: { globals: true, reporters: ['./own.cjs'] } };"
    (loop.folder / "vitest.config.mjs").write_text(config)
    options = {"require": "./mocha.cjs", "spec": "test/**/*.test.js", "reporter": "./own.cjs"}
    (loop.folder / ".mocharc.cjs").write_text(f"module.exports = {json.dumps(options)};")
    assert loop.run()["verdict"] == "passed"
    assert loop.printed.count("OWN") == 2


@pytest.mark.soak
def test_killed_leg_goes_on_where_it_was(loop: Loop) -> None:
    kill_at_random_moments(loop, longest_s=3.0)
