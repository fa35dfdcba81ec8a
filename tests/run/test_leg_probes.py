"""Extra tries of real legs: what they answer, and that nothing else sees them."""

from __future__ import annotations

import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from frameworks.loop import needs_gem
from run.leg_runner import UNGUARDED, Leg, plan_of, start, start_shard, until

from ciguard.guard.prove import prove
from ciguard.history.file import encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.model import CaseKey, Plan, PlannedUnit, Record, Suite, UnitKey, Variant
from ciguard.model.probes import probes_of
from ciguard.sources.local import read_record_tree

TESTS = """
import os, pathlib, time
STATE = []
HERE = pathlib.Path(__file__).parent
def test_one(): pass
def test_two(): pass
def test_leaks(): STATE.append(1)
def test_three(): pass
def test_broken(): assert 1 == 2
def test_order(): assert not STATE
def test_flake():
    is_first = not (HERE / "seen").exists()
    (HERE / "seen").touch()
    assert not is_first
def test_known(): assert 0
def test_crash(): os._exit(3)
def test_hang(): time.sleep(60)
def test_last(): pass
"""
NAMES = re.findall(r"def test_(\w+)", TESTS)
PROBING = replace(UNGUARDED, probe_s=60.0)


def key(name: str) -> UnitKey:
    return UnitKey("", "", f"test_a.py::test_{name}")


def answers(record: Record) -> dict[str, list[tuple[str, bool | None, str]]]:
    """By test the kind of each extra try, whether it failed, and the test before it."""
    return {
        unit.unit.rpartition("_")[2]: [
            (
                probe.kind,
                probe.failed(CaseKey(*unit, unit.unit)),
                probe.predecessor.unit if probe.predecessor else "",
            )
            for probe in probes
        ]
        for unit, probes in probes_of(record).items()
    }


def without_probes(leg: Leg, folder: Path) -> Record:
    """The record as if the leg had been killed at its end."""
    shutil.copytree(leg.record_folder, folder)
    own = folder / "supervisor.jsonl"
    lines = own.read_bytes().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if line.startswith(b'{"type":"end"'))
    own.write_bytes(b"".join(lines[: last + 1]))
    started = sum(line.startswith(b'{"type":"process"') for line in lines[:last])
    for path in folder.glob("process-*"):
        if int(path.name[8:11]) > started:
            path.unlink()
    (record,) = read_record_tree(folder)
    return replace(record, source=leg.record().source)


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Leg, Plan]:
    folder = tmp_path_factory.mktemp("probed")
    (folder / "test_a.py").write_text(TESTS)
    units = [
        PlannedUnit(key(name).unit, timeout_s=1.0, fails_on_base=name == "known") for name in NAMES
    ]
    plan = plan_of(units, policy=PROBING)
    return start_shard(folder, plan).wait(10), plan


def test_each_new_failure_is_tried_again(probed: tuple[Leg, Plan]) -> None:
    leg, _ = probed
    assert answers(leg.record()) == {
        "broken": [("alone", True, ""), ("again", True, "")],
        "order": [("alone", False, ""), ("again", True, ""), ("after", True, key("leaks").unit)],
        "flake": [("alone", False, ""), ("again", False, "")],
        "crash": [("alone", True, ""), ("again", True, "")],
        "hang": [("alone", True, "")],
    }
    assert "trying 5 new failures again: " in leg.said
    assert f"tried again {key('hang').unit}: failed alone" in leg.said
    order = "passed alone, failed after the tests before it, failed directly after"
    assert f"tried again {key('order').unit} {order} {key('leaks').unit}" in leg.said


def test_no_result_changes(probed: tuple[Leg, Plan], tmp_path: Path) -> None:
    leg, plan = probed
    record, cut = leg.record(), without_probes(leg, tmp_path / "cut")
    assert record.probes
    assert replace(record, probes=()) == cut
    assert prove(plan, [record]) == prove(plan, [cut])
    histories = [history_of([one], RunMetadata(run_id=7)) for one in (record, cut)]
    assert encode(histories[0]) == encode(histories[1])
    assert (len(record.processes), record.damage) == (3, ())
    counts = record.end.counts if record.end else {}
    assert counts == {"passed": 5, "failed": 4, "died": 2}


SECOND_HANGS = """
import pathlib, time
def test_a():
    if pathlib.Path("first").exists():
        pathlib.Path("second").touch()
        time.sleep(600)
    pathlib.Path("first").touch()
    assert 0
def test_b(): pass
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -9), pytest.param(signal.SIGTERM, 10, marks=pytest.mark.soak), (None, 10)],
)
def test_leg_that_ends_in_a_try_is_complete(tmp_path: Path, number: int | None, code: int) -> None:
    """Killed, cancelled, or stopped at the end of its time."""
    (tmp_path / "test_a.py").write_text(SECOND_HANGS)
    plan = plan_of([key("a").unit, key("b").unit], policy=replace(UNGUARDED, probe_s=4.0))
    if number is not None:
        plan = replace(plan, policy=PROBING)
    leg = start_shard(tmp_path, plan)
    until((tmp_path / "second").exists, what="the extra try runs")
    if number is not None:
        leg.process.send_signal(number)
    leg.wait(code, timeout_s=20)
    record = leg.record()
    assert replace(record, probes=()) == without_probes(leg, tmp_path / "cut")
    assert leg.verdict().state == "failed"
    assert {result.outcome for result in record.results} == {"passed", "failed"}
    assert [failed for *_, failed, _ in answers(record).get("a", [])] in ([], [None])


def test_next_step_takes_no_result_from_a_try(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    start_shard(tmp_path, plan_of([key("flake").unit], policy=PROBING)).wait(10)
    words = ("--plan", "plan.json", "--shard", "01", "--record", "next", "--resume-from", "record")
    leg = start(tmp_path, *words).wait(10)
    assert "shard 01: 1 failed in " in leg.printed
    (record,) = read_record_tree(tmp_path / "next")
    assert [result.outcome for result in record.results] == ["failed"]
    assert record.damage == ()


def test_files_of_another_framework_are_tried_again(tmp_path: Path) -> None:
    needs_gem("rspec", "ruby-rspec")
    bodies = {"one": "1", "leaks": "$x = 1", "order": "raise 'no' if $x", "broken": "raise 'no'"}
    (tmp_path / "spec").mkdir()
    for name, body in bodies.items():
        text = f'RSpec.describe("{name}") {{ it("a") {{ {body} }}; it("b") {{ }} }}\n'
        (tmp_path / f"spec/{name}_spec.rb").write_text(text)
    units = [f"spec/{name}_spec.rb" for name in bodies]
    suite = Suite("rspec", ("rspec",), variants={"": Variant()})
    leg = start_shard(tmp_path, plan_of(units, suites={"": suite}, policy=PROBING)).wait(10)
    probes = probes_of(leg.record())
    found = {
        (unit.unit, case): [
            probe.failed(CaseKey(*unit, f"{unit.unit[5:-8]} {case}")) for probe in one
        ]
        for unit, one in probes.items()
        for case in "ab"
    }
    assert found == {
        (units[2], "a"): [False, True, False, True],
        (units[2], "b"): [False, False, False, False],
        (units[3], "a"): [True, True],
        (units[3], "b"): [False, False],
    }
    assert probes[UnitKey("", "", units[2])][3].predecessor == UnitKey("", "", units[1])
