"""Runs that a guard passes, as they really come: the first ran at once, the second did not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from conftest import clean_environment
from guard.fake_jobs import KILLED
from guard.oracle import HEAD, TESTS_FAILED, Run, job_of
from run.leg_runner import no_survivor, start, until

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
    "ciguard.toml": "[policy]\nretries = 1\nprobe = false\n",
    "marks.py": """
import pathlib

def first_time(name):
    if pathlib.Path(name).exists():
        return False
    pathlib.Path(name).touch()
    return True
""",
    "test_cart.py": """
import pytest
from marks import first_time

@pytest.mark.parametrize("count", [1, 2, 3])
def test_total(count):
    assert sum([5] * count) == 5 * count

def test_price():
    assert not first_time("price")
""",
    "test_mail.py": "def test_receive(): pass\n\ndef test_sort(): pass\n\ndef test_file(): pass\n",
    # One file, so that they are of one leg wherever the plan puts it.
    "test_stock.py": """
import os, pathlib, signal
from marks import first_time

def test_till():
    assert not first_time("till")

def test_send():
    assert "sent" == "queued"

def test_reserve():
    if "HOLDS" in os.environ:
        pathlib.Path("held").touch()
        signal.pause()
""",
}
QUARANTINED: Final = "test_stock.py::test_send"


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

    It had two of its three units behind it, which had failed; attempt 2 goes on from there.
    """
    planned(folder, SECOND)
    shards = json.loads((folder / "plan" / "plan.json").read_bytes())["shards"]
    units = {shard["key"]: [unit["unit"] for unit in shard["units"]] for shard in shards}
    (held,) = (key for key, found in units.items() if QUARANTINED in found)
    well = [key for key in units if key != held]
    lost = start(folder, *leg(held, f"{held}-1")[1:], HOLDS="yes", **of_run(held))
    try:
        until((folder / "held").exists, what="the leg waits", timeout_s=300.0)
    finally:
        lost.process.send_signal(signal.SIGKILL)
        lost.process.communicate()
    no_survivor(lost)
    for shard in well:
        assert call(folder, *leg(shard, f"{shard}-1"), **of_run(shard)) == 0
    resumed = (*leg(held, f"{held}-2"), "--resume-from", "records")
    assert call(folder, *resumed, **of_run(held, 2)) == TESTS_FAILED
    run = Run.green(*gathered(folder))
    once = {shard: job_of(shard) for shard in well}
    run.jobs = [
        job_of(held, "cancelled", steps=KILLED),
        *once.values(),
        job_of(held, "failure", attempt=2),
        # What was not run again may be listed again, with the times that it had.
        replace(once[well[0]], id=200 + int(well[0]), run_attempt=2),
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
    records = folder / "records"
    return plan, {
        path.relative_to(records).as_posix(): path.read_bytes()
        for path in sorted(records.rglob("*.jsonl"))
    }


def call(folder: Path, *words: str, **environ: str) -> int:
    """The exit code; what it prints is shown where a test fails."""
    command = [sys.executable, "-m", "ciguard", *words]
    return subprocess.run(
        command, cwd=folder, env=clean_environment(**environ), check=False
    ).returncode
