"""Playwright Test through the whole loop: no browser is needed, for no test uses a page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from conftest import clean_environment
from frameworks.loop import Loop, bad, is_whole

import ciguard.run

ADDS = "tests/adds.spec.js"
ENDS = "tests/ends.spec.js"
IMPORTS = "tests/imports.spec.js"
ODD = "tests/odd names.spec.js"
SERIAL = "tests/serial.spec.js"
SETUP = "tests/setup.spec.js"
FILES = [
    *(ADDS, "tests/deep/adds.spec.js", ENDS, IMPORTS, "tests/memory.spec.js", ODD, SERIAL, SETUP),
]


def cases(loop: Loop, unit: str) -> dict[str, str]:
    """The outcome of each case of a unit, with how often it was executed again."""
    lines = [line for line in loop.record_lines() if line.get("type") == "result"]
    return {
        line["case"]: line["outcome"] + "+" * line.get("reruns", 0)
        for line in lines
        if line["unit"] == unit
    }


@pytest.mark.soak
def test_every_case_of_every_file_is_recorded(playwright: Loop) -> None:
    assert playwright.planned() == FILES
    verdict = playwright.run(WAY="kill", FAIL="1")
    is_whole(verdict, playwright)
    assert bad(verdict) == {(ENDS, "ends"): "failed", (ODD, "odd [x] (y) › fails"): "failed"}
    assert sorted(one["ending"] for one in verdict["failures"]) == ["completed", "crash"]
    starts = [line for line in playwright.record_lines() if line.get("kind") == "case_start"]
    assert [one["detail"] for one in starts if one["unit"] == ENDS] == ["before", "ends", "behind"]
    assert cases(playwright, ENDS) == {"before": "passed", "ends": "failed", "behind": "passed"}
    assert cases(playwright, ODD) == {
        'odd [x] (y) › says "it\'s" so': "passed",
        "odd [x] (y) › a line\nfeed": "passed",
        "odd [x] (y) › grüße 😀 日本 › x": "passed",
        "odd [x] (y) › ": "passed",
        "odd [x] (y) › fails": "failed",
    }
    assert cases(playwright, ADDS) == {
        "sums › adds": "passed",
        "sums › 1 + 1": "passed",
        "sums › 2 + 1": "passed",
        "sums › divides": "skipped",
        "sums › multiplies": "skipped",
        "sums › subtracts": "passed",
    }


@pytest.mark.soak
def test_failing_global_setup_is_said(playwright: Loop) -> None:
    verdict = playwright.run(WAY="global")
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(FILES)
    assert "Playwright ran no test: Error: global set-up fails" in playwright.printed


@pytest.mark.soak
def test_retries_are_reruns(playwright: Loop) -> None:
    verdict = playwright.run(WAY="flaky", RETRIES="2")
    is_whole(verdict, playwright)
    assert verdict["verdict"] == "passed"
    assert cases(playwright, SERIAL) == {
        "one after the other › first": "passed+",
        "one after the other › second": "passed+",
        "one after the other › third": "passed+",
    }
    verdict = playwright.run(WAY="kill", RETRIES="2")
    is_whole(verdict, playwright)
    assert bad(verdict) == {(ENDS, "ends"): "failed"}
    assert cases(playwright, ENDS) == {"before": "passed", "ends": "failed++", "behind": "passed"}


@pytest.mark.soak
def test_projects_run_with_what_they_depend_on(playwright: Loop) -> None:
    environ = {"PROJECTS": "1"}
    loop = Loop(playwright.folder, environ)
    loop.plan()
    named = [f"[a b] {file}" for file in FILES]
    assert loop.planned() == [*named, "[deep] tests/deep/adds.spec.js"]
    verdict = loop.run(WAY="kill", **environ)
    is_whole(verdict, loop)
    assert bad(verdict) == {(f"[a b] {ENDS}", "ends"): "failed"}
    # In each shard.
    assert [loop.printed.count(word) for word in ("PREPARED", "CLEANED")] == [2, 2]
    verdict = loop.run(WAY="prepare", **environ)
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(FILES) + 1
    cause = "depends on setup › prepares.js › prepares: Error: nothing is prepared"
    assert cause in " ".join(loop.printed.split())


@pytest.mark.soak
def test_memory_is_that_of_the_file_that_holds_it(playwright: Loop) -> None:
    playwright.run()
    records = sorted(playwright.folder.glob("records/*/supervisor.jsonl"))
    lines = [json.loads(line) for file in records for line in file.read_text().splitlines()]
    needed = {
        line["unit"]: line["peak_upper_bytes"] - line["rss_before_bytes"]
        for line in lines
        if line["type"] == "peak" and line.get("peak_upper_bytes")
    }
    assert 140 << 20 < needed["tests/memory.spec.js"] < 190 << 20
    assert needed[ENDS] < 60 << 20


@pytest.mark.soak
def test_process_stops_after_a_file(playwright: Loop, tmp_path: Path) -> None:
    """As the leg asks for to give back memory; what is left is no test of another outcome."""
    record, stop, units = (tmp_path / name for name in ("record", "stop", "units.json"))
    stop.touch()
    units.write_text(json.dumps([ENDS, SETUP, ADDS]))
    plugin = Path(ciguard.run.__file__).parent / "plugins" / "ciguard_playwright.cjs"
    environ = clean_environment(
        CIGUARD_RECORD_FILE=str(record),
        CIGUARD_STOP_FILE=str(stop),
        CIGUARD_UNITS_FILE=str(units),
        NODE_OPTIONS=f"--require {plugin}",
    )
    program = playwright.folder / "node_modules" / ".bin" / "playwright"
    subprocess.run([program, "test"], cwd=playwright.folder, env=environ, check=True)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert {line["unit"] for line in lines if "unit" in line} == {ADDS}
    assert lines[-1]["kind"] == "closed"


@pytest.mark.soak
def test_own_reporters_go_on(playwright: Loop) -> None:
    assert playwright.run(OWN="1")["verdict"] == "passed"
    assert playwright.printed.count("OWN REPORTER") == 2
