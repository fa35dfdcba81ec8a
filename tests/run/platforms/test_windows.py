"""A real leg of CPython for Windows: on Windows, or under Wine, as far as that goes.

Wine (64 bit, on PATH) needs CIGUARD_WINDOWS_PYTHON, the path of a python.exe that has pytest.
Wine's own limits: it sends no Ctrl-Break to a group, and counts neither CPU time nor peak of a job.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from run.leg_runner import Leg, build_pyz, plan_of, start_shard, until

from ciguard.model import PlannedUnit, Suite

IS_WINDOWS = os.name == "nt"
PYTHON = sys.executable if IS_WINDOWS else os.environ.get("CIGUARD_WINDOWS_PYTHON", "")
WINE = shutil.which("wine")
DRIVE = "" if IS_WINDOWS else "Z:"

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        not IS_WINDOWS and not (PYTHON and WINE), reason="no Wine, or no Python for Windows"
    ),
]

TESTS = """
import faulthandler, os, pathlib, signal, subprocess, sys, time
def test_first(): print("caf\\xe9")
def test_access_violation():
    faulthandler.disable()
    faulthandler._read_null()
def test_leaves(): os._exit(0)
def test_fails(): assert 0
def test_hangs():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
def test_daemon():
    quiet = subprocess.DEVNULL
    flags = subprocess.DETACHED_PROCESS | subprocess.CREATE_NEW_PROCESS_GROUP
    code = "import time; time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=quiet, creationflags=flags)
    pathlib.Path("daemon").write_text(str(child.pid))
def test_held():
    kept = b"x" * (60 << 20)
    time.sleep(2)
def test_break():
    signal.raise_signal(signal.SIGBREAK)
    time.sleep(600)
def test_last():
    # 259 is what a process that lives has for an exit code: the daemon has another by now.
    import ctypes
    kernel32, code = ctypes.WinDLL("kernel32"), ctypes.c_uint32(259)
    kernel32.OpenProcess.restype = ctypes.c_void_p
    pid = int(pathlib.Path("daemon").read_text())
    process = kernel32.OpenProcess(0x1000, 0, pid)
    if process:
        kernel32.GetExitCodeProcess(ctypes.c_void_p(process), ctypes.byref(code))
    assert not process or code.value == 0x40010004
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """The leg's program; Wine's own server, which outlives it, is ended behind the tests."""
    folder = tmp_path_factory.mktemp("wine")
    python = (PYTHON, "-I", "-S", str(build_pyz(folder / "ciguard-run.pyz")))
    if IS_WINDOWS:
        yield python
        return
    before = {name: os.environ.get(name) for name in ("WINEPREFIX", "WINEDEBUG")}
    os.environ.update(WINEPREFIX=str(folder / "prefix"), WINEDEBUG="-all")
    assert WINE is not None
    quiet = subprocess.DEVNULL
    for words in (("wineboot", "-i"), ("winecfg", "-v", "win10")):
        subprocess.run([WINE, *words], stdin=quiet, stdout=quiet, stderr=quiet, check=False)
    yield (WINE, *python)
    subprocess.run(["wineserver", "-k"], check=False)
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def started(
    folder: Path, program: tuple[str, ...], units: list[PlannedUnit], processes: int
) -> Leg:
    (folder / "test_any.py").write_text(TESTS, "utf-8")
    suite = Suite("pytest", (f"{DRIVE}{PYTHON}", "-m", "pytest", "-p", "no:cacheprovider"))
    plan = plan_of(units, suites={"": suite}, processes=processes)
    return start_shard(folder, plan, program=program)


@pytest.mark.parametrize("processes", [1, 2])
def test_leg_on_windows(tmp_path: Path, program: tuple[str, ...], processes: int) -> None:
    outcomes = {
        "first": "passed",
        "access_violation": "died",
        "leaves": "died",
        "fails": "failed",
        "hangs": "died",
        "daemon": "passed",
        "held": "passed",
        "break": "died",
        "last": "passed",
    }
    units = [
        PlannedUnit(f"test_any.py::test_{name}", timeout_s=3.0 if name == "hangs" else None)
        for name in outcomes
    ]
    leg = started(tmp_path, program, units, processes).wait(10, timeout_s=280)
    found = {unit.split("test_")[2]: outcome for unit, outcome in leg.outcomes().items()}
    if processes == 2:  # the daemon's process may still run when the last test asks for it
        found["last"] = "passed"
    assert found == outcomes, leg.printed
    record = leg.record()
    died = {r.unit.split("test_")[2]: r for r in record.results if r.outcome == "died"}
    assert "access violation (exit code 0xC0000005)" in (died["access_violation"].message or "")
    assert died["hangs"].ending == "timeout"
    assert 0x40010004 in {end.exit_code for end in record.process_ends}, "its job was terminated"
    assert max(end.peak_bytes or 0 for end in record.process_ends) > 60 << 20, "committed"
    assert all(sample.headroom_bytes for sample in record.samples)
    assert [event.kind for event in record.events if event.process is None] == []
    assert record.damage == ()


@pytest.mark.skipif(IS_WINDOWS, reason="finds the processes of Wine in /proc")
def test_killed_leg_ends_its_job_object(tmp_path: Path, program: tuple[str, ...]) -> None:
    units = [PlannedUnit("test_any.py::test_first"), PlannedUnit("test_any.py::test_hangs")]
    leg = started(tmp_path, program, units, 1)
    until(lambda: leg.count("passed") == 1, what="the first test has passed", timeout_s=120)
    until(lambda: len(windows_pythons(leg)) == 2, what="leg and test run", timeout_s=60)
    for pid in windows_pythons(leg):
        if b"ciguard-run.pyz" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    until(lambda: not windows_pythons(leg), what="its job is gone", timeout_s=20)
    leg.wait()
    record = leg.record()
    assert record.end is None
    assert record.damage == ()


@pytest.mark.skipif(
    not (Path(PYTHON).parent / "Lib/site-packages/xdist").is_dir(), reason="no pytest-xdist there"
)
def test_xdist_run_with_a_dying_worker(tmp_path: Path, program: tuple[str, ...]) -> None:
    (tmp_path / "site").mkdir()
    # Wine 8 crashes where `platform` asks WMI, which xdist's workers make it do.
    site = "import sys; sys.modules['_wmi'] = None"
    (tmp_path / "site" / "sitecustomize.py").write_text(site)
    (tmp_path / "test_any.py").write_text("""
import os, time, pytest
@pytest.mark.parametrize("n", range(8))
def test_sleeps(n): time.sleep(0.1)
def test_leaves(): os._exit(3)
""")
    sleeps = [f"test_any.py::test_sleeps[{n}]" for n in range(8)]
    suite = Suite(
        "pytest",
        (f"{DRIVE}{PYTHON}", "-m", "pytest", "-p", "no:cacheprovider"),
        args=("-n", "2"),
        env={"PYTHONPATH": f"{DRIVE}{tmp_path}/site"},
    )
    plan = plan_of([*sleeps, "test_any.py::test_leaves"], suites={"": suite})
    leg = start_shard(tmp_path, plan, program=program).wait(10, timeout_s=280)
    assert leg.outcomes() == {**dict.fromkeys(sleeps, "passed"), "test_any.py::test_leaves": "died"}
    assert leg.record().damage == ()
    assert len(list(leg.record_folder.glob("process-*-gw*.jsonl"))) >= 2


def windows_pythons(leg: Leg) -> list[int]:
    """Processes of the leg that run python.exe."""
    found = []
    for pid in [*leg.survivors(), leg.process.pid]:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"python.exe" in words and b"wineserver" not in words:
            found.append(pid)
    return found
