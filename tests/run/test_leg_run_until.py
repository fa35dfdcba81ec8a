"""A shard's order up to one test, as somebody reproduces it who has only the plan."""

from __future__ import annotations

import html
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import UNGUARDED, Leg, plan_of, start, start_shard
from run.replay import replays

from ciguard.codec import plan_file as plan_codec
from ciguard.guard.view import document
from ciguard.model import Plan, PlannedUnit, Suite, Variant
from ciguard.render.markdown import as_markdown
from ciguard.sources.local import read_record_tree

# It fails only behind the test that leaves something, which a file's own order puts behind it.
ORDER = """
left = []
def test_victim(): assert not left
def test_between(): pass
def test_leaves(): left.append(1)
def test_behind(): raise RuntimeError("never reached")
"""
UNITS = [f"test_order.py::test_{name}" for name in ("leaves", "between", "victim", "behind")]


def until(folder: Path, plan: Plan, unit: str) -> Leg:
    (folder / "test_order.py").write_text(ORDER)
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    words = ("--plan", "plan.json", "--shard", "01", "--record", "record")
    return start(folder, *words, "--until", unit)


@pytest.mark.parametrize(
    ("processes", "run", "whose"),
    [(1, UNITS[:3], "of the shard"), (2, UNITS[:3:2], "of its process (1 of 2)")],
)
def test_until_runs_predecessors_and_nothing_after(
    tmp_path: Path, processes: int, run: list[str], whose: str
) -> None:
    new = [PlannedUnit(name, change="new") for name in UNITS]
    plan = plan_of(new, processes=processes, policy=replace(UNGUARDED, repeat_until_s=100.0))
    leg = until(tmp_path, plan, UNITS[2]).wait(10)
    record = leg.record()
    assert record.probes == ()  # who reproduces a failure repeats no new tests
    assert f"until: {len(run)} of 4 tests: those {whose}, up to this one" in leg.printed
    (output,) = [event for event in record.events if event.kind == "run_until"]
    assert output.unit == UNITS[2]
    units = tuple(one for one in plan.shards[0].units if one.unit in run)
    part = replace(plan.shards[0], units=units, processes=1)
    replays(leg.record_folder, replace(plan, shards=(part,)))
    assert [line.unit for line in record.starts] == run
    assert leg.outcomes()[UNITS[2]] == "failed"


def test_until_with_a_test_of_another_shard_is_an_error(tmp_path: Path) -> None:
    leg = until(tmp_path, plan_of(UNITS), "test_order.py::test_victims").wait(3)
    assert leg.printed == (
        "ciguard run: --until test_order.py::test_victims: not among the 4 tests of shard 01\n"
        f"  fix: did you mean {UNITS[2]}, {UNITS[0]}, {UNITS[3]}, {UNITS[1]}?\n"
    )
    assert not leg.record_folder.exists()


RANDOM_ORDER = """
import json, os, pathlib, random, sys
seed = sys.argv[sys.argv.index("--seed") + 1] if "--seed" in sys.argv else os.environ["CHANCE"]
units = pathlib.Path(os.environ["CIGUARD_UNITS_FILE"]).read_text().split()
with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
    for line in (
        {"type": "event", "kind": "seed", "detail": f"--seed {seed}"},
        *({"type": "result", "unit": unit, "outcome": "failed"} for unit in units),
    ):
        print(json.dumps(line), file=record)
"""


def test_failure_in_a_random_order_is_reproduced_with_its_seed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(RANDOM_ORDER)
    suite = Suite("command", (sys.executable, "program.py"), variants={"": Variant()})
    plan = plan_of(["a", "b"], suites={"": suite})
    leg = start_shard(tmp_path, plan, CHANCE="1234").wait(10)
    text = as_markdown(document(leg.verdict()))
    command, *_ = re.findall(r"<code>ciguard run (.*)</code>", text)
    words = shlex.split(html.unescape(command))
    assert "--args=--seed 1234" in words
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan.json").rename(tmp_path / "plan" / "plan.json")
    again = start(tmp_path, *words, CHANCE="5").wait(10)
    (record,) = read_record_tree(tmp_path / "again")
    assert [one.detail for one in record.events if one.kind == "seed"] == ["--seed 1234"]
    assert [one.unit for one in record.results] == ["a"], again.printed
