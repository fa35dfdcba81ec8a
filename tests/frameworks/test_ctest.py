"""CTest through the whole loop: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from frameworks.loop import (
    PROJECTS,
    Loop,
    bad,
    holds_memory,
    is_whole,
    kill_at_random_moments,
    lay_out,
    needs_program,
)

if TYPE_CHECKING:
    from pathlib import Path

TOML = """[suite.ctest]
framework = "ctest"
timeout = "5s"
"""
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


def configure(folder: Path, *words: str) -> None:
    """What CMake makes of the project, in `build`."""
    argv = ("cmake", "-S", ".", "-B", "build", *words)
    subprocess.run(argv, cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def ctest(tmp_path: Path) -> Loop:
    needs_program("ctest", "Debian's cmake")
    shutil.copytree(PROJECTS / "ctest", tmp_path, dirs_exist_ok=True)
    configure(tmp_path)
    return lay_out(tmp_path, "ctest", TOML)


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
    ("way", "expected"),
    [
        ("hang", {ENDS: "timeout"}),
        ("memory", {ENDS: "out_of_memory"}),
        ("setup", {("db.reads", ""): "errored", ("db.writes", ""): "errored"}),
    ],
)
def test_report_names_the_culprit_and_no_other_test(
    ctest: Loop, way: str, expected: dict[tuple[str, str], str]
) -> None:
    verdict = ctest.run(WAY=way)
    is_whole(verdict, ctest)
    assert bad(verdict) == expected, ctest.printed
    assert verdict["verdict"] == "failed"
    if way == "setup":
        assert "db.up: up" in verdict["failures"][0]["message"]


@pytest.mark.soak
def test_set_up_that_hangs_is_a_timeout_of_the_test_that_it_is_for(ctest: Loop) -> None:
    verdict = ctest.run(WAY="uphang")
    is_whole(verdict, ctest)
    assert bad(verdict) == {("db.reads", ""): "timeout", ("db.writes", ""): "timeout"}


@pytest.mark.soak
def test_clean_up_that_fails_is_seen(ctest: Loop) -> None:
    verdict = ctest.run(WAY="cleanup")
    assert bad(verdict) == {}
    assert verdict["verdict"] != "passed"
    assert "db.down" in ctest.printed


@pytest.mark.soak
def test_limit_of_ctest_itself_is_a_timeout(ctest: Loop) -> None:
    configure(ctest.folder, "-DLIMIT=1")
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
    (ctest.folder / "ciguard.toml").write_text(TOML + command)
    with pytest.raises(AssertionError, match=r"leave output\.quiet out of its preset"):
        ctest.plan()


@pytest.mark.soak
def test_flags_that_select_tests_are_kept(ctest: Loop) -> None:
    words = ["-R", "lock|free|serial|sums", "-E", "free.b", "-LE", "net", "-j8", "-V"]
    (ctest.folder / "ciguard.toml").write_text(f"{TOML}args = {json.dumps(words)}\n")
    ctest.plan()
    gone = {"sums.skips", "free.b"}
    kinds = ("lock", "free", "serial", "sums")
    assert ctest.planned() == [u for u in UNITS if u.startswith(kinds) and u not in gone]
    verdict = ctest.run()
    is_whole(verdict, ctest)
    assert verdict["verdict"] == "passed"


@pytest.mark.soak
def test_locks_hold_over_the_processes_of_a_shard(ctest: Loop) -> None:
    toml = TOML + 'args = ["-R", "lock|free|serial"]\n[plan]\nprocesses = 4\n'
    (ctest.folder / "ciguard.toml").write_text(toml)
    ctest.plan()
    for _ in range(3):
        verdict = ctest.run()
        is_whole(verdict, ctest)
        assert bad(verdict) == {}
    lines = ctest.record_lines()
    assert max(line.get("process") or 0 for line in lines) > 1


@pytest.mark.soak
def test_memory_is_that_of_the_test_that_holds_it(ctest: Loop) -> None:
    ctest.run()
    holds_memory(ctest, "memory.holds", least_mib=100, most_mib=200)


@pytest.mark.soak
def test_killed_leg_goes_on_where_it_was(ctest: Loop) -> None:
    kill_at_random_moments(ctest, longest_s=3.0)
