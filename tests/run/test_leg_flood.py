"""Output that comes faster than anybody reads it holds up nobody but its reader."""

from __future__ import annotations

import os
import select
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import PYTEST, no_survivor, plan_of, start_shard, until

from ciguard.model import PlannedUnit
from ciguard.run.process.tail import FIRST_LOG_BYTES, LAST_LOG_BYTES, MAX_LOG_BYTES, Log

if TYPE_CHECKING:
    from pathlib import Path

    from run.leg_runner import Leg

MIB = 1 << 20
FLOOD = f"""
import os, pathlib, time
def test_flood():
    for _ in range(24): os.write(1, b"{"x" * 63}\\n" * {MIB // 64})
    pathlib.Path("flooded").touch()
    time.sleep(600)
def test_later(): pass
"""


@pytest.mark.soak
def test_slow_output_reader_does_not_delay_a_timeout(tmp_path: Path) -> None:
    (tmp_path / "test_flood.py").write_text(FLOOD)
    units = [PlannedUnit("test_flood.py::test_flood", timeout_s=0.5)]
    units.append(PlannedUnit("test_flood.py::test_later"))
    suite = replace(PYTEST, args=("-s",))
    leg = start_shard(tmp_path, plan_of(units, suites={"": suite}))
    assert leg.process.stdout is not None
    pipe = leg.process.stdout.fileno()
    read = 0

    def stopped() -> bool:
        """Whether the record says so; 64 KiB more of the output are read meanwhile."""
        nonlocal read
        if select.select([pipe], [], [], 0)[0]:
            read += len(os.read(pipe, 1 << 16))
        place = tmp_path / "record" / "supervisor.jsonl"
        return place.exists() and b'"kind":"timeout"' in place.read_bytes()

    until(stopped, what="the test is stopped", timeout_s=60)
    assert (tmp_path / "flooded").exists()
    assert read < 12 * MIB, "half of the flood was still to be read"
    leg.wait(10)
    assert read + len(leg.printed) > 24 * MIB, "in the end all of it is passed on"
    assert leg.outcomes() == {units[0].unit: "died", units[1].unit: "passed"}
    no_survivor(leg)


def ended(leg: Leg) -> bool:
    place = leg.record_folder / "supervisor.jsonl"
    return place.exists() and b'"type":"end"' in place.read_bytes()


@pytest.mark.soak
def test_stalled_output_reader_delays_and_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_flood.py").write_text(FLOOD)
    units = [PlannedUnit("test_flood.py::test_flood", timeout_s=0.5)]
    units.append(PlannedUnit("test_flood.py::test_later"))
    leg = start_shard(tmp_path, plan_of(units, suites={"": replace(PYTEST, args=("-s",))}))
    until(lambda: ended(leg), what="the leg has come to its end, unread", timeout_s=60)
    leg.wait(10)
    assert leg.outcomes() == {units[0].unit: "died", units[1].unit: "passed"}
    assert leg.printed.count("x") >= 24 * MIB // 64 * 63, "lines of the leg's own in between"
    order = ("--- process 1", "x" * 63, "process 1: timeout", "--- process 2", "shard 01: 1 passed")
    places = [leg.printed.index(words) for words in order]
    assert places == sorted(places)
    assert (leg.record_folder / "process-001.log").stat().st_size < MAX_LOG_BYTES, "cut behind it"
    no_survivor(leg)


def test_cancelled_leg_does_not_wait_for_a_stalled_reader(tmp_path: Path) -> None:
    (tmp_path / "test_flood.py").write_text(FLOOD)
    suite = replace(PYTEST, args=("-s",))
    leg = start_shard(tmp_path, plan_of(["test_flood.py::test_flood"], suites={"": suite}))
    until((tmp_path / "flooded").exists, what="the pipe is full", timeout_s=60)
    leg.process.terminate()
    leg.process.wait(20)
    assert ended(leg)
    assert leg.process.returncode == 143
    assert (leg.record_folder / "process-001.log").stat().st_size < MAX_LOG_BYTES
    leg.wait()
    no_survivor(leg)


def test_oversized_log_retains_its_start_and_end(
    tmp_path: Path,
) -> None:
    path = tmp_path / "process-001.log"
    path.write_bytes(b"whole" * 9)
    Log(str(path)).shorten()
    assert path.read_bytes() == b"whole" * 9
    path.write_bytes(b"first" + b"x" * MAX_LOG_BYTES + b"last")
    Log(str(path)).shorten()
    stored = path.read_bytes()
    assert stored.startswith(b"firstxxx")
    assert stored.endswith(b"xxxlast")
    cut = MAX_LOG_BYTES + 9 - FIRST_LOG_BYTES - LAST_LOG_BYTES
    note = f"\n[ciguard: {cut} bytes of output left out here]\n".encode()
    assert stored[FIRST_LOG_BYTES:].startswith(note + b"x")
    assert len(stored) == FIRST_LOG_BYTES + LAST_LOG_BYTES + len(note)
    Log(str(tmp_path / "none")).shorten()
