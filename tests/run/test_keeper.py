"""The keeper by itself: a tree of processes, whatever it does to get away, is gone in the end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from run.legs import MARK, pids_with, until

from ciguard.run.keeper import exit_code_of, tree
from ciguard.run.tested import keeper_command

if TYPE_CHECKING:
    from collections.abc import Iterator

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
def keeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        keeper_command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={MARK: str(tmp_path)},
        start_new_session=True,
        bufsize=0,
    ) as process:
        yield process
        process.kill()
    until(lambda: not pids_with(str(tmp_path)), what="nothing is left")


def begin(keeper: subprocess.Popen[bytes], log: Path, sleep_s: float) -> set[int]:
    """Start the fleeing program; give the processes of its tree once all are there."""
    assert keeper.stdin is not None
    argv = [sys.executable, "-c", FLEES, str(sleep_s)]
    keeper.stdin.write(json.dumps({"argv": argv, "log": str(log)}).encode() + b"\n")
    assert "started" in said(keeper)
    until(lambda: log.exists() and "fled" in log.read_text(), what="the daemon has fled")
    found = tree(keeper.pid)
    assert len(found) == 3, "the program, its child, and the daemon that left its session"
    return found


def said(keeper: subprocess.Popen[bytes]) -> dict[str, object]:
    assert keeper.stdout is not None
    found: dict[str, object] = json.loads(keeper.stdout.readline())
    return found


def gone(pids: set[int]) -> bool:
    def is_alive(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return state not in (b"Z", b"X")

    return not any(map(is_alive, pids))


def test_what_outlives_its_program_does_not_outlive_the_keeper(
    keeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pids = begin(keeper, tmp_path / "log", 0.3)
    ended = said(keeper)
    assert ended["exit_code"] == 7
    assert ended["wall_s"] >= 0.3  # type: ignore[operator]
    assert gone(pids), "before the end is told"
    assert keeper.wait(5) == 0


def test_the_end_of_the_legs_pipe_is_the_end_of_the_tree(
    keeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    pids = begin(keeper, tmp_path / "log", 600)
    assert keeper.stdin is not None
    keeper.stdin.close()
    assert keeper.wait(5) == 0
    assert gone(pids)


@pytest.mark.parametrize(("word", "code"), [(b"SIGTERM", -15), (b"SIGKILL", -9)])
def test_a_signal_goes_to_the_program_and_its_group(
    keeper: subprocess.Popen[bytes], tmp_path: Path, word: bytes, code: int
) -> None:
    pids = begin(keeper, tmp_path / "log", 600)
    assert keeper.stdin is not None
    keeper.stdin.write(word + b"\n")
    assert said(keeper)["exit_code"] == code
    assert gone(pids)


def test_a_log_that_cannot_be_opened_stops_nothing(
    keeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    assert keeper.stdin is not None
    job = {"argv": ["sh", "-c", "echo unheard"], "log": str(tmp_path / "no" / "log")}
    keeper.stdin.write(json.dumps(job).encode() + b"\n")
    assert "started" in said(keeper)
    assert said(keeper)["exit_code"] == 0


def test_exit_codes_are_those_of_subprocess() -> None:
    assert (exit_code_of(0), exit_code_of(7 << 8), exit_code_of(9)) == (0, 7, -9)
