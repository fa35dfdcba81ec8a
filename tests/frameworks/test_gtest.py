"""GoogleTest: what passes, fails, dies, hangs and vanishes is accounted for."""

from __future__ import annotations

import json
import shutil

import pytest
from frameworks.loop import Loop, bad, is_whole

ENDS = ("[shop] Ends.Ends", "")
SUMS = ("Adds", "AddsMore", "Fails", "Skips")
UNITS = sorted(
    [
        *("[other] Sums.Adds", "[other] Sums.Other", "[shop] Memory.Holds", "[shop] Waits.Half"),
        *(f"[shop] Ends.{name}" for name in ("Before", "Behind", "Ends")),
        *(f"[shop] Prints.{name}" for name in ("NoLineFeed", "OtherTests")),
        *(f"[shop] Sums.{name}" for name in SUMS),
        *(f"[shop] Some/Rows.Fits/{number}" for number in range(3)),
        *("[shop] Shared.One", "[shop] Shared.Two"),
        "[shop] SumsMore.Adds",
        *("[shop] Typed/std::pair<a, b> *?.Zero", '[shop] Typed/it-is ü:"x".Zero'),
    ]
)


@pytest.mark.soak
def test_every_test_is_recorded(gtest: Loop) -> None:
    assert gtest.planned() == UNITS
    verdict = gtest.run(WAY="exit0", FAIL="1")
    is_whole(verdict, gtest)
    rows = ("[shop] Some/Rows.Fits/2", "")
    assert bad(verdict) == {ENDS: "crash", ("[shop] Sums.Fails", ""): "failed", rows: "failed"}
    messages = {one["unit"]: one["message"] for one in verdict["failures"]}
    assert messages[ENDS[0]] == "its program ended with exit code 0"
    assert messages["[shop] Sums.Fails"].startswith("Expected equality of these values:\n")
    results = [line for line in gtest.record_lines() if line.get("type") == "result"]
    assert sorted(line["unit"] for line in results) == UNITS, "each has run once"
    skipped = {line["unit"]: line["message"] for line in results if line["outcome"] == "skipped"}
    assert list(skipped) == ["[shop] Sums.Skips"]
    assert skipped["[shop] Sums.Skips"].endswith("not here")


@pytest.mark.soak
def test_environment_that_fails_is_an_error_of_every_test(gtest: Loop) -> None:
    verdict = gtest.run(WAY="environment")
    is_whole(verdict, gtest)
    shop = [unit for unit in UNITS if unit.startswith("[shop]")]
    assert bad(verdict) == {(unit, ""): "errored" for unit in shop}
    assert "no server" in verdict["failures"][0]["message"]


@pytest.mark.soak
@pytest.mark.parametrize("way", ["environment_kill", "teardown_kill"])
def test_death_outside_of_tests_is_seen(gtest: Loop, way: str) -> None:
    verdict = gtest.run(WAY=way)
    assert verdict["verdict"] != "passed", gtest.printed
    if way == "teardown_kill":
        assert verdict["missing"] == []
        assert bad(verdict) == {}


@pytest.mark.soak
def test_program_that_is_not_built_cannot_be_listed(gtest: Loop) -> None:
    (gtest.folder / "build" / "other").unlink()
    with pytest.raises(AssertionError, match="build the tests first"):
        gtest.plan()


@pytest.mark.soak
def test_flags_and_one_program(gtest: Loop) -> None:
    words = ["--gtest_filter=Sums.*:Waits.*:Shared.*", "--gtest_shuffle", "--gtest_color=yes"]
    toml = gtest.toml.replace(', "build/other"', "")
    gtest.configure(f"{toml}args = {json.dumps(words)}\n")
    kinds = ("Sums.", "Waits.", "Shared.")
    names = [unit.removeprefix("[shop] ") for unit in UNITS if unit.startswith("[shop]")]
    assert gtest.planned() == [name for name in names if name.startswith(kinds)]
    for _ in range(5):  # in any order
        verdict = gtest.run()
        is_whole(verdict, gtest)
        assert verdict["verdict"] == "passed", gtest.printed
        assert gtest.execution() == {"executed"}
        assert all("--gtest_shuffle --gtest_random_seed=" in seed for seed in gtest.seeds())
        assert gtest.seeds()
    assert bad(gtest.run(WAY="setup_kill")) == {
        ("Shared.One", ""): "crash",
        ("Shared.Two", ""): "crash",
    }


@pytest.mark.soak
def test_without_the_stream_the_run_is_incomplete(gtest: Loop) -> None:
    """A wrapper that keeps what GoogleTest prints: no result is taken from an exit code."""
    script = gtest.folder / "build" / "quiet"
    script.write_text('#!/bin/sh\n[ -z "$MUTE" ] || exec > /dev/null\nexec build/other "$@"\n')
    script.chmod(0o755)
    gtest.configure(gtest.toml.replace('"build/shop", "build/other"', '"build/quiet"'))
    assert gtest.run()["verdict"] == "passed"
    verdict = gtest.run(MUTE="1")
    assert verdict["verdict"] == "incomplete"
    assert len(verdict["missing"]) == 2


@pytest.mark.soak
def test_stopped_process_has_no_culprit(gtest: Loop) -> None:
    """A leg that is to stop ends the program between two tests; the next one goes on."""
    attempt = {"GITHUB_RUN_ID": "1", "GITHUB_RUN_ATTEMPT": "1"}
    for number, for_s in enumerate((0.8, 1.0, 1.2, 1.5)):
        shutil.rmtree(gtest.folder / "records", ignore_errors=True)
        first = gtest.run_shard("01", "first", "--for", f"{for_s}s", **attempt)
        assert {line.get("outcome") for line in gtest.record_lines()} <= {None, "passed", "skipped"}
        attempt["GITHUB_RUN_ATTEMPT"] = "2"
        gtest.run_shard("01", "second", "--resume-from", "records", **attempt)
        gtest.run_shard("02", "02", **attempt)
        verdict = gtest.guard()
        assert verdict["verdict"] == "passed", (number, first)
