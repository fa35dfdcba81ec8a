"""Legs of a plan that has the units of the past: the first tested process lists what exists."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import LISTS, OF_MATRIX, PYTEST, Leg, listing_plan, start, until
from run.replay import replays

from ciguard.codec import plan_file
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Verdict
from ciguard.model import Plan, Suite
from ciguard.sources.local import read_record_tree

TESTS = """
import pytest
def test_old(): pass
def test_new(): pass
@pytest.mark.parametrize("i", range(6))
def test_each(i): pass
"""


ORDERED = """
import pytest
done = []
@pytest.fixture(scope="module", params=["b", "a"][::-1])
def wide(request): open("set-ups", "a").write(request.param)
def test_z_first(): done.append(1)
def test_needs_it(): assert done
@pytest.mark.parametrize("i", range(3))
def test_wide(wide, i): pass
"""
NESTED = """
import subprocess, sys
def test_outer():
    subprocess.run([sys.executable, "-m", "pytest", "-q", "inner"], check=True)
"""


def begin(folder: Path, plan: Plan, shard: str = "01", *words: str, **environ: str) -> Leg:
    (folder / "plan.json").write_bytes(plan_file.encode(plan))
    named = ("--plan", "plan.json", "--shard", shard, "--record", f"records/{shard}")
    return start(folder, *named, *words, **environ)


def run(folder: Path, plan: Plan) -> Verdict:
    """Run all shards; what they come to."""
    for shard in plan.shards:
        begin(folder, plan, shard.key).wait()
    return judge(folder)


def judge(folder: Path) -> Verdict:
    plan = plan_file.decode((folder / "plan.json").read_bytes(), "plan.json")
    return prove(plan, read_record_tree(folder / "records"))


def test_legs_share_new_tests_and_leave_out_those_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    plan = listing_plan(("test_a.py::test_gone", "test_a.py::test_old"), ())
    verdict = run(tmp_path, plan)
    assert verdict.state == "passed"
    assert (verdict.planned, verdict.with_result, verdict.new, verdict.gone) == (8, 8, 7, 1)
    assert all(leg.planned > 0 for leg in verdict.legs), "new tests are shared"
    for record in read_record_tree(tmp_path / "records"):
        assert len(record.processes) == 1, "the process that lists is the one that tests"
    replays(tmp_path / "records" / "01", plan)


@pytest.mark.soak
def test_a_shard_to_which_no_test_falls_ends_well(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_old(): pass\n")
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old",), ()))
    assert verdict.state == "passed"
    assert [leg.planned for leg in verdict.legs] == [1, 0]


@pytest.mark.soak
def test_a_new_test_has_the_time_limit_of_its_suite(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import time\ndef test_hangs(): time.sleep(60)\n")
    suite = replace(PYTEST, timeout_s=0.5)
    begin(tmp_path, listing_plan((), suite=suite)).wait(10)
    (failure,) = judge(tmp_path).failures
    assert (failure.result.unit, failure.result.ending) == ("test_a.py::test_hangs", "timeout")


@pytest.mark.soak
def test_several_processes_share_what_was_listed(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    verdict = run(tmp_path, listing_plan((), processes=2))
    assert (verdict.state, verdict.with_result) == ("passed", 8)
    (record,) = read_record_tree(tmp_path / "records")
    assert {result.process for result in record.results} == {1, 2}


@pytest.mark.soak
def test_workers_of_xdist_wait_for_the_same_units(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    suite = replace(PYTEST, args=("-n", "2"))
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old",), (), suite=suite))
    assert (verdict.state, verdict.with_result, verdict.new) == ("passed", 8, 7)


def test_excluded_tests_are_named_and_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    suite = replace(PYTEST, exclude=("*test_each*",))
    verdict = run(tmp_path, listing_plan((), suite=suite))
    assert (verdict.state, verdict.with_result) == ("passed", 2)
    (finding,) = verdict.findings
    assert (finding.kind, len(finding.units)) == ("excluded", 6)


@pytest.mark.parametrize("suite", [PYTEST, pytest.param(OF_MATRIX, marks=pytest.mark.soak)])
def test_a_file_that_cannot_be_imported_makes_the_run_incomplete(
    tmp_path: Path, suite: Suite
) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text("import nothing_of_that_name\n")
    verdict = run(tmp_path, listing_plan((), (), suite=suite))
    assert verdict.state == "incomplete"
    (finding,) = verdict.findings
    assert finding.kind == "collection_error"
    assert "nothing_of_that_name" in finding.facts["error"]
    assert verdict.with_result == 8, "the others ran"


def test_a_file_without_tests_is_named_if_a_past_run_had_some(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    (tmp_path / "test_b.py").write_text("")
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old", "test_b.py::test_gone")))
    (finding,) = verdict.findings
    assert (finding.kind, finding.facts["files"]) == ("emptied_file", ("test_b.py",))


def test_a_unit_that_is_a_file_is_named_when_it_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a test")
    (tmp_path / "b.txt").write_text("")
    lists = "import glob, os; print(*filter(os.path.getsize, glob.glob('*.txt')), sep='\\n')"
    runs = """
import json, os
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    line = {"type": "result", "unit": unit, "outcome": "passed"}
    print(json.dumps(line), file=open(os.environ["CIGUARD_RECORD_FILE"], "a"))
"""
    suite = Suite(
        "command", (sys.executable, "-c", runs), list_command=(sys.executable, "-c", lists)
    )
    verdict = run(tmp_path, listing_plan(("a.txt", "b.txt"), suite=suite))
    (finding,) = verdict.findings
    assert (finding.kind, finding.facts["files"]) == ("emptied_file", ("b.txt",))


@pytest.mark.parametrize("suite", [PYTEST, pytest.param(OF_MATRIX, marks=pytest.mark.soak)])
def test_a_process_that_dies_while_it_lists_ends_the_leg(tmp_path: Path, suite: Suite) -> None:
    (tmp_path / "test_a.py").write_text("import os\nos._exit(3)\n")
    leg = begin(tmp_path, listing_plan(("test_a.py::test_old",), (), suite=suite)).wait(13)
    (record,) = read_record_tree(tmp_path / "records")
    assert record.end is not None
    assert record.end.ending == "setup_failed"
    assert len(record.processes) == 3
    assert "3 processes in a row finished no test" in leg.printed


def test_commands_that_start_no_pytest_run_once_and_are_no_green_shard(tmp_path: Path) -> None:
    suite = Suite("pytest", (sys.executable, "-c", "open('runs', 'a').write('x')"))
    begin(tmp_path, listing_plan((), suite=suite)).wait(13)
    assert judge(tmp_path).state == "incomplete"
    assert (tmp_path / "runs").read_text() == "x"


def test_tests_run_in_the_order_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(ORDERED)
    plan = listing_plan(("test_a.py::test_needs_it",))
    verdict = run(tmp_path, plan)
    assert (verdict.state, verdict.planned) == ("passed", 8)
    assert (tmp_path / "set-ups").read_text() == "ab", "one set-up for each parameter"


def test_new_tests_of_a_file_stay_together(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"test_{number}.py").write_text(TESTS.replace("range(6)", "range(3)"))
    begin(tmp_path, listing_plan(("test_3.py::test_old",), (), ())).wait(0)
    (record,) = read_record_tree(tmp_path / "records")
    shards: dict[str, set[str]] = {"test_3.py": {"01"}}
    for event in record.events:
        if event.kind == "unplanned" and event.unit:
            shards.setdefault(event.unit.partition("::")[0], set()).add(event.detail)
    assert all(len(found) == 1 for found in shards.values())
    assert len(shards) == 8
    assert {shard for found in shards.values() for shard in found} == {"01", "02", "03"}


@pytest.mark.soak
def test_another_worker_lists_if_the_first_one_dies(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import os\nif os.environ.get('PYTEST_XDIST_WORKER') == 'gw0': os._exit(1)\n"
    )
    (tmp_path / "test_a.py").write_text(TESTS)
    suite = replace(PYTEST, args=("-n", "2"))
    plan = listing_plan((), suite=suite, policy=replace(LISTS, deadline_s=60.0))
    leg = begin(tmp_path, plan).wait()
    assert "listed: 8 tests" in leg.printed
    assert "deadline" not in leg.printed


@pytest.mark.soak
def test_combination_without_a_test_makes_the_run_incomplete(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    suite = replace(PYTEST, args=("-m", "no_such_mark"))
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old",), suite=suite))
    kinds = {one.kind for one in verdict.findings if one.level == "incomplete"}
    assert kinds >= {"nothing_listed"}


@pytest.mark.soak
def test_a_shard_without_tests_is_not_to_blame_for_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_old(): pass\n")
    (tmp_path / "test_b.py").write_text("import nothing_of_that_name\n")
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old",), ()))
    assert [one.kind for one in verdict.findings] == ["collection_error"]


@pytest.mark.soak
def test_a_pytest_that_a_test_starts_keeps_its_tests(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "test_inner.py").write_text("def test_inner(): pass\n")
    (tmp_path / "test_a.py").write_text(NESTED)
    (tmp_path / "script").write_text(f"{sys.executable} -m pytest test_a.py\n")
    leg = begin(tmp_path, listing_plan(()), "01", "--script", "script").wait()
    assert leg.process.returncode == 0, leg.printed


@pytest.mark.soak
def test_a_test_that_is_listed_twice_makes_the_run_incomplete(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_old(): pass\n")
    suite = replace(PYTEST, args=("--keep-duplicates", "test_a.py", "test_a.py"))
    verdict = run(tmp_path, listing_plan(("test_a.py::test_old",), suite=suite))
    assert "collection_error" in {one.kind for one in verdict.findings}


@pytest.mark.soak
def test_an_import_that_hangs_ends_at_the_deadline(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import time\ntime.sleep(60)\n")
    plan = listing_plan((), policy=replace(LISTS, deadline_s=2.0))
    begin(tmp_path, plan).wait(13)
    assert judge(tmp_path).legs[0].ending == "deadline"


@pytest.mark.soak
def test_a_signal_while_it_lists_ends_the_leg_with_a_record(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("import time\nopen('begun', 'w')\ntime.sleep(60)\n")
    leg = begin(tmp_path, listing_plan(()))
    until((tmp_path / "begun").exists, what="the import begins")
    leg.process.send_signal(signal.SIGTERM)
    leg.wait(143)
    assert judge(tmp_path).legs[0].ending == "cancelled"


@pytest.mark.soak
@pytest.mark.parametrize(("until_", "count"), [("test_old", 1), ("test_each[5]", 8)])
def test_a_shard_runs_up_to_a_planned_or_a_new_test(
    tmp_path: Path, until_: str, count: int
) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    plan = listing_plan(("test_a.py::test_gone", "test_a.py::test_old"))
    leg = begin(tmp_path, plan, "01", "--until", until_).wait(0)
    assert f"{count} passed" in leg.printed


@pytest.mark.soak
def test_an_id_that_no_record_can_hold_makes_the_run_incomplete(tmp_path: Path) -> None:
    ids = """@pytest.mark.parametrize("x", [1, 2], ids=["a", "b" * 600_000])"""
    (tmp_path / "test_a.py").write_text(f"import pytest\n{ids}\ndef test_x(x): pass\n")
    verdict = run(tmp_path, listing_plan(()))
    (finding,) = verdict.findings
    assert (finding.kind, verdict.planned) == ("collection_error", 1)
    assert "give it a short one" in finding.facts["error"]


SUBPROCESS_LISTS = """
import json, os, sys
names = os.environ["NAMES"].split()
if sys.argv[1] == "list":
    sys.exit(print("\\n".join(names)))
for unit in open(os.environ["CIGUARD_UNITS_FILE"]).read().split():
    line = json.dumps({"type": "result", "unit": unit, "outcome": "passed"})
    print(line, file=open(os.environ["CIGUARD_RECORD_FILE"], "a"))
"""


@pytest.mark.soak
def test_another_framework_lists_before_its_first_process(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(SUBPROCESS_LISTS)
    program = (sys.executable, "t.py")
    suite = Suite(
        "command", (*program, "run"), list_command=(*program, "list"), env={"NAMES": "old new"}
    )
    plan = listing_plan(("gone", "old"), (), suite=suite)
    verdict = run(tmp_path, plan)
    assert (verdict.state, verdict.with_result, verdict.new, verdict.gone) == ("passed", 2, 1, 1)
    broken = listing_plan(("old",), suite=replace(suite, env={}))
    leg = begin(tmp_path, broken, "01").wait(3)
    assert "cannot be listed, so that new tests would be missed" in leg.printed
