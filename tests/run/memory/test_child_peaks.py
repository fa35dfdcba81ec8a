"""The peak of a test's child processes belongs to the test during which they ran."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import ClassVar

from run.leg_runner import PYTEST, plan_of, start_shard

from ciguard.model import Result, StartLine
from ciguard.run.memory.process_tree import ChildPeaks, TreeMemory

MIB = 1 << 20
SUITE = """
import subprocess, sys, time
CHILD = "import time; held = b'x' * (150 << 20); time.sleep(0.4)"
def test_alone(): pass
def test_starts_a_child(): subprocess.run([sys.executable, "-c", CHILD], check=True)
def test_after_it(): time.sleep(0.1)
"""
UNITS = ("test_a.py::test_alone", "test_a.py::test_starts_a_child", "test_a.py::test_after_it")


def test_peak_of_a_child_is_that_of_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SUITE)
    record = start_shard(tmp_path, plan_of(UNITS)).wait(0).record()
    lower = [line.peak_lower_bytes for line in record.results]
    assert lower[0] is None
    assert lower[2] is None
    assert lower[1] is not None
    assert lower[1] > 150 * MIB
    own = record.results[1]
    assert (own.measured_by, own.peak_upper_bytes) == ("mark", None)
    assert (own.peak_delta_bytes or 0) < 20 * MIB  # of the process itself, as before


def test_children_of_tests_side_by_side_are_of_none(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(SUITE)
    workers = replace(PYTEST, args=("-n", "2"))
    record = start_shard(tmp_path, plan_of(UNITS, suites={"": workers})).wait(0).record()
    assert [line.peak_lower_bytes for line in record.results] == [None, None, None]


def test_scans_of_a_large_tree_are_rare_however_many_processes_begin() -> None:
    class Slow(TreeMemory):
        scans_s: ClassVar[list[float]] = []

        def rescan(self) -> None:
            self.scans_s.append(now_s)
            end_s = time.thread_time() + 0.002  # allows two scans a second
            while time.thread_time() < end_s:
                pass
            self._pids = {os.getpid(): 0}

    tree = Slow(os.getpid())
    for step in range(21):
        now_s = step * 0.05
        Thread(target=bool).start()  # also a new number
        assert tree.read_bytes(now_s), "sizes are read each time"
    assert len(tree.scans_s) <= 4


def holder() -> subprocess.Popen[str]:
    """Start a process that holds 60 MiB until its input ends."""
    code = "import sys; held = b'x' * (60 << 20); print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=pipe, stdout=pipe, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_child_counts_from_its_second_reading_on() -> None:
    """Between fork and exec it shows its parent's pages."""
    tree = TreeMemory(os.getpid())
    with holder() as one:
        before = tree.read_bytes(0.0)
        assert before is not None
        with holder() as two:
            first, second = tree.read_bytes(1.0), tree.read_bytes(2.0)
            assert first is not None
            assert second is not None
            assert first < before + 20 * MIB
            assert second > before + 50 * MIB
            two.communicate("")
        tree.read_bytes(3.0)
        assert {one.pid} <= tree.seen_s.keys() <= tree.pids(), "those that ended are forgotten"
        one.communicate("")


def test_sizes_are_attributed_by_time() -> None:
    tree = TreeMemory(0)
    peaks = ChildPeaks(tree)
    assert tree.samples is not None
    own, child, server, wrapper = 0.1, 1.5, 2.5, 0.0  # when each was first seen
    tree.samples += [
        (0.5, [(own, 900 * MIB)]),
        (1.5, [(own, 100 * MIB), (child, 100 * MIB), (wrapper, 50 * MIB)]),
        (1.9, [(own, 100 * MIB), (child, 200 * MIB), (wrapper, 50 * MIB)]),
        (2.5, [(own, 100 * MIB), (server, 60 * MIB)]),
        (3.5, [(own, 350 * MIB), (server, 60 * MIB)]),
    ]
    peaks.add_line(StartLine("a", at_s=1.0))
    peaks.add_line(Result("a", "passed", at_s=2.0, peak_bytes=100 * MIB))
    peaks.add_line(StartLine("b", at_s=2.0))
    peaks.add_line(Result("b", "passed", at_s=3.0, peak_bytes=100 * MIB))
    peaks.add_line(StartLine("c", at_s=3.0))
    lower = [(line.unit, line.peak_lower_bytes) for line in peaks.take_peaks()]
    assert lower == [("a", 300 * MIB), ("b", 160 * MIB)]
    peaks.add_line(Result("c", "passed", at_s=4.0, peak_bytes=350 * MIB))
    assert peaks.take_peaks() == []  # the server is of b
    peaks.add_line(StartLine("long", at_s=5.0))
    for step in range(1000):
        tree.samples.append((5 + step / 20, [(own, (900 if step == 100 else 100) * MIB)]))
        assert peaks.take_peaks() == []
    assert len(tree.samples) < 30, "the others are reduced to the largest"
    peaks.add_line(Result("long", "passed", at_s=60.0, peak_bytes=100 * MIB))
    assert [line.peak_lower_bytes for line in peaks.take_peaks()] == [900 * MIB]
