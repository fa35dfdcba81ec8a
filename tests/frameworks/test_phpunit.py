"""PHPUnit through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import clean_environment
from frameworks.loop import Loop, bad, is_whole

from ciguard.run.plugins import ciguard_phpunit

LAUNCHER = Path(ciguard_phpunit.__file__)
ADDS, DEEP = "tests/AddsTest.php", "tests/deep/AddsTest.php"
ENDS = ("tests/EndsTest.php", "EndsTest::testEnds")
IMPORTS, SETUP = "tests/ImportsTest.php", "tests/SetupTest.php"
ODD, ROWS = "tests/Odd_ÄTest.php", "Odd_ÄTest::testRows with data set"
FILES = [ADDS, ENDS[0], IMPORTS, "tests/MemoryTest.php", ODD, SETUP, DEEP, "tests/odd.phpt"]


def test_every_test_of_every_file_is_recorded(phpunit: Loop) -> None:
    assert phpunit.planned() == FILES
    verdict = phpunit.run(WAY="exit0", FAIL="1")
    is_whole(verdict, phpunit)
    adds, deep = (ADDS, r"Shop\AddsTest::testAdds"), (DEEP, r"Shop\Deep\AddsTest::testAdds")
    row = (ODD, f"{ROWS} #0")
    assert bad(verdict) == {adds: "failed", deep: "failed", row: "failed", ENDS: "crash"}
    (failure,) = (one for one in verdict["failures"] if one["unit"] == DEEP)
    assert (failure["file"], failure["line"]) == (ADDS, 12)
    first, *more = failure["message"].splitlines()
    assert first == "Failed asserting that two strings are identical."
    assert more[:4] == ["expected: 'four", "'", "actual: 'five", "'"]
    results = [line for line in phpunit.record_lines() if line.get("type") == "result"]
    assert {line["case"]: line["outcome"] for line in results if line["unit"] == ODD} == {
        f'{ROWS} "quo"te \'n <b>&amp;"': "passed",
        f'{ROWS} "line\nfeed"': "passed",
        f'{ROWS} "grüße 😀 日本"': "passed",
        f'{ROWS} "a|b [x] (y) .* ##teamcity[x]"': "passed",
        f'{ROWS} "no UTF-8: \ufffd"': "passed",
        f"{ROWS} #0": "failed",
    }
    others = {line["case"].partition("::")[2]: line for line in results if line["unit"] == ADDS}
    assert {name: line["outcome"] for name, line in others.items()} == {
        "testAdds": "failed",
        "testSkipped": "skipped",
        "testIncomplete": "skipped",
        "testRisky": "passed",
        "testDepends": "skipped",
    }
    assert others["testIncomplete"]["message"].splitlines()[0] == "later"
    assert phpunit.execution() == {"executed"}
    begun = {case for unit, case in phpunit.cases_begun() if unit == ODD}
    assert begun == {line["case"] for line in results if line["unit"] == ODD}


@pytest.mark.soak
def test_filters_and_the_seed_of_a_random_order_are_named(phpunit: Loop) -> None:
    words = '"--order-by=random", "--filter=/Adds|Ends/"'
    phpunit.configure(phpunit.toml.replace("args = [", f"args = [{words}, "))
    path = phpunit.folder / "config" / "phpunit.xml"
    groups = "<groups><exclude><group>slow</group></exclude></groups>"
    path.write_text(path.read_text().replace("<php>", f"{groups}<php>"))
    filters = ["--filter=/Adds|Ends/", "config/phpunit.xml: exclude group slow"]
    assert phpunit.listed_filters() == filters
    assert phpunit.run()["verdict"] == "passed"
    assert phpunit.execution() == {f"filter {one}" for one in filters}
    assert {one.partition("=")[0] for one in phpunit.seeds()} == {"--random-order-seed"}


@pytest.mark.soak
@pytest.mark.parametrize(("way", "file"), [("class setup", SETUP), ("teardown", ENDS[0])])
def test_class_that_cannot_be_set_up_or_torn_down_fails(phpunit: Loop, way: str, file: str) -> None:
    """PHPUnit 10 to 12 log nothing of a tear-down, but end with 2."""
    verdict = phpunit.run(WAY=way)
    is_whole(verdict, phpunit)
    assert verdict["verdict"] == "failed"
    unexplained = "exit code 2, and no failed result explains it" in phpunit.printed
    assert {unit for unit, _ in bad(verdict)} == (set() if unexplained else {file})
    assert not unexplained or way == "teardown"


@pytest.mark.soak
def test_own_reports_filters_and_strictness_go_on(phpunit: Loop) -> None:
    """PHPUnit 9 lists what `--filter` leaves out, too."""
    words = (
        "--testdox",
        "--log-junit=own.xml",
        "--filter",
        "/testAdds|Risky|odd/",
        "--fail-on-risky",
    )
    phpunit.configure(phpunit.toml.replace('["-c"', json.dumps(words)[:-1] + ', "-c"'))
    verdict = phpunit.run()
    is_whole(verdict, phpunit)
    assert set(bad(verdict)) == {
        (ADDS, r"Shop\AddsTest::testRisky"),
        (DEEP, r"Shop\Deep\AddsTest::testRisky"),
    }
    assert "<testsuites" in (phpunit.folder / "own.xml").read_text()
    assert "\u2714 Adds" in phpunit.printed
    results = [line for line in phpunit.record_lines() if line.get("type") == "result"]
    left_out = {line["message"] for line in results if line["outcome"] == "skipped"}
    assert left_out <= {"no test of it is selected"}


@pytest.mark.soak
def test_bootstrap_file_that_fails_is_no_fault_of_a_test(phpunit: Loop) -> None:
    (phpunit.folder / "config" / "bootstrap.php").write_text(
        "<?php throw new Exception('no base');"
    )
    verdict = phpunit.run()
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == len(FILES)
    assert "setup_failed (exit code" in phpunit.printed
    assert "it ends its process before the first test" not in phpunit.printed


@pytest.mark.soak
def test_files_run_in_the_order_of_the_plan(phpunit: Loop) -> None:
    plan = json.loads((phpunit.folder / "plan.json").read_text())
    phpunit.run()
    for shard in plan["shards"]:
        record = phpunit.folder / "records" / shard["key"] / "process-001.jsonl"
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        begun = [line["unit"] for line in lines if line["type"] == "start"]
        assert begun == [unit["unit"] for unit in shard["units"]]


@pytest.mark.soak
def test_stop_file_ends_phpunit_after_the_file_that_it_is_at(phpunit: Loop) -> None:
    units, record, stop = (phpunit.folder / name for name in ("units.json", "lines", "stop"))
    units.write_text(json.dumps([ADDS, ENDS[0], "tests/MemoryTest.php"]))
    argv = [sys.executable, "-I", "-S", str(LAUNCHER), "1", "phpunit", "-c", "config"]
    env = clean_environment(
        CIGUARD_UNITS_FILE=str(units),
        CIGUARD_RECORD_FILE=str(record),
        CIGUARD_STOP_FILE=str(stop),
        STOP_FILE=str(stop),
        WAY="stop",
    )
    subprocess.run(argv, cwd=phpunit.folder, env=env, check=True, timeout=60)
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert {line["unit"] for line in lines if "unit" in line} == {ADDS, ENDS[0]}
    assert [line["unit"] for line in lines if line.get("kind") == "closed"] == [ADDS, ENDS[0]]
