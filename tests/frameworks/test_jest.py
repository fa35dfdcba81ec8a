"""Jest through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from frameworks.loop import (
    Loop,
    bad,
    is_whole,
    kill_at_random_moments,
    lay_out,
    link_node_modules,
    needs_node,
)

if TYPE_CHECKING:
    from pathlib import Path

TOML = """[suite.js]
framework = "jest"
command = ["sh", "-c", "exec ${RUN:-node_modules/.bin/jest} \\"$@\\"", "jest"]
timeout = "8s"
"""
ENDS = ("test/ends.test.js", "")
FILES = [
    *("test/adds.test.js", "test/deep/adds.test.js", "test/ends.test.js", "test/imports.test.js"),
    *("test/memory.test.js", "test/odd names.test.js", "test/setup.test.js"),
]


@pytest.fixture
def jest(tmp_path: Path) -> Loop:
    needs_node("jest")
    link_node_modules(tmp_path)
    return lay_out(tmp_path, "jest", TOML)


def test_every_case_of_every_file_is_recorded(jest: Loop) -> None:
    assert jest.planned() == FILES
    verdict = jest.run(WAY="kill", FAIL="1")
    is_whole(verdict, jest)
    odd = "test/odd names.test.js"
    assert bad(verdict) == {ENDS: "crash", (odd, "odd [x] (y) twice #2"): "failed"}
    results = [line for line in jest.record_lines() if line.get("type") == "result"]
    cases = {line["case"]: line["outcome"] for line in results if line["unit"] == odd}
    assert cases == {
        'odd [x] (y) says "it\'s" so': "passed",
        "odd [x] (y) a line\nfeed": "passed",
        "odd [x] (y) grüße 😀 日本": "passed",
        "odd [x] (y) twice": "passed",
        "odd [x] (y) twice #2": "failed",
        "odd [x] (y) ": "passed",
    }
    skipped = {line["case"] for line in results if line["outcome"] == "skipped"}
    assert skipped == {"sums divides", "sums multiplies"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("way", "expected"),
    [
        ("", {}),
        ("kill", {ENDS: "crash"}),
        ("exit0", {ENDS: "crash"}),
        ("exit3", {ENDS: "crash"}),
        ("hang", {ENDS: "timeout"}),
        ("heap", {ENDS: "out_of_memory"}),
        ("import", {("test/imports.test.js", ""): "errored"}),
        (
            "setup",
            {("test/setup.test.js", "one"): "failed", ("test/setup.test.js", "two"): "failed"},
        ),
    ],
)
def test_report_names_the_culprit_and_no_other_test(
    jest: Loop, way: str, expected: dict[tuple[str, str], str]
) -> None:
    verdict = jest.run(WAY=way, NODE_OPTIONS="--max-old-space-size=300")
    is_whole(verdict, jest)
    assert bad(verdict) == expected
    assert verdict["verdict"] == ("failed" if expected else "passed")


@pytest.mark.soak
def test_limit_of_a_test_is_a_timeout(jest: Loop) -> None:
    verdict = jest.run(WAY="slow")
    is_whole(verdict, jest)
    assert bad(verdict) == {("test/ends.test.js", "ends"): "failed"}
    assert [one["ending"] for one in verdict["failures"]] == ["timeout"]


@pytest.mark.soak
def test_file_that_is_gone_is_named(jest: Loop) -> None:
    (jest.folder / "test" / "setup.test.js").unlink()
    verdict = jest.run()
    assert verdict["verdict"] == "incomplete"
    assert [one["unit"] for one in verdict["missing"]] == ["test/setup.test.js"]


@pytest.mark.soak
def test_without_the_plugin_the_run_is_incomplete(jest: Loop) -> None:
    """As behind a wrapper that hands no variable on: no result is taken from an exit code."""
    verdict = jest.run(RUN="env -u NODE_OPTIONS node_modules/.bin/jest")
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(FILES)


@pytest.mark.soak
def test_memory_is_that_of_the_file_that_holds_it(jest: Loop) -> None:
    jest.run()
    records = sorted(jest.folder.glob("records/*/supervisor.jsonl"))
    lines = [json.loads(line) for file in records for line in file.read_text().splitlines()]
    needed = {
        line["unit"]: line["peak_lower_bytes"] - line["rss_before_bytes"]
        for line in lines
        if line["type"] == "peak" and line.get("peak_lower_bytes")
    }
    assert max(needed, key=lambda unit: needed[unit]) == "test/memory.test.js"
    assert 140 << 20 < needed["test/memory.test.js"] < 190 << 20


@pytest.mark.soak
def test_own_reporters_go_on(jest: Loop) -> None:
    (jest.folder / "own.js").write_text(
        "module.exports = class { onRunComplete() { console.log('OWN REPORTER'); } };"
    )
    (jest.folder / "jest.config.js").write_text("module.exports = { reporters: ['./own.js'] };")
    assert jest.run()["verdict"] == "passed"
    assert jest.printed.count("OWN REPORTER") == 2


@pytest.mark.soak
def test_killed_leg_goes_on_where_it_was(jest: Loop) -> None:
    kill_at_random_moments(jest, times=20, longest_s=2.5)
