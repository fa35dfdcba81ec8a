"""What a test takes from its leg, or a mistake of ours: a record that says so, and an end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from run.legs import no_survivor, plan_of, start_shard

from ciguard.codec.plan import decode
from ciguard.files import read_record_tree
from ciguard.guard.proof import prove
from ciguard.model import PlannedUnit, Suite

if TYPE_CHECKING:
    from pathlib import Path

    from run.legs import Leg

    from ciguard.guard.verdict import Verdict


def units_of(*names: str) -> list[str]:
    return [f"test_takes.py::test_{name}" for name in names]


def verdict_of(leg: Leg) -> Verdict:
    plan = decode((leg.folder / "plan.json").read_bytes(), "plan.json")
    return prove(plan, read_record_tree(leg.record_folder))


def detail_of(leg: Leg, kind: str) -> str:
    (found,) = [event.detail for event in leg.record().events if event.kind == kind]
    return found


def test_a_test_that_empties_the_temporary_folder_stops_nothing(tmp_path: Path) -> None:
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


def test_a_record_that_a_test_removes_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("""
import os, shutil
def test_first(): pass
def test_leaves(): os._exit(3)
def test_removes():
    print("said before")
    shutil.rmtree("record")
def test_fails(): assert not "seen"
def test_removes_again(): shutil.rmtree("record", ignore_errors=True)
def test_leaves_again(): os._exit(3)
def test_last(): pass
""")
    names = ("first", "leaves", "removes", "fails", "removes_again", "leaves_again", "last")
    units = units_of(*names)
    leg = start_shard(tmp_path, plan_of(units)).wait(13)
    bad = {"leaves": "died", "leaves_again": "died", "fails": "failed"}
    assert leg.outcomes() == {
        unit: bad.get(unit[len(units_of("")[0]) :], "passed") for unit in units
    }
    assert "the record was removed while tests ran: results that were read are" in leg.printed
    assert leg.printed.count("the record was removed while tests ran") == 1
    end = leg.record().end
    assert end is not None
    assert (end.ending, end.exit_code) == ("unknown", 13)
    assert dict(end.counts) == {"passed": 4, "failed": 1, "died": 2}
    verdict = verdict_of(leg)
    assert verdict.state == "incomplete"
    assert "its record was removed while tests ran" in "\n".join(
        finding.what for finding in verdict.findings
    )
    no_survivor(leg)


REMOVES = """
import json, os, pathlib, shutil, time
record = pathlib.Path(os.environ["CIGUARD_RECORD_FILE"])
def say(**line):
    with open(record, "a") as stream: stream.write(json.dumps(line) + chr(10))
kept = open(record, "a")
print("printed before", flush=True)
say(type="result", unit="a", outcome="passed")
time.sleep(0.5)  # what is removed within the leg's own tick is lost
shutil.rmtree(record.parent)
kept.write(json.dumps(dict(type="result", unit="b", outcome="passed")) + chr(10))
kept.flush()
while not record.parent.exists(): time.sleep(0.01)
time.sleep(0.5)  # and so is what is written while the leg lays it out
print("printed behind", flush=True)
say(type="result", unit="c", outcome="passed")
"""


def test_who_opens_the_record_anew_and_who_does_not_are_both_heard(tmp_path: Path) -> None:
    suite = Suite("command", (sys.executable, "-S", "-c", REMOVES))
    plan = plan_of([PlannedUnit(unit, suite="s") for unit in "abc"], suites={"s": suite})
    leg = start_shard(tmp_path, plan).wait(13)
    assert leg.outcomes() == dict.fromkeys("abc", "passed")
    log = (leg.record_folder / "process-001.log").read_text()
    assert log == "printed before\nprinted behind\n"


FAILS = """
import os, sys, time, types
from ciguard.run import leg
from ciguard.run.platforms.table import HERE
def wait(*words):
    if os.path.exists("started"): raise ZeroDivisionError("not foreseen")
    return HERE.wait(*words)
platform = types.SimpleNamespace(**{**vars(HERE), "wait": wait})
plan = leg.read_plan("plan.json")
found = leg.run_shard(
    plan, "01", "record", dict(os.environ), origin_s=time.monotonic(), platform=platform
)
sys.exit(int(found.exit_code))
"""


FAILS_LAST = """
import os, sys, time
from ciguard.run import leg, supervisor
def verdict(*words, **more): raise ZeroDivisionError("not foreseen")
supervisor.verdict = verdict
plan = leg.read_plan("plan.json")
found = leg.run_shard(plan, "01", "record", dict(os.environ), origin_s=time.monotonic())
sys.exit(int(found.exit_code))
"""


def test_a_mistake_of_ours_at_the_very_end_has_an_end_too(tmp_path: Path) -> None:
    (tmp_path / "test_takes.py").write_text("def test_first(): pass\n")
    plan = plan_of(units_of("first"))
    leg = start_shard(tmp_path, plan, program=(sys.executable, "-c", FAILS_LAST)).wait(13)
    assert "ciguard itself failed, please report it: ZeroDivisionError" in leg.printed
    assert "ZeroDivisionError: not foreseen" in detail_of(leg, "internal_error")
    assert leg.outcomes() == {units_of("first")[0]: "passed"}
    end = leg.record().end
    assert end is not None
    assert (end.ending, end.exit_code) == ("unknown", 13)


def test_a_mistake_of_ours_has_an_end_and_names_what_is_missing(tmp_path: Path) -> None:
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
    said = "ciguard itself failed, please report it: ZeroDivisionError: not foreseen\n"
    assert said in leg.printed
    assert "did not run test_takes.py::test_slow: the leg failed while it ran\n" in leg.printed
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
    assert "ciguard itself failed" in "\n".join(finding.what for finding in verdict.findings)
    no_survivor(leg)
