"""Processes that fail without a failed result, run no body or start twice: why, in words."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from run.leg_runner import PYTEST, Leg, leg_program, plan_of, start_shard

from ciguard.model import LegPolicy, PlannedUnit, Suite
from ciguard.run.policy import rules

GATE = "def pytest_sessionfinish(session, exitstatus):\n    session.exitstatus = {code}\n"
WRITES = """
import json, os, sys, time
def say(**line):
    with open(os.environ["CIGUARD_RECORD_FILE"], "a") as record:
        record.write(json.dumps(line) + chr(10))
units = open(os.environ["CIGUARD_UNITS_FILE"]).read().split()
"""
PASSES = WRITES + 'for unit in units: say(type="result", unit=unit, outcome="passed")\n'


def unexplained(leg: Leg) -> list[tuple[int | None, str]]:
    return [
        (event.process, event.detail)
        for event in leg.record().events
        if event.kind == "unexplained_exit"
    ]


def causes(leg: Leg) -> dict[str, tuple[str, str]]:
    kinds = ("not_imported", "not_found", "deselected", "not_reached", "no_result")
    events = leg.record().events
    return {one.unit or "": (one.kind, one.detail) for one in events if one.kind in kinds}


def command_leg(folder: Path, code: str, *, units: str = "ab", tries: int = 1) -> Leg:
    suite = Suite("command", (sys.executable, "-c", code))
    planned = [PlannedUnit(unit, suite="s") for unit in units]
    policy = LegPolicy(guard_rail="off", max_tries=tries)
    plan = plan_of(planned, suites={"s": suite}, policy=policy)
    return start_shard(folder, plan).wait()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, ()),
        pytest.param(1, ("-n", "2"), marks=pytest.mark.soak),
        pytest.param(3, (), marks=pytest.mark.soak),
    ],
)
def test_exit_status_set_by_a_hook_makes_the_leg_red(
    tmp_path: Path, code: int, words: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text(GATE.format(code=code))
    (tmp_path / "test_a.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    suite = replace(PYTEST, args=words)
    plan = plan_of(["test_a.py::test_a", "test_a.py::test_b"], suites={"": suite})
    leg = start_shard(tmp_path, plan).wait(10)
    assert set(leg.outcomes().values()) == {"passed"}
    ((process, detail),) = unexplained(leg)
    assert process == 1
    assert detail.startswith(f"exit code {code}\n2 passed in ")
    lines = leg.printed.splitlines()
    first = lines.index(f"process 1: exit code {code}, and no failed result explains it")
    assert lines[first + 1].startswith("  its last output: 2 passed in ")
    assert lines[first + 2] == "  did a hook of the session or a coverage gate set it?"
    assert "2 passed in" in leg.printed.splitlines()[-1]
    assert leg.printed.splitlines()[-1].endswith("; 1 process failed without a failed result")


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ('print("3 style errors"); sys.exit(1)', "exit code 1\n3 style errors"),
        ('print("3 style errors\\nbye"); sys.exit(7)', "exit code 7\n3 style errors / bye"),
        ("sys.stdout.flush(); os.kill(os.getpid(), 11)", "killed by SIGSEGV\nnothing"),
    ],
)
def test_command_that_fails_after_its_last_result_fails_the_leg(
    tmp_path: Path, ending: str, words: str
) -> None:
    leg = command_leg(tmp_path, PASSES + ending)
    assert leg.process.returncode == 10
    assert unexplained(leg) == [(1, words)]
    assert leg.record().end is not None


def test_failed_result_explains_the_exit_code_of_its_process(tmp_path: Path) -> None:
    """Tried again in a second process, which passes: the first one's exit code is explained."""
    code = WRITES + (
        'first = os.environ["CIGUARD_PROCESS"] == "1"\n'
        'outcome = "failed" if first else "passed"\n'
        'for unit in units: say(type="result", unit=unit, outcome=outcome)\n'
        "sys.exit(first)\n"
    )
    leg = command_leg(tmp_path, code, tries=2)
    assert leg.process.returncode == 0
    assert unexplained(leg) == []
    rerun = command_leg(new(tmp_path, "again"), code.replace("exit(first)", "exit(1)"), tries=2)
    assert rerun.process.returncode == 10
    assert [process for process, _ in unexplained(rerun)] == [2]


LATE = """
import os
def pytest_unconfigure(): os.kill(os.getpid(), 11)
"""


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (LATE, "killed by SIGSEGV"),
        pytest.param(GATE.format(code=3), "exit code 3", marks=pytest.mark.soak),
    ],
)
def test_a_failed_test_does_not_explain_a_crash(tmp_path: Path, hook: str, words: str) -> None:
    """What excuses the test would excuse the crash behind it."""
    (tmp_path / "conftest.py").write_text(hook)
    (tmp_path / "test_a.py").write_text("def test_a(): assert 0\ndef test_b(): pass\n")
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a", "test_a.py::test_b"])).wait(10)
    assert leg.outcomes() == {"test_a.py::test_a": "failed", "test_a.py::test_b": "passed"}
    ((process, detail),) = unexplained(leg)
    assert (process, detail.startswith(words)) == (1, True)
    assert f"process 1: {words}, and no failed result explains it" in leg.printed


def new(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def test_units_missing_in_the_checkout_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    units = ["test_a.py::test_a", "test_a.py::test_old", "gone/test_b.py::test_b"]
    leg = start_shard(tmp_path, plan_of(units)).wait(13)
    why = ("not_found", "it was not found by pytest in this checkout")
    assert causes(leg) == dict.fromkeys(units[1:], why)
    assert "2 tests did not run" in leg.printed


def test_unit_that_a_flag_deselects_is_told_with_the_flag(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    suite = replace(PYTEST, args=("-k", "test_a and not test_b"))
    plan = plan_of(["test_a.py::test_a", "test_a.py::test_b"], suites={"": suite})
    leg = start_shard(tmp_path, plan).wait(13)
    why = "it was collected, then deselected by -k 'test_a and not test_b'"
    assert causes(leg) == {"test_a.py::test_b": ("deselected", why)}


def test_unit_not_reached_by_the_framework_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): assert 0\ndef test_b(): pass\n")
    plan = plan_of(
        ["test_a.py::test_a", "test_a.py::test_b"], suites={"": replace(PYTEST, args=("-x",))}
    )
    leg = start_shard(tmp_path, plan).wait(13)
    why = "its process ended with exit code 1 before it started: stopping after 1 failures"
    assert causes(leg) == {"test_a.py::test_b": ("not_reached", why)}
    assert unexplained(leg) == []


@pytest.mark.parametrize(
    ("writes", "more"),
    [
        ("", ""),
        (
            'say(type="result", unit="a", outcome="ok")',
            " (line 2 of process-001.jsonl cannot be read: outcome: expected one of passed, "
            "failed, errored, skipped, died; found 'ok')",
        ),
    ],
)
def test_command_without_results_is_the_reason(tmp_path: Path, writes: str, more: str) -> None:
    leg = command_leg(tmp_path, WRITES + writes, units="a")
    assert leg.process.returncode == 13
    why = f"the command wrote no result for it to $CIGUARD_RECORD_FILE{more}"
    assert causes(leg) == {"a": ("no_result", why)}
    assert f"did not run [s] a{':' * (not more)} {why}" in leg.said


def test_output_of_a_failed_start_is_quoted_for_each_unit(tmp_path: Path) -> None:
    leg = command_leg(tmp_path, 'raise SystemExit("no licence")')
    assert leg.process.returncode == 13
    why = "its process ended before its first result (exit code 1): no licence"
    assert f"  did not run [s] a\n    {why}\n" in leg.printed


@pytest.mark.soak
def test_exit_inside_a_unit_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("""
import pytest
def test_a(): pytest.exit("enough", 0)
def test_b(): pass
""")
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a", "test_a.py::test_b"])).wait(10)
    assert "died (crash) test_a.py::test_a: Exit('enough') (exit code 0)\n" in leg.printed


def test_message_of_a_crash_starts_with_the_last_output(tmp_path: Path) -> None:
    leg = command_leg(
        tmp_path, WRITES + 'say(type="start", unit="a"); print("enough"); sys.exit(0)', units="a"
    )
    (culprit,) = leg.record().results
    first = (culprit.message or "").partition("\n")[0]
    assert first == "the process died (exit code 0); last output: enough"


def test_results_without_times_are_timed_by_the_leg(tmp_path: Path) -> None:
    code = WRITES + (
        "for unit, s in zip(units, (0.1, 0.4, 0.8)):\n"
        '    time.sleep(s); say(type="result", unit=unit, outcome="passed")\n'
    )
    leg = command_leg(tmp_path, code, units="abc")
    results = leg.record().results
    assert all(result.at_s and result.wall_s for result in results)
    (process,) = leg.record().processes
    life_s = (results[-1].at_s or 0.0) - (process.at_s or 0.0)
    assert life_s >= 1.2, "what the three slept, however late the leg heard of each"
    assert sum(result.wall_s or 0.0 for result in results) == pytest.approx(life_s, abs=1e-4)
    (end,) = leg.record().process_ends
    assert (results[-1].at_s or 0.0) <= (end.at_s or 0.0)


def test_durations_measured_by_the_program_are_unchanged(tmp_path: Path) -> None:
    reported = {"type": "result", "outcome": "passed", "wall_s": 7.0}
    code = WRITES + f"for unit in units: say(unit=unit, **{json.dumps(reported)})\n"
    leg = command_leg(tmp_path, code)
    assert [(one.wall_s, one.at_s) for one in leg.record().results] == [(7.0, None)] * 2
    assert "received" not in {event.kind for event in leg.record().events}


# A leg that waits for what would not end as long as a test can.
HURRIED = """
from ciguard.run import exit_handler
from ciguard.run.policy import rules
rules.EXIT_S, rules.THREAD_S, exit_handler.AFTER_TESTS_S = 1.0, (0.5, 0.5), 0.5
"""
PATIENT = leg_program(HURRIED.replace("= 1.0,", "= 300.0,"))  # but not with threads


THREADS = """
import threading, time
def run(): time.sleep(600)
def start(daemon, name): threading.Thread(target=run, daemon=daemon, name=name).start()
def test_before():
    start(True, "spared")
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    thread.join()
def test_leaves_a_thread(): start(False, "left over")
def test_behind(): start(True, "spared too")
"""


@pytest.mark.soak
def test_file_whose_import_hangs_is_stopped_and_named(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(
        "import time\ntime.sleep(600)\ndef test_a(): pass\ndef test_b(): pass\n"
    )
    units = ["test_hangs.py::test_a", "test_hangs.py::test_b"]
    plan = plan_of(units, timeout_s=1.0)
    hurried = start_shard(tmp_path, plan, program=leg_program(HURRIED))
    leg = replace(hurried, is_plain=False).wait(13)  # its rules have other times
    assert leg.outcomes() == {}
    assert [end.ending for end in leg.record().process_ends] == ["timeout"] * 2
    assert "test_hangs.py: it ends its process before the first test" in leg.printed


def test_process_that_does_not_exit_is_stopped_and_fails_the_leg(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that never ends: all results are there, and pytest would wait for ever."""
    (tmp_path / "test_thread.py").write_text(THREADS)
    units = [f"test_thread.py::test_{name}" for name in ("before", "leaves_a_thread", "behind")]
    plan = plan_of(units)
    monkeypatch.setattr(rules, "THREAD_S", (0.5, 0.5))
    leg = start_shard(tmp_path, plan, program=PATIENT).wait(10)
    assert leg.outcomes() == dict.fromkeys(units, "passed")
    assert "timeout: its tests ended 0.5 s" in leg.printed
    assert "most recent call first" in leg.printed, "where"
    (end,) = leg.record().process_ends
    assert end.ending == "timeout"
    left = "left over of test_thread.py::test_leaves_a_thread"
    assert f"s after its last test: stopped, as it did not end: {left}\n" in leg.printed
    assert "and no failed result explains it" not in leg.printed, "this does"
    verdict = leg.verdict()
    assert [(one.level, one.kind) for one in verdict.findings] == [("failed", "no_exit")]
    assert verdict.findings[0].facts["threads"] == left


def test_process_that_the_deadline_ends_after_its_tests_is_named(tmp_path: Path) -> None:
    """All has passed, and what hung afterwards would hang in the next run too."""
    unit = "test_waits.py::test_passes"
    (tmp_path / "test_waits.py").write_text("""import atexit, time
def test_passes(): atexit.register(time.sleep, 600)
""")
    plan = plan_of([unit], policy=LegPolicy(guard_rail="off", deadline_s=5.0))
    leg = start_shard(tmp_path, plan, program=PATIENT).wait(0)
    assert leg.outcomes() == {unit: "passed"}
    (finding,) = leg.verdict().findings
    assert (finding.level, finding.kind) == ("warning", "no_exit")
    assert "s after its last test: stopped, as it did not end\n" in leg.printed


def test_thread_left_over_blames_no_file_that_could_not_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for the file of the one test that the process had not come to."""
    (tmp_path / "test_broken.py").write_text("import no_such_module_here\n")
    (tmp_path / "test_thread.py").write_text(THREADS)
    units = ["test_thread.py::test_leaves_a_thread", "test_broken.py::test_a"]
    plan = plan_of(units, timeout_s=0.5)
    monkeypatch.setattr(rules, "THREAD_S", (0.5, 0.5))
    leg = start_shard(tmp_path, plan, program=PATIENT).wait(13)
    assert leg.outcomes() == {units[0]: "passed"}
    (cause,) = causes(leg).values()
    assert cause == (
        "not_imported",
        "it could not be imported: ModuleNotFoundError: No module named 'no_such_module_here'",
    )
    assert len(leg.record().processes) == 1, "no search for what hangs"
    assert {one.kind for one in leg.verdict().findings} == {"not_imported", "no_exit"}


@pytest.mark.parametrize(
    ("hook", "reason", "words"),
    [
        ("sessionfinish", "session_teardown", "session teardown (hooks, coverage)"),
        pytest.param("unconfigure", "process_exit", "process exit", marks=pytest.mark.soak),
    ],
)
def test_time_behind_the_last_test_is_accounted_for(
    tmp_path: Path, hook: str, reason: str, words: str
) -> None:
    (tmp_path / "conftest.py").write_text(f"import time\ndef pytest_{hook}(): time.sleep(1)\n")
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    leg = start_shard(tmp_path, plan_of(["test_a.py::test_a"]), program=PATIENT).wait(0)
    (event,) = [one for one in leg.record().events if one.kind == "after_tests"]
    assert (event.process, event.reason, event.detail) == (1, reason, "")
    assert event.facts["wall_s"] >= 1
    assert f"  {event.facts['wall_s']:.0f} s after its last test: {words}\n" in leg.printed


ONE_AFTER_THE_OTHER = """#!/bin/sh
{python} -m pytest a "$@"
{python} -m pytest b "$@" || true
"""
TWICE = """#!{python}
import sys
import pytest
for _ in range(2):
    pytest.main(["a", *sys.argv[1:]])
"""
UNTIL_IT_PASSES = """#!/bin/sh
{python} -m pytest a "$@" || {python} -m pytest a "$@"
"""


@pytest.mark.parametrize(
    ("script", "folders", "body"),
    [
        (ONE_AFTER_THE_OTHER, "ab", "pass"),
        pytest.param(TWICE, "a", "pass", marks=pytest.mark.soak),
        (UNTIL_IT_PASSES, "a", "import os; os.mkdir('seen')\n    assert os.path.exists('twice')"),
    ],
    ids=["one after the other", "twice", "until it passes"],
)
def test_two_sessions_for_one_batch_are_rejected(
    tmp_path: Path, script: str, folders: str, body: str
) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(f"def test_one():\n    {body}\n")
    (tmp_path / "test.sh").write_text(script.format(python=sys.executable))
    (tmp_path / "test.sh").chmod(0o755)
    plan = plan_of(
        [f"{folder}/test_{folder}.py::test_one" for folder in folders],
        suites={"": replace(PYTEST, command=("./test.sh",))},
    )
    leg = start_shard(tmp_path, plan).wait(13)

    assert leg.end().ending == "setup_failed"
    assert "setup_failed: the suite's command started its framework twice" in leg.printed


UNITS = ("test_bad.py::test_one", "test_bad.py::test_two")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("through", "option", "workers"),
    [
        ("addopts", "--setup-only", ()),
        ("addopts", "--setuponly", ()),
        ("addopts", "--setupplan", ()),
        ("args", "--setup-plan", ()),
        ("args", "--setup-only", ("-n", "2")),
        ("environment", "--collect-only", ()),
    ],
)
def test_setting_under_which_no_test_executes_is_refused(
    tmp_path: Path, through: str, option: str, workers: tuple[str, ...]
) -> None:
    (tmp_path / "test_bad.py").write_text("def test_one(): assert 0\ndef test_two(): assert 0\n")
    addopts = option if through == "addopts" else ""
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {addopts}\n")
    suite = replace(PYTEST, args=(*workers, option) if through == "args" else workers)
    environ = {"PYTEST_ADDOPTS": option} if through == "environment" else {}
    leg = start_shard(tmp_path, plan_of(UNITS, suites={"": suite}), **environ).wait(13)

    assert leg.record().results == ()
    place = {"args": "", "addopts": "pytest.ini: ", "environment": "PYTEST_ADDOPTS: "}[through]
    assert f"with {place}{option} pytest executes no test" in leg.printed
    events = {(one.kind, one.detail) for one in leg.record().events}
    assert ("execution", f"{place}{option}") in events
