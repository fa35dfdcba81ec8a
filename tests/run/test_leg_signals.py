"""A leg that is told to stop, or killed: a record that reads, and no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from run.leg_runner import (
    LEG,
    MARK,
    Leg,
    build_pyz,
    leg_program,
    no_survivor,
    pids_with,
    plan_of,
    start_shard,
    until,
)

from ciguard.model import PlannedUnit
from ciguard.run.process.reaper import tree
from ciguard.run.process.spawn import SILENT_S, SupervisedProcess

SLOW = """
import os, pathlib, subprocess, sys, time, pytest
@pytest.fixture(scope="session", autouse=True)
def daemon():
    code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code]).wait()
def test_quick(): pass
def test_slow():
    pathlib.Path("started").touch()
    time.sleep(600)
def test_later(): pass
"""
STUBBORN = SLOW.replace(
    "    time.sleep(600)\ndef test_later",
    """    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
def test_later""",
)
CANCEL = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 5.0))  # as GitHub does
UNITS = [f"test_slow.py::test_{name}" for name in ("quick", "slow", "later")]


@contextmanager
def running(
    folder: Path, text: str = SLOW, processes: int = 1, program: Sequence[str] = LEG
) -> Iterator[Leg]:
    """A leg in the middle of its slow test; gone afterwards, whatever happens."""
    (folder / "test_slow.py").write_text(text)
    leg = start_shard(folder, plan_of(UNITS, processes=processes), program=program)
    try:
        until((folder / "started").exists, what="the slow test runs")
        until(lambda: leg.count("passed") >= 1, what="the quick test's result is written")
        assert len(leg.survivors()) >= 3, "keeper, test, daemon"
        yield leg
        no_survivor(leg)
    finally:
        leg.process.kill()
        leg.process.communicate()


@pytest.mark.parametrize(
    ("number", "code", "processes"),
    [
        pytest.param(signal.SIGINT, 130, 1, marks=pytest.mark.soak),
        pytest.param(signal.SIGINT, 130, 2, marks=pytest.mark.soak),
        pytest.param(signal.SIGTERM, 143, 1, marks=pytest.mark.soak),
        (signal.SIGTERM, 143, 2),
    ],
)
def test_signal_stops_the_leg_gracefully(
    tmp_path: Path, number: int, code: int, processes: int
) -> None:
    with running(tmp_path, processes=processes) as leg:
        leg.process.send_signal(number)
        leg.wait(code, timeout_s=10)
        outcomes = leg.outcomes()
        assert outcomes["test_slow.py::test_slow"] == "died"
        assert outcomes["test_slow.py::test_quick"] == "passed"
        record = leg.record()
        (died,) = [result for result in record.results if result.outcome == "died"]
        assert died.ending == "cancelled"
        assert (leg.end().ending, leg.end().exit_code) == ("cancelled", code)
        assert [e.detail for e in record.events if e.kind == "signal"] == [
            signal.Signals(number).name
        ]


def test_cancelled_step_leaves_its_results_on_disk(tmp_path: Path) -> None:
    """The runner signals only the process that it started: the shell, which became the leg."""
    build_pyz(tmp_path / "ciguard-run.pyz")
    (tmp_path / "step.sh").write_text(f'exec "{sys.executable}" ciguard-run.pyz "$@"\n')
    with running(tmp_path, STUBBORN, program=("bash", "-e", "step.sh")) as leg:
        for number, retry_policy_s in CANCEL:
            leg.process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                leg.process.wait(retry_policy_s)
                break
        assert leg.process.returncode == 130, "it went by itself, for the first signal"
        assert leg.outcomes() == {UNITS[0]: "passed", UNITS[1]: "died"}
        assert leg.end().ending == "cancelled"
        (died,) = [result for result in leg.record().results if result.outcome == "died"]
        # By SIGKILL, or by itself if the signal came before the test ignored it.
        assert "the job was told to stop" in (died.message or "")


def test_second_signal_ends_the_leg_immediately(tmp_path: Path) -> None:
    with running(tmp_path, STUBBORN) as leg:
        leg.process.send_signal(signal.SIGINT)
        leg.process.send_signal(signal.SIGTERM)
        until(lambda: leg.process.poll() is not None, what="the leg ends", timeout_s=2.5)
        leg.wait()
        assert leg.process.returncode in (130, 143), "signals that wait together have no order"


def test_killed_leg_leaves_its_record_and_no_process(tmp_path: Path) -> None:
    """Its tests die first where the kernel runs out of memory."""
    with running(tmp_path) as leg:
        if Path("/proc/self/oom_score_adj").exists():
            (process,) = leg.record().processes
            pids = tree(process.pid or 0)
            assert pids
            scores = {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids}
            assert scores == {1000}
        leg.process.kill()
        leg.wait(-signal.SIGKILL)
        record = leg.record()
        assert record.end is None, "that is how it is told from a leg that ended"
        assert record.damage == ()
        assert [start.unit for start in record.starts] == UNITS[:2]
        assert leg.outcomes() == {UNITS[0]: "passed"}


def test_killed_reaper_is_a_crash_and_the_rest_runs(tmp_path: Path) -> None:
    """Of several nobody is blamed: the one that runs may not be the one that killed."""
    (tmp_path / "test_slow.py").write_text("""
import os, signal, subprocess, sys, time
def test_kills_and_passes():
    os.kill(os.getppid(), signal.SIGKILL)
def test_innocent(): time.sleep(1)
def test_quick():
    code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code]).wait()
def test_slow():
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    time.sleep(600)
def test_later(): pass
""")
    more = ["test_slow.py::test_kills_and_passes", "test_slow.py::test_innocent"]
    leg = start_shard(tmp_path, plan_of([*more, *UNITS])).wait(10)
    passed = [more[1], UNITS[0], UNITS[2]]
    outcomes = leg.outcomes()
    killer = outcomes.pop(more[0])
    assert killer in ("passed", "died"), "the signal or the result comes first"
    assert outcomes == {**dict.fromkeys(passed, "passed"), UNITS[1]: "died"}
    assert "its reaper was killed" in leg.printed
    ends = [one for one in leg.verdict().findings if one.kind == "reaper_killed"]
    first = next(one for one in ends if one.facts["process"] == 1)
    assert first.level == "warning", "nothing is lost: the others run again"
    assert more[0] in [key.unit for key in first.culprits], "it may have passed since"
    if killer == "died":
        assert {one.level for one in ends} == {"warning"}, "each end has its result"


def test_reaper_killed_in_the_last_test_fails_the_run_and_names_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_kills.py").write_text("""
import os, signal
def test_before(): pass
def test_kills(): os.kill(os.getppid(), signal.SIGKILL)
""")
    plan = plan_of(["test_kills.py::test_before", "test_kills.py::test_kills"])
    leg = start_shard(tmp_path, plan).wait(10)
    verdict = leg.verdict()
    assert verdict.state == "failed"
    first, *_ = [one for one in verdict.findings if one.kind == "reaper_killed"]
    assert first.level == ("warning" if verdict.failures else "failed"), "killed first, or passed"
    assert first.culprits[0].unit == "test_kills.py::test_kills"
    assert "unexplained_exit" not in [one.kind for one in verdict.findings], "once is enough"


@pytest.mark.skipif(sys.platform != "linux", reason="a parent's end is told on Linux alone")
def test_stopped_reaper_does_not_outlive_a_killed_leg(tmp_path: Path) -> None:
    slow = SLOW.replace('Path("started")', 'Path(os.kill(os.getppid(), 19) or "started")')
    with running(tmp_path, slow) as leg:
        leg.process.kill()
        leg.wait(-signal.SIGKILL)


def test_reaper_that_stays_stopped_is_killed_with_its_processes(tmp_path: Path) -> None:
    environ = {**os.environ, MARK: str(tmp_path)}
    process = SupervisedProcess(["sleep", "600"], environ, ".", str(tmp_path / "log"))

    def started() -> bool:
        process.poll()
        return process.pid is not None

    until(started, what="the start is known")  # before, pytest, no subreaper, would not find it
    end = threading.Event()

    def keeps_stopping() -> None:
        while not end.is_set():
            with suppress(ProcessLookupError):
                os.kill(process.root, signal.SIGSTOP)

    thread = threading.Thread(target=keeps_stopping)
    thread.start()
    try:
        process.stop(0.0, immediately=True)
        process.escalate(SILENT_S)

        def ended() -> bool:
            process.poll()
            return process.ended is not None

        until(ended, what="its end is known")
    finally:
        end.set()
        thread.join()
        process.close()
    until(lambda: not pids_with(str(tmp_path)), what="nothing is left")


@pytest.mark.soak
def test_slow_process_start_does_not_delay_a_timeout(tmp_path: Path) -> None:
    """The second interpreter waits until the first process's test has exceeded its limit."""
    (tmp_path / "python").write_text(f"""#!/bin/sh
case $CIGUARD_RECORD_FILE in
*process-002*) until grep -q '"timeout"' record/supervisor.jsonl; do sleep 0.05; done ;;
esac
exec "{sys.executable}" "$@"
""")
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "test_a.py").write_text("import time\ndef test(): time.sleep(600)\n")
    (tmp_path / "test_b.py").write_text("def test(): pass\n")
    units = [PlannedUnit("test_a.py::test", timeout_s=0.5), PlannedUnit("test_b.py::test")]
    plan = plan_of(units, processes=2)
    leg = start_shard(
        tmp_path, plan, program=leg_program('sys.executable = os.path.abspath("python")')
    ).wait(10)
    assert leg.outcomes() == {"test_a.py::test": "died", "test_b.py::test": "passed"}
    assert [end.ending for end in leg.record().process_ends] == ["timeout", "completed"]


def test_killed_reaper_does_not_end_processes_of_others(tmp_path: Path) -> None:
    """A step's shell starts a server, and becomes the leg by `exec`: its child is the leg's."""
    (tmp_path / "test_slow.py").write_text("""
import os, signal, time
def test_slow():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)
""")
    script = 'sleep 600 >&- 2>&- & echo $! >server; exec "$0" -m ciguard run "$@"'
    program = ("bash", "-c", script, sys.executable)
    leg = start_shard(tmp_path, plan_of(UNITS[1:2]), program=program).wait(10, leaves=True)
    server = int((tmp_path / "server").read_text())
    assert "its reaper was killed" in leg.printed
    assert leg.survivors() == [server]
    os.kill(server, signal.SIGKILL)
