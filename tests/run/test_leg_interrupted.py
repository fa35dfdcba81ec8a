"""A leg that is ended at any moment, and the one that goes on from it: the union is exact."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import no_survivor, plan_of, start, until

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.prove import prove
from ciguard.sources.local import read_record_tree

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 30
TESTS = f"""
import time, pytest
@pytest.mark.parametrize("n", range({COUNT}))
def test_nap(n):
    note("began", n)
    time.sleep(0.03)
    note("ran", n)
def note(name, n):
    with open(name, "a") as stream:
        stream.write(f"{{n}}\\n")
"""


def executed(folder: Path, name: str = "ran") -> Counter[str]:
    """How often each test came to its end, or `began`, by its own word."""
    place = folder / name
    return Counter(place.read_text().split()) if place.exists() else Counter()


@pytest.mark.parametrize(
    ("number", "seed"),
    [
        (signal.SIGKILL, 0),
        *(
            pytest.param(number, seed, marks=pytest.mark.soak)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
            for seed in range(1, 13)
        ),
    ],
)
def test_next_leg_completes_an_interrupted_one(
    tmp_path: Path, number: signal.Signals, seed: int
) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    plan = plan_codec.decode(
        plan_codec.encode(
            plan_of([f"test_a.py::test_nap[{n}]" for n in range(COUNT)], processes=2)
        ),
        "plan",
    )
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    fixed = ("--plan", "plan.json", "--shard", "01")
    first = start(tmp_path, *fixed, "--record", "records/1")
    moment = random.Random(f"{number}/{seed}").randrange(COUNT)
    until(lambda: executed(tmp_path).total() >= moment, what=f"{moment} tests have run")
    first.process.send_signal(number)
    first.wait()
    no_survivor(first)
    before = read_record_tree(tmp_path / "records") if (tmp_path / "records").exists() else ()
    assert all(not record.damage or not record.results for record in before)
    started = {one.unit for record in before for one in record.starts}
    assert {f"test_a.py::test_nap[{n}]" for n in executed(tmp_path, "began")} <= started
    if number != signal.SIGKILL:
        assert all(record.damage == () for record in before)
        assert started == {one.unit for record in before for one in record.results}
    ended = {one.unit for record in before for one in record.results if one.outcome == "passed"}
    ran = executed(tmp_path)
    second = start(tmp_path, *fixed, "--record", "records/2", "--resume-from", "records").wait(0)
    no_survivor(second)
    assert f"resumed: {len(ended)} of {COUNT} tests ended before" in second.printed
    rerun = executed(tmp_path) - ran
    assert sum(rerun.values()) == COUNT - len(ended), "none that ended ran again, all others did"
    verdict = prove(plan, read_record_tree(tmp_path / "records" / "2"))
    assert (verdict.state, verdict.counts) == ("passed", {"passed": COUNT}), verdict
    if before:
        both = prove(plan, read_record_tree(tmp_path / "records"))
        assert (both.state, both.counts) == ("passed", {"passed": COUNT}), both


def test_clock_set_back_changes_no_duration(tmp_path: Path) -> None:
    """In the leg and in what it tests, whoever asks finds it an hour earlier than the last time."""
    (tmp_path / "back").mkdir()
    (tmp_path / "back" / "sitecustomize.py").write_text("""
import time
real, calls = (time.time, time.gmtime), []
def back():
    calls.append(0)
    return real[0]() - 3600 * len(calls)
time.time, time.gmtime = back, lambda of=None: real[1](back() if of is None else of)
""")
    (tmp_path / "test_a.py").write_text("""
import time
def test_a():
    before = time.time()
    time.sleep(0.05)
    assert time.time() < before
def test_fails(): assert 0
def test_leg_dies():
    import os, pathlib, signal
    if not pathlib.Path("died").exists():
        pathlib.Path("died").touch()
        leg = int(pathlib.Path("leg").read_text())
        os.kill(leg, signal.SIGKILL)
        time.sleep(600)
""")
    units = [f"test_a.py::test_{name}" for name in ("a", "fails", "leg_dies")]
    plan = plan_codec.decode(plan_codec.encode(plan_of(units)), "plan")
    (tmp_path / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record")
    path = str(tmp_path / "back")
    first = start(tmp_path, *words, "records/1", PYTHONPATH=path)
    (tmp_path / "leg").write_text(str(first.process.pid))
    first.wait(-signal.SIGKILL)
    resume = ("--resume-from", "records")
    start(tmp_path, *words, "records/2", *resume, PYTHONPATH=path).wait(10)
    for file in (tmp_path / "records").rglob("*.jsonl"):
        lines = [json.loads(text) for text in file.read_text().splitlines()]
        moments = [line["at_s"] for line in lines if "at_s" in line]
        assert moments == sorted(moments) or file.name == "earlier.jsonl"  # of several files
        assert all(0 <= moment < 600 for moment in moments), file.name
        assert all(0 <= line.get("wall_s", 0) < 60 for line in lines), file.name
    verdict = prove(plan, read_record_tree(tmp_path / "records"))
    assert (verdict.state, verdict.counts) == ("failed", {"passed": 2, "failed": 1}), verdict
