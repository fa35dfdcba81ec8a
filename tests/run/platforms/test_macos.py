"""What macOS has instead of /proc, forced here: `ps` is the real one, held against /proc."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from run.leg_runner import MARK, leg_program, pids_with, plan_of, start_shard, until

from ciguard.model import PlannedUnit
from ciguard.run.memory.headroom import LinuxHeadroom
from ciguard.run.memory.process_tree import TreeMemory
from ciguard.run.platforms import macos
from ciguard.run.process import reaper
from ciguard.run.process.spawn import start_reaper

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="held against /proc")

# Columns of `ps -A -o pid=,ppid=,rss=,stat=`: macOS pads and marks states as the BSDs do.
PRINTED = b"""    1     0  13648 Ss
  412     1   2064 S+
  413   412   1024 R<s
  414   412      0 Z
?? words
"""


def test_ps_output_is_parsed_without_zombies() -> None:
    assert reaper.parse_ps(PRINTED) == {
        1: (0, 13648 << 10),
        412: (1, 2064 << 10),
        413: (412, 1024 << 10),
    }


def test_below_gives_all_descendants() -> None:
    table = {2: (1, 0), 3: (2, 0), 4: (3, 0), 5: (1, 0)}
    assert reaper.below(2, table) == {3, 4}
    assert reaper.below(5, table) == set()


def test_ps_and_proc_give_the_same_tree(holder: int) -> None:
    listed = reaper.list_by_ps()
    assert listed[holder][0] == os.getpid()
    parents = reaper.parents(without_proc=True)
    assert reaper.below(holder, parents) == reaper.tree(holder)
    assert reaper.below(os.getpid(), parents) == {holder, *reaper.tree(holder)}, "itself left out"


def test_tree_memory_by_ps_matches_proc(holder: int) -> None:
    by_ps, by_proc = macos.PsTree(holder), TreeMemory(holder)
    sizes = by_ps.read_bytes(0.0), by_proc.read_bytes(0.0)
    assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
    assert (sizes[0] or 0) > 50 << 20


def test_machine_memory_matches_meminfo() -> None:
    memory = macos.headroom(None)
    guardrail = LinuxHeadroom()
    assert memory.memory_bytes() == guardrail.machine().total_bytes
    assert memory.headroom_bytes(memory.machine()) is None, "nothing is guarded"


def test_reaper_without_proc_kills_the_group_and_not_its_parent(tmp_path: Path) -> None:
    program = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("there", flush=True)
time.sleep(600)
"""
    log = tmp_path / "log"
    with start_reaper({MARK: str(tmp_path), "PATH": os.environ["PATH"]}) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        argv = [sys.executable, "-c", program]
        job = {"argv": argv, "log": str(log), "bare": True}
        process.stdin.write(json.dumps(job).encode() + b"\n")
        assert json.loads(process.stdout.readline())["subreaper"] is False
        until(lambda: log.exists() and b"there" in log.read_bytes(), what="all are started")
        assert len(pids_with(str(tmp_path))) == 4
        process.stdin.write(b"SIGKILL\n")
        assert json.loads(process.stdout.readline())["exit_code"] == -9
        until(lambda: not pids_with(str(tmp_path)), what="all are gone")


LEG = leg_program("from ciguard.run.platforms import macos", platform="macos")
TESTS = """
import os, signal, subprocess, sys, time
def test_passes(): kept = b"x" * (60 << 20); time.sleep(1.2)
def test_dies(): os.kill(os.getpid(), signal.SIGSEGV)
def test_child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
def test_hangs():
    # Out of its group, and left to init when it ends on the first signal: yet it was met before.
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    time.sleep(600)
def test_last(): pass
"""


def test_leg_without_proc_completes(tmp_path: Path) -> None:
    (tmp_path / "test_any.py").write_text(TESTS)
    names = ("passes", "dies", "child", "hangs", "last")
    units = [
        PlannedUnit(f"test_any.py::test_{name}", timeout_s=2.0 if name == "hangs" else None)
        for name in names
    ]
    leg = start_shard(tmp_path, plan_of(units), program=LEG).wait(10)
    outcomes = ("passed", "died", "passed", "died", "passed")
    assert leg.outcomes() == {
        unit.unit: outcome for unit, outcome in zip(units, outcomes, strict=True)
    }
    record = leg.record()
    assert [end.ending for end in record.process_ends] == ["crash", "timeout", "completed"]
    assert max(sample.tree_bytes or 0 for sample in record.samples) > 60 << 20, "ps was asked"
    assert {sample.headroom_bytes for sample in record.samples} == {None}
    misses = [event.detail for event in record.events if event.kind == "unavailable"]
    assert [miss.split(" (")[0] for miss in misses if not miss.startswith("malloc")] == [
        "the guard rail",
        "memory samples more than once a second",
        "a subreaper",
    ]


def test_a_killed_leg_without_proc_leaves_no_process_of_its_groups(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text("""
import pathlib, subprocess, sys, time
def test_slow():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pathlib.Path("started").touch()
    time.sleep(600)
""")
    leg = start_shard(tmp_path, plan_of(["test_slow.py::test_slow"]), program=LEG)
    until((tmp_path / "started").exists, what="the test runs")
    leg.process.kill()
    leg.wait(-9)
