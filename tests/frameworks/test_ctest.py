"""CTest through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from frameworks.loop import Loop, bad, is_whole

ENDS = ("ends.ends", "")
UNITS = sorted(
    [
        *("chain.one", "chain.two", "db.reads", "db.writes", "lonely.up", "memory.holds"),
        *("ends.before", "ends.behind", "ends.ends"),
        *(f"{kind}.{name}" for kind in ("free", "lock") for name in "abc"),
        *("names.new\nline", 'names.sp ace "quo\'te" a+b_(x)_[y]_.* \\back', "names.grüße_😀"),
        *("serial.alone", "sums.adds", "sums.adds #2", "sums.disabled", "sums.fails"),
        *("sums.finds", "sums.prints", "sums.skips", "tool.runs"),
    ]
)


def test_every_test_is_recorded(ctest: Loop) -> None:
    assert ctest.planned() == UNITS
    plan = json.loads((ctest.folder / "plan.json").read_text())
    shards = [{unit["unit"] for unit in shard["units"]} for shard in plan["shards"]]
    chain = {"chain.one", "chain.two"}
    assert any(chain <= shard for shard in shards), "tests with DEPENDS stay in one shard"
    (ctest.folder / "build" / "tool").unlink()
    verdict = ctest.run(WAY="kill", FAIL="1")
    is_whole(verdict, ctest)
    assert bad(verdict) == {
        ENDS: "crash",
        ("sums.fails", ""): "failed",
        ("sums.finds", ""): "failed",
        ("tool.runs", ""): "errored",
    }
    messages = {one["unit"]: one["message"] for one in verdict["failures"]}
    assert messages["sums.fails"] == "why"
    assert messages["tool.runs"].startswith("Unable to find executable: ")
    assert messages["ends.ends"] == "its program ended: Subprocess killed"
    results = [line for line in ctest.record_lines() if line.get("type") == "result"]
    assert sorted(line["unit"] for line in results) == UNITS, "each has run once"
    skipped = {line["unit"] for line in results if line["outcome"] == "skipped"}
    assert skipped == {"sums.skips", "sums.disabled"}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("way", "outcome", "message"), [("setup", "errored", "db.up: up"), ("uphang", "timeout", "")]
)
def test_failure_of_a_set_up_is_one_of_each_test_that_it_is_for(
    ctest: Loop, way: str, outcome: str, message: str
) -> None:
    verdict = ctest.run(WAY=way)
    is_whole(verdict, ctest)
    assert bad(verdict) == {("db.reads", ""): outcome, ("db.writes", ""): outcome}, ctest.printed
    assert verdict["verdict"] == "failed"
    assert message in verdict["failures"][0]["message"]


@pytest.mark.soak
def test_clean_up_that_fails_is_seen(ctest: Loop) -> None:
    verdict = ctest.run(WAY="cleanup")
    assert bad(verdict) == {}
    assert verdict["verdict"] != "passed"
    assert "db.down" in ctest.printed


@pytest.mark.soak
def test_limit_of_ctest_itself_is_a_timeout(ctest: Loop) -> None:
    argv = ("cmake", "-DLIMIT=1", "build")
    subprocess.run(argv, cwd=ctest.folder, check=True, capture_output=True, timeout=60)
    verdict = ctest.run(WAY="limit")
    is_whole(verdict, ctest)
    assert bad(verdict) == {ENDS: "timeout"}
    (failure,) = verdict["failures"]
    assert failure["message"].splitlines()[0].startswith("over its limit in CTest: 1.")
    assert "waits" in failure["message"]


@pytest.mark.soak
def test_what_is_not_configured_cannot_be_listed(ctest: Loop) -> None:
    shutil.rmtree(ctest.folder / "build")
    with pytest.raises(AssertionError, match="configure and build first"):
        ctest.plan()


@pytest.mark.soak
def test_quiet_preset_is_named(ctest: Loop) -> None:
    build = {"name": "d", "generator": "Unix Makefiles", "binaryDir": "${sourceDir}/build"}
    test = {"name": "q", "configurePreset": "d", "output": {"quiet": True}}
    presets = {"version": 3, "configurePresets": [build], "testPresets": [test]}
    (ctest.folder / "CMakePresets.json").write_text(json.dumps(presets))
    command = 'command = ["ctest", "--preset", "q"]\n'
    with pytest.raises(AssertionError, match=r"leave output\.quiet out of its preset"):
        ctest.configure(ctest.toml + command)


@pytest.mark.soak
def test_flags_that_select_tests_are_kept(ctest: Loop) -> None:
    words = ["-R", "lock|free|serial|sums", "-E", "free.b", "-LE", "net", "-j8", "-V"]
    ctest.configure(f"{ctest.toml}args = {json.dumps(words)}\n")
    gone = {"sums.skips", "free.b"}
    kinds = ("lock", "free", "serial", "sums")
    assert ctest.planned() == [u for u in UNITS if u.startswith(kinds) and u not in gone]
    verdict = ctest.run()
    is_whole(verdict, ctest)
    assert verdict["verdict"] == "passed"


@pytest.mark.soak
def test_locks_hold_over_the_processes_of_a_shard(ctest: Loop) -> None:
    more = 'args = ["-R", "lock|free|serial"]\n[plan]\nprocesses = 4\n'
    ctest.configure(ctest.toml + more)
    for _ in range(3):
        verdict = ctest.run()
        is_whole(verdict, ctest)
        assert bad(verdict) == {}
    lines = ctest.record_lines()
    assert max(line.get("process") or 0 for line in lines) > 1
