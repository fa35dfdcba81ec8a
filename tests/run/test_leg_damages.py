"""What a test takes from its leg, or a mistake of ours: a record that says so, and an end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from run.leg_runner import no_survivor, plan_of, start_shard

from ciguard.codec.plan_file import decode
from ciguard.guard.prove import prove
from ciguard.guard.wording import finding_message
from ciguard.sources.local import read_record_tree

if TYPE_CHECKING:
    from pathlib import Path

    from run.leg_runner import Leg

    from ciguard.guard.verdict import Verdict


def units_of(*names: str) -> list[str]:
    return [f"test_takes.py::test_{name}" for name in names]


def verdict_of(leg: Leg) -> Verdict:
    plan = decode((leg.folder / "plan.json").read_bytes(), "plan.json")
    return prove(plan, read_record_tree(leg.record_folder))


def detail_of(leg: Leg, kind: str) -> str:
    (found,) = [event.detail for event in leg.record().events if event.kind == kind]
    return found


@pytest.mark.soak
def test_emptied_temporary_folder_does_not_stop_the_leg(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import os, pathlib, shutil
def test_empties():
    for path in pathlib.Path(os.environ["TMPDIR"]).iterdir(): shutil.rmtree(path)
def test_leaves(): os._exit(3)
def test_takes_the_folder(): shutil.rmtree(os.environ["TMPDIR"])
def test_leaves_again(): os._exit(3)
def test_last(): pass
""")
    (tmp_path / "temporary").mkdir()
    names = ("empties", "leaves", "takes_the_folder", "leaves_again", "last")
    units = units_of(*names)
    leg = start_shard(tmp_path, plan_of(units), TMPDIR=str(tmp_path / "temporary")).wait(10)
    died = {unit for unit in units if "leaves" in unit}
    assert leg.outcomes() == {unit: "died" if unit in died else "passed" for unit in units}
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(
    "removal", ['shutil.rmtree("record")', 'os.remove("record/process-001.jsonl")']
)
def test_a_removed_record_ends_the_leg(tmp_path: Path, removal: str) -> None:
    (tmp_path / "test_takes.py").write_text(f"""
import os, shutil, time
def test_first(): pass
def test_removes():
    {removal}
    time.sleep(600)
def test_last(): pass
""")
    leg = start_shard(tmp_path, plan_of(units_of("first", "removes", "last"))).wait(13)
    output = (
        "unknown: the record was removed while tests ran: pass a folder outside of the checkout"
    )
    assert leg.printed.count(output) == 1
    no_survivor(leg)


def test_record_removed_by_the_last_test_fails_the_leg(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import shutil
def test_removes(): shutil.rmtree("record")
""")
    leg = start_shard(tmp_path, plan_of(units_of("removes"))).wait(13)
    assert "the record was removed while tests ran" in leg.printed
    assert not leg.record_folder.exists()


FAILS = """
import os, sys, time, types
from ciguard.run import leg
from ciguard.run.platforms.current import CURRENT
rounds = []
def wait(*words):
    rounds.extend([1] if os.path.exists("started") else [])
    if len(rounds) > 5: raise ZeroDivisionError("not foreseen")  # the start line was read
    return CURRENT.wait(*words)
platform = types.SimpleNamespace(**{**vars(CURRENT), "wait": wait})
plan = leg.read_plan("plan.json")
found = leg.run_shard(
    plan, "01", "record", dict(os.environ), origin_s=time.monotonic(), platform=platform
)
sys.exit(int(found.exit_code))
"""


FAILS_LAST = """
import os, sys, time
from ciguard.run import leg, supervisor
def judge_leg(*words, **more): raise ZeroDivisionError("not foreseen")
supervisor.judge_leg = judge_leg
plan = leg.read_plan("plan.json")
found = leg.run_shard(plan, "01", "record", dict(os.environ), origin_s=time.monotonic())
sys.exit(int(found.exit_code))
"""


def test_internal_error_at_the_end_writes_an_end_line(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("def test_first(): pass\n")
    plan = plan_of(units_of("first"))
    leg = start_shard(tmp_path, plan, program=(sys.executable, "-c", FAILS_LAST)).wait(13)
    assert "ciguard itself failed, please report it: ZeroDivisionError" in leg.printed
    assert "ZeroDivisionError: not foreseen" in detail_of(leg, "internal_error")
    assert leg.outcomes() == {units_of("first")[0]: "passed"}
    end = leg.record().end
    assert end is not None
    assert (end.ending, end.exit_code) == ("unknown", 13)


def test_internal_error_writes_an_end_line_and_names_missing_units(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import pathlib, time
def test_first(): pass
def test_slow():
    pathlib.Path("started").touch()
    time.sleep(600)
def test_last(): pass
""")
    plan = plan_of(units_of("first", "slow", "last"))
    leg = start_shard(tmp_path, plan, program=(sys.executable, "-c", FAILS)).wait(13)
    output = "ciguard itself failed, please report it: ZeroDivisionError: not foreseen\n"
    assert output in leg.printed
    assert "did not run test_takes.py::test_slow: ciguard failed while it ran\n" in leg.printed
    assert "ZeroDivisionError: not foreseen" in detail_of(leg, "internal_error")
    assert leg.outcomes() == {units_of("first")[0]: "passed"}
    record = leg.record()
    assert record.end is not None
    assert (record.end.ending, record.end.exit_code) == ("unknown", 13)
    assert [one.unit for one in record.events if one.kind == "not_run" and one.unit] == [
        units_of("last")[0]
    ]
    verdict = verdict_of(leg)
    assert verdict.state == "incomplete"
    assert "ciguard itself failed" in "\n".join(
        finding_message(finding) for finding in verdict.findings
    )
    no_survivor(leg)
