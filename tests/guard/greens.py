"""Runs that a guard passes, as they really come: the first ran at once, the second did not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from conftest import clean_environment
from guard.law import HEAD, TESTS_FAILED, Run, job_of
from guard.platform import KILLED
from run.legs import no_survivor, start, until

from ciguard.folders import record_files

if TYPE_CHECKING:
    from pathlib import Path

SUITE: Final = {
    "test_cart.py": """
import pytest

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count

@pytest.mark.skip(reason="not sold any more")
def test_empty():
    raise AssertionError
""",
    "test_stock.py": """
import pytest, unittest

class TestStock(unittest.TestCase):
    def test_reserve(self):
        self.assertEqual({"apple": 3}["apple"], 3)

    def test_refill(self):
        self.assertEqual([0] * 3, [0, 0, 0])

@pytest.mark.xfail(reason="rounding")
def test_price():
    assert 0.1 + 0.2 == 0.3
""",
    "test_tills.py": "def test_open(): pass\n\ndef test_shut(): pass\n",
}

# Two tests pass when they are tried again, one fails and is quarantined, one keeps its leg waiting.
SECOND: Final = {
    "ciguard.toml": "[policy]\ntries = 2\n",
    "test_cart.py": """
import pathlib, pytest

def first_time(name):
    if pathlib.Path(name).exists():
        return False
    pathlib.Path(name).touch()
    return True

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count

def test_till():
    assert not first_time("till")

def test_price():
    assert not first_time("price")
""",
    "test_mail.py": """
def test_send():
    assert "sent" == "queued"

def test_receive(): pass

def test_sort(): pass
""",
    "test_stock.py": """
import os, pathlib, signal

def test_reserve():
    if "HOLDS" in os.environ:
        pathlib.Path("held").touch()
        signal.pause()

def test_refill(): pass
""",
}
QUARANTINED: Final = "test_mail.py::test_send"


def of_run(shard: str, attempt: int = 1) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_REPOSITORY": "octo-org/shop",
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": str(attempt),
        "GITHUB_SHA": HEAD,
        "CIGUARD_JOB": f"tests ({shard})",
    }


def first(folder: Path) -> Run:
    """A plan and three legs."""
    planned(folder, SUITE)
    for shard in ("01", "02", "03"):
        assert call(folder, *leg(shard, shard), **of_run(shard)) == 0
    return Run.green(*gathered(folder))


def second(folder: Path) -> Run:
    """With two tries, a quarantined failure, and a leg whose runner was lost in attempt 1.

    It had three of its four units behind it, of which two had failed; attempt 2 goes on from there.
    """
    planned(folder, SECOND)
    lost = start(folder, *leg("01", "01-1")[1:], HOLDS="yes", **of_run("01"))
    try:
        until((folder / "held").exists, what="the leg waits", timeout_s=60.0)
    finally:
        lost.process.send_signal(signal.SIGKILL)
        lost.process.communicate()
    no_survivor(lost)
    for shard in ("02", "03"):
        assert call(folder, *leg(shard, f"{shard}-1"), **of_run(shard)) == 0
    resumed = (*leg("01", "01-2"), "--resume-from", "records")
    assert call(folder, *resumed, **of_run("01", 2)) == TESTS_FAILED
    run = Run.green(*gathered(folder))
    once = {one.name: one for one in run.jobs}
    again = job_of("01", "failure", attempt=2)
    run.jobs = [
        replace(once["tests (01)"], conclusion="cancelled", steps=job_of("01", steps=KILLED).steps),
        *(once[f"tests ({shard})"] for shard in ("02", "03")),
        again,
        # What was not run again may be listed again, with the times that it had.
        replace(once["tests (02)"], id=202, run_attempt=2),
    ]
    run.needs = {"legs": "failure"}
    run.attempt, run.quarantined = 2, frozenset({("", "", QUARANTINED)})
    return run


def planned(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)
    words = ("plan", "--shards", "3", "--history", "none", "--artifact", "plan")
    assert call(folder, *words) == 0


def leg(shard: str, record: str) -> tuple[str, ...]:
    return ("run", "--plan", "plan", "--shard", shard, "--record", f"records/{record}")


def gathered(folder: Path) -> tuple[bytes, dict[str, bytes]]:
    plan = (folder / "plan" / "plan.json").read_bytes()
    assert len(json.loads(plan)["shards"]) == 3
    return plan, dict(record_files(folder / "records").files)


def call(folder: Path, *words: str, **environ: str) -> int:
    """The exit code; what it prints is shown where a test fails."""
    command = [sys.executable, "-m", "ciguard", *words]
    return subprocess.run(
        command, cwd=folder, env=clean_environment(**environ), check=False
    ).returncode
