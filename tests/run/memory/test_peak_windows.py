"""Peaks from outside: the arithmetic with literals, the marks with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from run.leg_runner import plan_of, start_shard

from ciguard.model import PeakLine, PlannedUnit, Result, StartLine, Suite
from ciguard.run.frameworks.base import PEAK_RESET_BY
from ciguard.run.memory.peak_windows import UNKNOWN, PeakTracker, UnitPeaks, Window, window_of
from ciguard.run.memory.process_tree import TreeMemory

linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux only")
MEBIBYTE = 1 << 20


def begin(unit: str) -> StartLine:
    return StartLine(unit, process=1)


def result(unit: str, case: str = "") -> Result:
    return Result(unit, "passed", case=case or unit, process=1)


def window(lower: int, upper: float | None = None, size: int = 40) -> Window:
    return Window(lower, lower if upper is None else upper, size)


def bounds(peaks: list[PeakLine]) -> list[tuple[str, int | None, int | None]]:
    return [(peak.unit, peak.peak_lower_bytes, peak.peak_upper_bytes) for peak in peaks]


def test_peak_bounds_from_inner_and_overlapping_windows() -> None:
    seen = UnitPeaks()
    seen.close(window(50))
    seen.no_lines()
    seen.close(window(60))
    assert seen.add_lines([begin("a")], window(61)) == []
    for size in (70, 90, 80):
        seen.close(window(size))
        seen.no_lines()
    seen.close(window(120))
    (peak,) = seen.add_lines([result("a"), begin("b")], window(45))
    assert bounds([peak]) == [("a", 90, 120)], "120 may have been before its end or behind it"
    assert (peak.rss_before_bytes, peak.concurrent) == (40, 1)
    seen.close(window(55))
    seen.no_lines()
    seen.close(window(44))
    assert bounds(seen.add_lines([result("b")], window(43))) == [("b", 55, 120)]


@pytest.mark.parametrize("is_together", [False, True])
def test_unit_begins_with_what_the_one_before_left(is_together: bool) -> None:
    """Also where one read brings the end of a unit that grew for seconds and the next start."""
    seen = UnitPeaks()
    seen.close(window(100, size=100))
    seen.add_lines([begin("a")], window(100, size=100))
    for size in (120, 160, 200):
        seen.close(window(size, size=size))
        seen.no_lines()
    seen.close(window(200, size=200))
    if is_together:
        seen.add_lines([result("a"), begin("b")], window(200, size=200))
    else:
        seen.add_lines([result("a")], window(200, size=200))
        seen.add_lines([begin("b")], window(200, size=200))
    seen.close(window(202, size=202))
    seen.no_lines()
    (peak,) = seen.add_lines([result("b")], window(202, size=202))
    assert (peak.rss_before_bytes, peak.peak_lower_bytes) == (200, 202)


def test_unit_in_a_new_process_begins_with_nothing() -> None:
    seen = UnitPeaks()
    (peak,) = seen.add_lines([StartLine("a", rss_before_bytes=0), result("a")], window(45))
    assert peak.rss_before_bytes == 0


def test_unit_shorter_than_a_sample_has_no_lower_bound() -> None:
    seen = UnitPeaks()
    seen.close(window(50))
    assert bounds(seen.add_lines([begin("a"), result("a")], window(45))) == [("a", None, 50)]


def test_unannounced_units_share_windows_since_the_last_line() -> None:
    seen = UnitPeaks()
    for size in (50, 70):
        seen.close(window(size))
        seen.no_lines()
    seen.close(window(60))
    assert bounds(seen.add_lines([result("a"), result("b")], window(45))) == [
        ("a", None, 70),
        ("b", None, 70),
    ]
    seen.close(window(48))
    seen.no_lines()
    assert bounds(seen.add_lines([result("c")], window(41))) == [("c", None, 48)]


def test_unknown_window_peak_gives_no_upper_bound() -> None:
    seen = UnitPeaks()
    seen.add_lines([begin("a")], window(50))
    seen.close(window(60, UNKNOWN))
    seen.no_lines()
    assert bounds(seen.add_lines([result("a")], window(50))) == [("a", 60, None)]


def test_concurrent_units_share_an_upper_bound_without_lower_bound() -> None:
    seen = UnitPeaks()
    seen.add_lines([begin("a")], window(50))
    seen.add_lines([begin("b")], window(50))
    seen.close(window(90))
    seen.no_lines()
    (first,) = seen.add_lines([result("b")], window(50))
    (second,) = seen.add_lines([result("a")], window(50))
    assert bounds([first, second]) == [("b", None, 90), ("a", None, 90)]
    assert (first.concurrent, second.concurrent) == (2, 2)


def test_cases_of_concurrent_units_retain_the_unit_start() -> None:
    seen = UnitPeaks()
    seen.add_lines([begin("a")], window(80))
    seen.close(window(95))
    seen.no_lines()
    seen.add_lines([begin("b"), result("b", "b1")], window(50))
    (peak,) = seen.add_lines([result("a", "a1")], window(50))
    assert peak.peak_upper_bytes == 95
    seen.add_lines([begin("c")], window(50))
    (later,) = seen.add_lines([result("a", "a2")], window(50))
    assert later.concurrent == 3


def test_peak_measured_by_the_program_gets_no_bounds() -> None:
    seen = UnitPeaks()
    line = Result("a", "passed", case="a", peak_bytes=5)
    assert seen.add_lines([begin("a"), line], window(50)) == []


HOLDS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    kept = b"x" * (int(line) << 20)
    del kept
    print("done", flush=True)
"""


@linux
@pytest.mark.parametrize("ours", [True, False])
def test_only_peaks_reset_by_this_leg_are_used(*, ours: bool) -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLDS!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", parent],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, PEAK_RESET_BY: str(os.getpid()) if ours else "self"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        tree = TreeMemory(process.pid)
        windows = PeakTracker(tree, str(os.getpid()))
        found: list[PeakLine] = []
        for number, size in enumerate((100, 5)):
            windows.poll(number)
            assert windows.take_peaks() == ()
            windows.add_line(begin("a"))
            windows.take_peaks()
            process.stdin.write(b"%d\n" % size)
            process.stdin.flush()
            assert process.stdout.readline() == b"done\n"
            windows.poll(number + 0.5)
            windows.add_line(result("a"))
            found.extend(windows.take_peaks())
        process.stdin.close()
    if not ours:
        assert found == []
        assert windows.peak_bytes == 0
        return
    large, small = (peak.peak_upper_bytes or 0 for peak in found)
    assert 100 * MEBIBYTE < large < 125 * MEBIBYTE
    assert 5 * MEBIBYTE < small < 30 * MEBIBYTE, "the mark was reset in between"
    assert windows.peak_bytes == large


CHECK = """
import json, os, subprocess, sys, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
for unit in ("small", "spike", "child"):
    say(type="start", unit=unit)
    time.sleep(0.2)
    if unit == "spike":
        kept = bytearray(b"x") * (200 << 20)
        del kept
    if unit == "child":
        subprocess.run([sys.executable, "-S", "-c", ""])
    time.sleep(0.2)
    say(type="result", unit=unit, outcome="passed")
"""


@linux
def test_memory_spike_belongs_to_its_unit_only(tmp_path: Path) -> None:
    suite = Suite("command", (sys.executable, "-S", "-c", CHECK))
    planned = [PlannedUnit(unit, suite="s") for unit in ("small", "spike", "child")]
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite})).wait(0)
    small, spike, child = leg.record().results
    assert (small.peak_bytes, small.measured_by) == (None, None)
    assert 0 < (small.peak_lower_bytes or 0) <= (small.peak_upper_bytes or 0) < 100 * MEBIBYTE
    assert 200 * MEBIBYTE < (spike.peak_lower_bytes or 0) <= (spike.peak_upper_bytes or 0)
    assert (spike.rss_before_bytes or 0) < 100 * MEBIBYTE
    assert child.peak_upper_bytes is None, "nobody knows what its child had in its last moment"
    assert 0 < (child.peak_lower_bytes or 0) < 100 * MEBIBYTE
    (end,) = leg.record().process_ends
    assert (end.peak_bytes or 0) >= 200 * MEBIBYTE
    assert end.measured_by == "window"


CROWD = """
import json, os, subprocess, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
children = [subprocess.Popen(["sleep", "600"]) for _ in range(150)]
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    say(type="start", unit=unit)
    time.sleep(1.5)  # the leg looks for files, at the tree, and at the marks of all
    say(type="result", unit=unit, outcome="passed")
    if unit == "first": os._exit(3)
"""


@linux
def test_more_children_than_file_descriptors(tmp_path: Path) -> None:
    suite = Suite("command", (sys.executable, "-S", "-c", CROWD))
    planned = [PlannedUnit(unit, suite="s") for unit in ("first", "second")]
    program = ("bash", "-c", 'ulimit -n 128; exec "$0" -m ciguard run "$@"', sys.executable)
    leg = start_shard(tmp_path, plan_of(planned, suites={"s": suite}), program=program).wait()
    assert leg.outcomes() == {"first": "passed", "second": "passed"}, leg.printed
    assert [end.ending for end in leg.record().process_ends] == ["crash", "completed"]
    assert max(one.tree_bytes or 0 for one in leg.record().samples) > 40 << 20, "all of them"
    for one in leg.record().results:
        assert (one.peak_upper_bytes or UNKNOWN) > 40 << 20


def test_worker_of_one_unit_counts_beside_its_parent() -> None:
    """The parent holds 180 all the time; the worker, which is new, had 260 and holds 200 now."""
    found = window_of({1: 185, 2: 260}, {1: 180}, {1: 182, 2: 200}, lost=False)
    assert found == Window(lower=180 + 260, upper=185 + 260, size=182 + 200, largest=260)


def test_mark_of_one_process_is_its_own() -> None:
    assert window_of({1: 90}, {1: 50}, {1: 60}, lost=False) == Window(90, 90, 60, 90)
    assert window_of({}, {1: 50}, {}, lost=True) == Window(0, UNKNOWN, 0, 0)


def test_what_began_in_the_window_is_held_by_no_other() -> None:
    assert window_of({1: 90, 2: 30}, {}, {1: 60, 2: 30}, lost=True) == Window(90, UNKNOWN, 90, 90)
