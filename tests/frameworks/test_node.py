"""Node's frameworks through the whole loop: what passes, fails, dies or vanishes is accounted for.

One suite of files, which each of them runs.
"""

from __future__ import annotations

import json

import pytest
from frameworks.loop import Loop, bad, is_whole

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
