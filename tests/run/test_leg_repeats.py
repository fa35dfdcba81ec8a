"""Repeats of new and changed tests by real legs: which, how often; nothing else changes."""

from __future__ import annotations

import ast
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from coverage import CoverageData
from run.leg_runner import PYTEST, UNGUARDED, Leg, plan_of, start_shard, until
from run.test_leg_probes import without_probes

from ciguard.history.file import encode
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.model import Plan, PlannedUnit
from ciguard.model.probes import Repeats, probes_of, repeats_of

TESTS = """
import os, pathlib, pytest, time
HERE = pathlib.Path(__file__).parent
STATE = []
def test_first(): STATE.append(1)
def test_new(): (HERE / f"env-{os.getpid()}").write_text(repr(dict(os.environ)))
def test_changed(): pass
def test_flaky():
    with open(HERE / "count", "a+") as file:
        file.write("x")
        file.seek(0)
        assert len(file.read()) % 3 == 1, "each third passes"
def test_order(): assert len(STATE) != 1 or not (HERE / "again").exists()
def test_dies():
    if (HERE / "again").exists(): os._exit(3)
def test_skipped(): pytest.skip("no")
def test_failed(): assert 0
def test_last(): (HERE / "again").touch()
"""
NAMES = re.findall(r"def test_(\w+)", TESTS)
CHANGES = dict.fromkeys(("new", "flaky", "order", "dies", "skipped", "failed"), "new")
CHANGES["changed"] = "changed"
REPEATING = replace(UNGUARDED, repeat_until_s=300.0)


def unit(name: str) -> PlannedUnit:
    return PlannedUnit(f"test_a.py::test_{name}", timeout_s=5.0, change=CHANGES.get(name, ""))


def by_name(leg: Leg) -> dict[str, Repeats]:
    return {
        key.unit.rpartition("_")[2]: repeats for key, repeats in repeats_of(leg.record()).items()
    }


def repeating(folder: Path, plan: Plan, repeats: int) -> Leg:
    """A leg that has begun so many repeats."""
    leg = start_shard(folder, plan)
    own = leg.record_folder / "supervisor.jsonl"

    def has_begun() -> bool:
        return own.exists() and own.read_bytes().count(b'"repeat_') >= repeats

    until(has_begun, what=f"{repeats} repeats", timeout_s=100)
    return leg


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Leg:
    folder = tmp_path_factory.mktemp("repeated")
    (folder / "test_a.py").write_text(TESTS)
    leg = repeating(folder, plan_of(list(map(unit, NAMES)), policy=REPEATING), 27)
    leg.process.terminate()
    return leg.wait(10)


def test_new_and_changed_tests_that_passed_are_repeated(repeated: Leg) -> None:
    leg, found = repeated, by_name(repeated)
    assert {name: one.change for name, one in found.items()} == {
        name: change for name, change in CHANGES.items() if name not in ("skipped", "failed")
    }
    assert (found["new"].failed, found["changed"].failed) == (0, 0)
    assert {name for name, one in found.items() if one.passed + one.failed >= 5} == found.keys()
    # Alone it passes; after its neighbours it fails.
    assert abs(found["order"].failed - found["order"].passed) <= 1
    assert found["dies"].passed == 0
    assert found["flaky"].failed > found["flaky"].passed > 0
    assert "each third passes" in found["flaky"].message
    assert not [unit for unit in probes_of(leg.record()) if "failed" not in unit.unit]
    assert "repeated 5 of 5 new or changed tests at least 5 times, until 5 min" in leg.said
    total = found["order"].passed + found["order"].failed
    assert f"test_order: {total} repeats, {found['order'].failed} failed" in leg.said


def test_repeat_has_the_environment_of_its_test(repeated: Leg) -> None:
    paths = repeated.record_folder.parent.glob("env-*")
    environs = [ast.literal_eval(path.read_text()) for path in paths]
    names = {name for environ in environs for name in environ}
    different = {name for name in names if len({environ.get(name) for environ in environs}) > 1}
    own = {name for name in different if name.startswith("CIGUARD_")}
    assert len(environs) > 5
    assert different - own == {"COVERAGE_FILE"}, different


def test_no_result_changes(repeated: Leg, tmp_path: Path) -> None:
    record, cut = repeated.record(), without_probes(repeated, tmp_path / "cut")
    assert record.probes
    assert replace(record, probes=()) == cut
    histories = [history_of([one], RunMetadata(run_id=7)) for one in (record, cut)]
    assert encode(histories[0]) == encode(histories[1])
    assert (len(record.processes), record.damage) == (1, ())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_during_repeats_it_is_complete(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "test_a.py").write_text("import time\ndef test_new(): time.sleep(0.3)\n")
    leg = repeating(tmp_path, plan_of([unit("new")], policy=REPEATING), 1)
    leg.process.send_signal(number)
    leg.wait()
    assert leg.verdict().findings == ()


@pytest.mark.parametrize("own", [True, False], ids=["pytest-cov", "coverage run"])
def test_reports_of_all_tests_stay(tmp_path: Path, own: bool) -> None:
    (tmp_path / "test_a.py").write_text("def test_new():\n  pass\ndef test_other():\n  x = 1\n")
    args = ("--junitxml=out.xml", "--log-file=out.log", *(("--cov=.", "--cov-report=") * own))
    command = (*PYTEST.command[:1], "-m", "coverage", "run", *PYTEST.command[1:])
    suite = replace(PYTEST, args=args, command=PYTEST.command if own else command)
    plan = plan_of([unit("new"), unit("other")], policy=REPEATING, suites={"": suite})
    leg = repeating(tmp_path, plan, 3)
    leg.process.terminate()
    leg.wait(0)
    assert by_name(leg)["new"].passed > 0
    assert (tmp_path / "out.xml").read_text().count("<testcase") == 2
    files = [path.name for path in leg.record_folder.glob("*.coverage")]
    assert files == ["process-001.coverage"] * own
    data = CoverageData(str(tmp_path / ".coverage"))
    data.read()
    assert data.lines(str(tmp_path / "test_a.py")) == [1, 2, 3, 4]
