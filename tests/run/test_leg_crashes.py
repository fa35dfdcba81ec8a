"""What kills a process does not kill the leg: the victim is named, the rest runs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.hostile_suite import finals
from run.leg_runner import PYTEST, UNGUARDED, Leg, leg_program, plan_of, start_shard, until

from ciguard.codec.plan_file import decode
from ciguard.guard.prove import prove
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.model import LegPolicy, PlannedUnit, Result, Suite, Variant
from ciguard.sources.local import read_record_tree
from ciguard.text import size

DEADLY = """
import ctypes, os, signal, subprocess, sys, time
def test_first(): pass
def test_segfault(): ctypes.string_at(0)
def test_leaves(): os._exit(0)
def test_kills_itself(): os.kill(os.getpid(), signal.SIGKILL)
def test_hangs():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
def test_daemon():
    code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code]).wait()
def test_last(): pass
"""
UNITS = [f"test_deadly.py::{name}" for name in DEADLY.split() if name.startswith("test_")]
UNITS = [unit.split("(")[0] for unit in UNITS]


def culprits(leg: Leg) -> dict[str, Result]:
    return {
        result.unit.split("::")[1]: result
        for result in leg.record().results
        if result.outcome == "died"
    }


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_each_crashed_test_is_named_and_the_rest_runs(tmp_path: Path, processes: int) -> None:
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    units = [PlannedUnit(unit, timeout_s=0.5 if unit.endswith("hangs") else None) for unit in UNITS]
    leg = start_shard(tmp_path, plan_of(units, processes=processes)).wait(10)
    assert leg.outcomes() == {
        unit: "passed" if unit.endswith(("first", "daemon", "last")) else "died" for unit in UNITS
    }
    found = culprits(leg)
    assert {name: result.ending for name, result in found.items()} == {
        "test_segfault": "crash",
        "test_leaves": "crash",
        "test_kills_itself": "crash",
        "test_hangs": "timeout",
    }
    assert "SIGSEGV" in (found["test_segfault"].message or "")
    assert "in test_segfault" in (found["test_segfault"].message or ""), "where it crashed"
    assert "exit code 0" in (found["test_leaves"].message or "")
    assert "SIGKILL" in (found["test_kills_itself"].message or "")
    hangs = (found["test_hangs"].message or "").splitlines()
    assert hangs[0] == "stopped: over its limit of 0.5 s"
    assert hangs[1].startswith("Current thread")
    assert hangs[2].endswith('test_deadly.py", line 10 in test_hangs'), "where it stands"
    stacks = [event.detail for event in leg.record().events if event.kind == "stacks"]
    assert [detail.splitlines()[0] for detail in stacks] == hangs[1:2]
    assert 0.5 <= (found["test_hangs"].wall_s or 0) < 3, "without the time that it took to end it"
    endings = [end.ending for end in leg.record().process_ends]
    assert endings.count("crash") == 3
    assert endings.count("timeout") == 1
    assert endings.count("completed") == processes


def test_dead_worker_names_its_test_and_the_others_continue(tmp_path: Path) -> None:
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    units = [unit for unit in UNITS if not unit.endswith(("hangs", "leaves", "segfault"))]
    plan = plan_of(units, suites={"": replace(PYTEST, args=("-n", "2"))})
    leg = start_shard(tmp_path, plan).wait(10)
    assert set(culprits(leg)) == {"test_kills_itself"}
    assert set(leg.outcomes()) == set(units)
    assert {path.name for path in leg.record_folder.glob("process-001-gw*.jsonl")} >= {
        "process-001-gw0.jsonl",
        "process-001-gw1.jsonl",
    }


@pytest.mark.soak
@pytest.mark.parametrize(
    "words",
    [
        # xdist would wait for ever here: the new worker waits for a second test, and there is none.
        ("-n", "1", "--dist", "loadgroup"),
        # Here it would let the dead worker's test kill four more, and then give up the rest.
        ("-n", "1", "--dist", "loadfile"),
        ("-n", "1", "--max-worker-restart=0"),
    ],
    ids=["loadgroup", "loadfile", "no restart"],
)
def test_units_of_a_dead_worker_continue_in_a_fresh_process(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "test_two.py").write_text(
        "import os\ndef test_leaves(): os._exit(1)\ndef test_behind(): pass\n"
    )
    units = [f"test_two.py::test_{name}" for name in ("leaves", "behind")]
    leg = start_shard(tmp_path, plan_of(units, suites={"": replace(PYTEST, args=words)})).wait(10)
    assert leg.outcomes() == {units[0]: "died", units[1]: "passed"}
    assert len(leg.record().processes) == 2


def test_concurrent_tests_of_a_crash_are_rerun_isolated(tmp_path: Path) -> None:
    """Two workers are in a test when all of them die: only one of the tests did it."""
    (tmp_path / "test_two.py").write_text("""
import os, pathlib, signal, time
def test_kills_all():
    while not pathlib.Path("beside").exists(): time.sleep(0.01)
    os.killpg(0, signal.SIGKILL)
def test_innocent():
    first = not pathlib.Path("beside").exists()
    pathlib.Path("beside").touch()
    time.sleep(60 if first else 0)
""")
    units = [f"test_two.py::test_{name}" for name in ("kills_all", "innocent")]
    plan = plan_of(units, suites={"": replace(PYTEST, args=("-n", "2"))})
    leg = start_shard(tmp_path, plan).wait(10)
    last = finals(leg.record().results)
    found = {unit: (one.outcome, one.try_number) for unit, one in last.items()}
    assert found == {units[0]: ("died", 2), units[1]: ("passed", 2)}
    assert dict(leg.end().counts) == {"passed": 1, "died": 1}
    ran_beside(leg, units[0], units[1:])


def ran_beside(leg: Leg, culprit: str, others: list[str]) -> None:
    """Check that these died of the culprit alone: said once, and no flakiness of theirs."""
    assert "flaky" not in leg.printed
    verdict = leg.verdict()
    assert [one.result.unit for one in verdict.failures] == [culprit]
    assert (verdict.flaky, verdict.passed_after_oom) == ((), ())
    (found,) = verdict.findings
    assert (found.level, found.kind, found.facts["culprit"]) == ("warning", "ran_beside", culprit)
    assert [key.unit for key in found.units] == others
    history = history_of([leg.record()], RunMetadata(run_id=1))
    tries = zip(history.keys, history.values.try_number.tolist(), strict=True)
    assert [key.unit for key, count in tries if count > 1] == [culprit]


CONCURRENT_UNITS = """
import json, os, pathlib, sys
units = pathlib.Path(os.environ["CIGUARD_UNITS_FILE"]).read_text().split()
with open(os.environ["CIGUARD_RECORD_FILE"], "a", buffering=1) as record:
    for unit in units: print(json.dumps({"type": "start", "unit": unit}), file=record)
    if sys.argv[1] in units: os.abort()
    for unit in units:
        print(json.dumps({"type": "result", "unit": unit, "outcome": "passed"}), file=record)
        print(json.dumps({"type": "event", "kind": "closed", "unit": unit}), file=record)
"""


def test_test_beside_a_death_is_not_flaky_in_any_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CONCURRENT_UNITS)
    command = (sys.executable, "program.py", "bad")
    suite = Suite("command", command, variants={"": Variant()}, closes_units=True)
    leg = start_shard(tmp_path, plan_of(["a", "bad", "c"], suites={"": suite})).wait(10)
    ran_beside(leg, "bad", ["a", "c"])


@pytest.mark.soak
def test_unit_list_may_exceed_the_environment_size_limit(tmp_path: Path) -> None:
    """All ids together are more than the 128 KiB that one environment variable takes."""
    (tmp_path / "test_many.py").write_text("""
import pathlib, pytest
@pytest.mark.parametrize("n", range(40), ids=[f"{n}" + "x" * 4000 for n in range(40)])
def test_many(n): pass
def test_flaky():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert not first
""")
    units = [f"test_many.py::test_many[{n}{'x' * 4000}]" for n in range(40)]
    plan = plan_of([*units, "test_many.py::test_flaky"], policy=replace(UNGUARDED, max_tries=2))
    leg = start_shard(tmp_path, plan).wait(0)
    assert "41 passed (1 flaky)" in leg.printed
    assert {one.try_number for one in leg.record().results if one.process == 2} == {2}


def test_failed_test_is_retried_in_a_fresh_process_with_predecessors(tmp_path: Path) -> None:
    (tmp_path / "test_flaky.py").write_text("""
import os, pathlib
def test_flaky():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert not first
def test_dies_once():
    first = not pathlib.Path("died").exists()
    pathlib.Path("died").touch()
    if first: os._exit(3)
LEFT = []
def test_leaves(): LEFT.append(1)
def test_order(): assert not LEFT
""")
    names = ("flaky", "dies_once", "leaves", "order")
    units = [f"test_flaky.py::test_{name}" for name in names]
    policy = LegPolicy(guard_rail="off", max_tries=2)
    leg = start_shard(tmp_path, plan_of(units, policy=policy)).wait(10)
    found = [(r.unit.split("_", 2)[2], r.outcome, r.try_number) for r in leg.record().results]
    assert sorted(found) == [
        ("dies_once", "died", 1),
        ("dies_once", "passed", 2),
        ("flaky", "failed", 1),
        ("flaky", "passed", 2),
        ("leaves", "passed", 1),
        ("leaves", "passed", 2),
        ("order", "failed", 1),  # alone it would pass
        ("order", "failed", 2),
    ]
    assert dict(leg.end().counts) == {"passed": 3, "failed": 1}, "the last try counts"
    assert "3 passed, 1 failed (2 flaky)" in leg.printed
    assert "  flaky test_flaky.py::test_flaky: failed first" in leg.printed


def test_the_deadline_ends_a_leg_before_the_platform_does(tmp_path: Path) -> None:
    (tmp_path / "test_long.py").write_text("""
import time
def test_quick(): pass
def test_long(): time.sleep(60)
def test_later(): pass
""")
    units = [f"test_long.py::test_{name}" for name in ("quick", "long", "later")]
    policy = LegPolicy(guard_rail="off", deadline_s=4.0)  # pytest may start slowly
    leg = start_shard(tmp_path, plan_of(units, policy=policy)).wait(13)
    assert leg.outcomes() == {units[0]: "passed", units[1]: "died"}
    assert culprits(leg)["test_long"].ending == "deadline"
    assert leg.end().ending == "deadline"
    left = [event.unit for event in leg.record().events if event.kind == "not_run"]
    assert left == [None, units[2]]
    assert f"did not run {units[2]}" in leg.printed


def test_missing_framework_is_reported_and_ends_the_leg(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    bare = Suite("pytest", (sys.executable, "-I", "-S", "-m", "pytest"))
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a"], suites={"": bare})).wait(13)
    assert "No module named pytest" in leg.printed
    record = leg.record()
    assert [end.ending for end in record.process_ends] == ["setup_failed"] * 3
    assert leg.end().ending == "setup_failed"
    assert (
        "No module named pytest" in next(e for e in record.events if e.kind == "last_output").detail
    )


def test_missing_program_is_named(tmp_path: Path) -> None:
    suite = Suite("pytest", ("no-such-program-anywhere",))
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a"], suites={"": suite})).wait(13)
    assert "no-such-program-anywhere: No such file or directory" in leg.printed


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="the guard rail needs /proc")
def test_largest_process_is_stopped_when_memory_runs_out(tmp_path: Path) -> None:
    """The machine's memory is a file here, lowered while a test is running."""
    (tmp_path / "test_hog.py").write_text("""
import os, pathlib, time
def test_hog():
    # One write of one length: whoever reads meanwhile finds a number and not a half.
    said, held = os.open("meminfo", os.O_WRONLY), b"x" * (300 << 20)
    for available in (2000, 200, 150, 100, 50, 40, 30, 20, 10):
        text = f"MemTotal: 16000000 kB\\nMemAvailable: {available * 1024:7} kB\\n"
        os.pwrite(said, text.encode(), 0)
        time.sleep(0.1)
    time.sleep(60)
def test_other():
    pathlib.Path("meminfo").write_text("MemTotal: 16000000 kB\\nMemAvailable: 8000000 kB\\n")
""")
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\n")
    units = ["test_hog.py::test_hog", "test_hog.py::test_other"]
    policy = LegPolicy(guard_rail="auto")
    plan = plan_of(units, policy=policy)
    leg = start_shard(tmp_path, plan, program=leg_program(meminfo="'meminfo'")).wait(10)
    assert leg.outcomes() == {units[0]: "died", units[1]: "passed"}
    hog = culprits(leg)["test_hog"]
    assert hog.ending == "memory_guard"
    held = hog.peak_lower_bytes or 0
    assert held > 300 << 20, "what it had, and not what was left after its end"
    assert f", its process had {size(held)}" in (hog.message or "")
    kinds = [event.kind for event in leg.record().events]
    assert kinds.count("memory_low") == 1
    assert kinds.count("memory_guard") == 1
    until(lambda: not leg.survivors(), what="the hog is gone", timeout_s=5)


@pytest.mark.soak
def test_process_ended_by_pytest_timeout_is_a_timeout(tmp_path: Path) -> None:
    """Its method "thread", the only one on Windows, leaves by os._exit(1)."""
    (tmp_path / "test_slow.py").write_text(
        "import time\ndef test_hangs(): time.sleep(600)\ndef test_behind(): pass\n"
    )
    units = [f"test_slow.py::test_{name}" for name in ("hangs", "behind")]
    args = ("--timeout=1", "--timeout-method=thread")
    plan = plan_of(units, suites={"": replace(PYTEST, args=args)}, timeout_s=300.0)
    leg = start_shard(tmp_path, plan).wait(10)
    hangs, after = (finals(leg.record().results)[unit] for unit in units)
    assert (hangs.outcome, hangs.ending, after.outcome) == ("died", "timeout", "passed")
    message = hangs.message or ""
    assert message.startswith("stopped by its own limit (exit code 1)\n")
    assert "in test_hangs" in message, "where it stood"


@pytest.mark.soak
def test_timeout_applies_to_a_test_that_swallows_the_interrupt(tmp_path: Path) -> None:
    """And what failed before in its process is shown although the process has no end to show it."""
    (tmp_path / "test_deaf.py").write_text("""
import os, time
def test_fails():
    print("precious")
    assert [1] == [2]
def test_deaf():
    try: time.sleep(60)
    except BaseException: return
def test_behind(): pass
def test_fails_too(): assert "seen" == "kept"
def test_leaves(): os._exit(3)
""")
    names = ("fails", "deaf", "behind", "fails_too", "leaves")
    limits = {"deaf": 0.5}
    units = [PlannedUnit(f"test_deaf.py::test_{n}", timeout_s=limits.get(n)) for n in names]
    plan = plan_of(units)
    leg = start_shard(tmp_path, plan).wait(10)
    deaf = culprits(leg)["test_deaf"]
    assert (deaf.ending, deaf.try_number) == ("timeout", 1)
    assert dict(leg.end().counts) == {"passed": 1, "failed": 2, "died": 2}
    made = decode((tmp_path / "plan.json").read_bytes(), "plan.json")
    verdict = prove(made, read_record_tree(leg.record_folder))
    assert {one.result.unit for one in verdict.failures} == {
        units[place].unit for place in (0, 1, 3, 4)
    }
    assert "timeout: over its limit of 0.5 s: test_deaf.py::test_deaf\n" in leg.printed
    shown = [line.lstrip("> ") for line in leg.printed.splitlines() if line.startswith(">")]
    assert shown.count("assert [1] == [2]") == 1, "the session came to its end"
    assert sum("def test_fails_too" in line for line in shown) == 1, "this one did not"
    assert "precious" in (leg.record_folder / "process-001.failures.txt").read_text()


@pytest.mark.soak
def test_other_files_run_despite_a_file_that_crashes_on_import(tmp_path: Path) -> None:
    (tmp_path / "test_bad.py").write_text(
        "import os; os._exit(0)\ndef test_a(): pass\ndef test_b(): pass\n"
    )
    (tmp_path / "test_good.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    units = [f"test_{file}.py::test_{name}" for file in ("bad", "good") for name in "ab"]
    leg = start_shard(tmp_path, plan_of(units)).wait(13)
    assert leg.outcomes() == dict.fromkeys(units[2:], "passed"), "none that began died"
    assert [one.units for one in leg.record().processes] == [4, 2, 2]
    why = "it could not be imported: a process that read no other file ended (crash, exit code 0"
    assert leg.said.count(why) == 2
    output = [one for one in leg.record().events if one.kind == "not_imported"]
    assert [one.unit for one in output] == units[:2]
    lead = "incomplete: 2 of 4 tests did not run: "
    assert f"{lead}their file ends its process before its first test\n" in leg.printed


@pytest.mark.soak
def test_crash_after_the_last_import_is_attributed_to_no_file(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("""
import os
def pytest_collection_finish(): os._exit(3)
""")
    for file in "abcd":
        (tmp_path / f"test_{file}.py").write_text("def test_a(): pass\n")
    leg = start_shard(tmp_path, plan_of([f"test_{file}.py::test_a" for file in "abcd"])).wait(13)
    assert [one.units for one in leg.record().processes] == [4, 4, 4]
    assert "not_imported" not in {one.kind for one in leg.record().events}
