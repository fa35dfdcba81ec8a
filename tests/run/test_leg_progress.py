"""What people see of a leg while it runs, however fast its output comes."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import PYTEST, Leg, plan_of, start_shard, until

from ciguard.model import Plan, PlannedUnit, Suite
from ciguard.run.process.tail import FIRST_LOG_BYTES, LAST_LOG_BYTES, MAX_LOG_BYTES, Log

# The program itself, with lines as often as a test can wait for.
OFTEN = """
import sys
from ciguard.run.output import leg_console as console
console.PROGRESS_EVERY_S = 0.3
from ciguard.run.__main__ import main
main(sys.argv[1:])
"""
PROGRAM = (sys.executable, "-c", OFTEN)
NAPS = """
import time, pytest
@pytest.mark.parametrize("n", range(8))
def test_nap(n):
    time.sleep(0.2)
    print(f"said by {n}")
    assert n != 2, "two: 100 %, really"
"""
UNITS = [f"test_naps.py::test_nap[{n}]" for n in range(8)]
SHOWING = Suite("pytest", (*PYTEST.command, "-p", "no:randomly", "-q"))


def naps(folder: Path, processes: int = 1) -> Plan:
    (folder / "test_naps.py").write_text(NAPS)
    return plan_of(UNITS, suites={"": SHOWING}, processes=processes)


@pytest.mark.soak
@pytest.mark.parametrize("processes", [1, 2])
def test_progress_lines_in_ci_are_outside_of_groups(tmp_path: Path, processes: int) -> None:
    plan = naps(tmp_path, processes)
    leg = start_shard(tmp_path, plan, program=PROGRAM, CI="true", GITHUB_ACTIONS="true").wait(10)
    counts = r"progress: (\d)/8 tests(?:, 1 failed)?, [\d.]+ MiB in use, .* free"
    reported = rf"{counts}, [\d.]+ s of about [\d.]+ s(?:: .*)?"
    lines = leg.printed.splitlines()
    done = [int(found[1]) for line in lines if (found := re.fullmatch(reported, line))]
    assert len(done) >= 2, leg.printed
    assert done == sorted(done)
    assert done[-1] > done[0]
    assert "\x1b" not in leg.printed
    depth = 0
    for line in lines:
        depth += line.startswith("::group::") - (line == "::endgroup::")
        assert depth in (0, 1)
        assert not (depth and line.startswith("progress: ")), "seen by nobody"
    assert depth == 0
    assert "two: 100 %, really" in leg.printed, "failing output is kept"
    logs = (tmp_path / "record").glob("process-*.log")
    assert any("said by 2" in path.read_text() for path in logs)


@pytest.mark.soak
def test_no_progress_in_a_pipe_outside_ci(tmp_path: Path) -> None:
    leg = start_shard(tmp_path, naps(tmp_path), program=PROGRAM).wait(10)
    assert "progress:" not in leg.printed


def test_failures_are_annotated_at_their_line(tmp_path: Path) -> None:
    """The path is relative to the root of the repository."""
    (tmp_path / "backend").mkdir()
    naps(tmp_path / "backend")
    plan = plan_of(UNITS, suites={"": replace(SHOWING, cwd="backend")})
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert errors == [
        "::error file=backend/test_naps.py,line=3,title=test_naps.py%3A%3Atest_nap[2]::"
        "failed: test_naps.py:7: AssertionError: two: 100 %25, really"
    ]
    assert leg.printed.index("::error") > leg.printed.rindex("::endgroup::")


@pytest.mark.parametrize("words", [(), pytest.param(("-n", "2"), marks=pytest.mark.soak)])
def test_crash_and_timeout_are_annotated_at_the_test(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "test_dies.py").write_text(
        "import os, time\n\ndef test_a(): os._exit(3)\n\n"
        "class TestB:\n    def test_b(self): time.sleep(600)\n"
    )
    units = [
        PlannedUnit("test_dies.py::test_a"),
        PlannedUnit("test_dies.py::TestB::test_b", timeout_s=1.0),
    ]
    suite = Suite("pytest", (*PYTEST.command, *words))
    leg = start_shard(tmp_path, plan_of(units, suites={"": suite}), GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert [line.partition("::")[2].partition("::")[0] for line in sorted(errors)] == [
        "error file=test_dies.py,line=3,title=test_dies.py%3A%3Atest_a",
        "error file=test_dies.py,line=6,title=test_dies.py%3A%3ATestB%3A%3Atest_b",
    ]


def test_at_most_ten_failures_are_annotated(tmp_path: Path) -> None:
    code = """
import json, os, sys
for name in open(sys.argv[1]).read().splitlines():
    line = {"type": "result", "unit": name, "outcome": "failed", "message": "a%0A\\r\\n::error::b"}
    print(json.dumps(line), file=open(sys.argv[2], "a"))
sys.exit(1)
"""
    suite = Suite("command", (sys.executable, "-c", code, "{units_file}", "{results_file}"))
    plan = plan_of([PlannedUnit(f"u,{n}") for n in range(12)], suites={"": suite})
    leg = start_shard(tmp_path, plan, GITHUB_ACTIONS="true").wait(10)
    errors = [line for line in leg.printed.splitlines() if line.startswith("::error")]
    assert len(errors) == 10
    assert errors[0] == "::error title=u%2C0::failed: a%250A%0D"
    assert errors[-1] == "::error ::and 3 more: see the step's log"
    assert "::error" not in run_same_leg(tmp_path, plan)


def run_same_leg(folder: Path, plan: Plan) -> str:
    """What the same leg prints where nobody reads annotations."""
    (folder / "again").mkdir()
    return start_shard(folder / "again", plan).wait(10).printed


MIB = 1 << 20
FLOOD = f"""
import os, pathlib, time
def test_flood():
    for _ in range(24): os.write(1, b"{"x" * 63}\\n" * {MIB // 64})
    pathlib.Path("flooded").touch()
    time.sleep(600)
def test_later(): pass
"""


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


def test_oversized_log_retains_its_start_and_end(tmp_path: Path) -> None:
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
