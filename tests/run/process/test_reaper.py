"""The keeper by itself: a tree of processes, whatever it does to get away, is gone in the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from run.leg_runner import MARK, pids_with, until

from ciguard.run.process.reaper import collect, exit_code_of, tree
from ciguard.run.process.spawn import start_reaper

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

FLEES = """
import os, subprocess, sys, time
code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code], env={}).wait()
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print("fled", flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(7)
"""


@pytest.fixture
def reaper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with start_reaper({MARK: str(tmp_path)}) as process:
        yield process
        process.kill()
    until(lambda: not pids_with(str(tmp_path)), what="nothing is left")


def begin(reaper: subprocess.Popen[bytes], log: Path, sleep_s: float) -> set[int]:
    """Start the fleeing program; give the processes of its tree once all are there."""
    assert reaper.stdin is not None
    argv = [sys.executable, "-c", FLEES, str(sleep_s)]
    reaper.stdin.write(json.dumps({"argv": argv, "log": str(log)}).encode() + b"\n")
    assert "started" in read_status(reaper)
    until(lambda: log.exists() and "fled" in log.read_text(), what="the daemon has fled")
    found = tree(reaper.pid)
    assert len(found) == 3, "the program, its child, and the daemon that left its session"
    return found


def read_status(reaper: subprocess.Popen[bytes]) -> dict[str, object]:
    assert reaper.stdout is not None
    found: dict[str, object] = json.loads(reaper.stdout.readline())
    return found


def are_gone(pids: set[int]) -> bool:
    def is_alive(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return state not in (b"Z", b"X")

    return not any(map(is_alive, pids))


def test_reaper_kills_processes_that_outlive_the_program(
    reaper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pids = begin(reaper, tmp_path / "log", 0.3)
    ended = read_status(reaper)
    assert ended["exit_code"] == 7
    assert ended["wall_s"] >= 0.3  # type: ignore[operator]
    assert are_gone(pids), "before the end is told"
    assert reaper.wait(5) == 0


def test_closing_the_pipe_of_the_leg_ends_the_tree(
    reaper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pids = begin(reaper, tmp_path / "log", 600)
    assert reaper.stdin is not None
    reaper.stdin.close()
    assert reaper.wait(5) == 0
    assert are_gone(pids)


@pytest.mark.parametrize(("word", "code"), [(b"SIGTERM", -15), (b"SIGKILL", -9)])
def test_a_signal_goes_to_the_program_and_its_group(
    reaper: subprocess.Popen[bytes], tmp_path: Path, word: bytes, code: int
) -> None:
    pids = begin(reaper, tmp_path / "log", 600)
    assert reaper.stdin is not None
    reaper.stdin.write(word + b"\n")
    assert read_status(reaper)["exit_code"] == code
    assert are_gone(pids)


def test_unopenable_log_does_not_stop_the_program(
    reaper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert reaper.stdin is not None
    job = {"argv": ["sh", "-c", "echo unheard"], "log": str(tmp_path / "no" / "log")}
    reaper.stdin.write(json.dumps(job).encode() + b"\n")
    assert "started" in read_status(reaper)
    assert read_status(reaper)["exit_code"] == 0


def test_exit_codes_match_subprocess() -> None:
    assert (exit_code_of(0), exit_code_of(7 << 8), exit_code_of(9)) == (0, 7, -9)


def test_pid_is_reserved_until_the_process_group_is_gone() -> None:
    """Else the number could be another program's when the group is killed."""
    child = subprocess.Popen(["sleep", "0.1"])
    seen: list[bool] = []

    def look() -> None:
        state = Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        seen.append(state == b"Z")

    until(lambda: collect(child.pid, look) is not None, what="it has ended")
    assert seen == [True]
    child.returncode = 0  # collected
