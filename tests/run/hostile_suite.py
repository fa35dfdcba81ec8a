"""A suite in which nearly everything goes wrong, what is right to say of each unit, and a machine.

The machine's memory is a file here: as much as a small machine has, less what the leg's processes
really hold, so that the guard rail sees memory run out and come back without the real one doing so.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from run.leg_runner import PYTEST, Leg, leg_program, plan_of, start_shard

from ciguard.codec import plan_file as plan_codec
from ciguard.model import LegPolicy, Plan, PlannedUnit, Record, Result
from ciguard.run.process.reaper import tree

MIB = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LEAKS, QUICK = 40, 1000
FLOOD_BYTES = 200 * MIB

SUITE = f"""
import ctypes, os, pathlib, signal, subprocess, sys, time
import pytest

kept = []

def some(n): return [pytest.param(i, id=str(i)) for i in range(n)]

@pytest.mark.parametrize("n", some({LEAKS}))
def test_leak(n):
    kept.append(b"x" * {12 * MIB})
    time.sleep(0.005)

def test_spike():
    held = b"x" * {512 * MIB}
    time.sleep(0.03)

def test_segfault(): ctypes.string_at(0)

def test_leaves(): os._exit(0)

def test_kills_itself(): os.kill(os.getpid(), signal.SIGKILL)

def test_loops():
    while True: pass

def test_sleeps_in_c():
    # A lock that its own thread holds: no signal handler of Python's gets a turn.
    lock = ctypes.create_string_buffer(128)
    library = ctypes.PyDLL(None)
    library.pthread_mutex_lock(lock)
    library.pthread_mutex_lock(lock)

def test_daemon():
    code = "import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)

def test_children():
    code = "import time; held = b'x' * {100 * MIB}; time.sleep(0.1)"
    children = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(2)]
    assert [child.wait() for child in children] == [0, 0]

def test_flood():
    for _ in range({FLOOD_BYTES // MIB}):
        os.write(1, b"{"x" * 127}\\n" * {MIB // 128})

def test_closes(): os.closerange(3, 256)

def test_kills_the_group():
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    time.sleep(600)

def test_flaky():
    first = not pathlib.Path("seen").exists()
    pathlib.Path("seen").touch()
    assert not first

def test_hog():
    for _ in range({8192 // 8}):  # an end all the same, for the machine that is really there
        kept.append(b"x" * {8 * MIB})
        time.sleep(0.004)

@pytest.mark.parametrize("n", some({QUICK}))
def test_quick(n): pass
"""

END = {
    "spike": ("passed", "completed"),
    "segfault": ("died", "crash"),
    "leaves": ("died", "crash"),
    "kills_itself": ("died", "crash"),
    "loops": ("died", "timeout"),
    "sleeps_in_c": ("died", "timeout"),
    "daemon": ("passed", "completed"),
    "children": ("passed", "completed"),
    "flood": ("passed", "completed"),
    "closes": ("passed", "completed"),
    "kills_the_group": ("died", "crash"),
    "flaky": ("passed", "completed"),
    "hog": ("died", "memory_guard"),
}


def unit_of(name: str) -> str:
    return f"test_hostile.py::test_{name}"


@dataclass(frozen=True)
class Shape:
    """How the suite is run: processes of the leg, workers of xdist in each (0: none), tries."""

    processes: int
    workers: int
    tries: int

    @property
    def machine_bytes(self) -> int:
        """Enough for all tests but the one that takes all."""
        return (2048 + 256 * self.processes * (1 + self.workers)) * MIB


def expected(shape: Shape) -> dict[str, tuple[str, str]]:
    """By unit, its outcome and ending in its last try."""
    fine = [f"leak[{n}]" for n in range(LEAKS)] + [f"quick[{n}]" for n in range(QUICK)]
    found = {unit_of(name): END.get(name, ("passed", "completed")) for name in [*END, *fine]}
    if shape.workers:  # one of the descriptors was the worker's way to the others
        found[unit_of("closes")] = ("died", "crash")
    if shape.tries == 1:
        found[unit_of("flaky")] = ("failed", "completed")
    return found


def hostile_plan(shape: Shape) -> Plan:
    """All of the suite in one shard; the deadly ones stand among the quick ones."""
    quick = [f"quick[{n}]" for n in range(QUICK)]
    names = [f"leak[{n}]" for n in range(LEAKS)]
    step = QUICK // len(END)
    for place, name in enumerate(END):
        names += [*quick[place * step : (place + 1) * step], name]
    names += quick[len(END) * step :]
    limits = {"loops": 0.5, "sleeps_in_c": 0.5}
    deltas = {"spike": 512 * MIB}
    units = [
        PlannedUnit(unit_of(name), timeout_s=limits.get(name), peak_delta_bytes=deltas.get(name))
        for name in names
    ]
    # Sys: what is written to descriptor 1 comes through, and a test may close all others.
    xdist = ("-p", "xdist.plugin", "-n", str(shape.workers)) if shape.workers else ()
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    suite = replace(PYTEST, args=("--capture=sys", *xdist), env=env)
    plan = plan_of(
        units,
        suites={"": suite},
        policy=LegPolicy(guard_rail="auto", max_tries=shape.tries),
        processes=shape.processes,
        budget_bytes=shape.processes * 300 * MIB,
    )
    return plan_codec.decode(plan_codec.encode(plan), "plan")


class SmallMachine(threading.Thread):
    """Keeps the file `meminfo` true of a machine with little memory on which only one leg runs."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        super().__init__(daemon=True)
        self._memory_bytes = memory_bytes
        self._file = os.open(folder / "meminfo", os.O_WRONLY | os.O_CREAT, 0o644)
        self._over = threading.Event()
        self._leg = 0
        self._write(0)

    def _write(self, used_bytes: int) -> None:
        # One write of one length: whoever reads meanwhile finds a number and not a half.
        left = max(0, self._memory_bytes - used_bytes) >> 10
        text = f"MemTotal: {self._memory_bytes >> 10:10} kB\nMemAvailable: {left:10} kB\n"
        os.pwrite(self._file, text.encode("ascii"), 0)

    def hold(self, leg: Leg) -> None:
        self._leg = leg.process.pid
        self.start()

    def run(self) -> None:
        """Look at what there is every 10 ms, and for new processes every 50 ms."""
        pids: set[int] = set()
        turn = 0
        while not self._over.wait(0.01):
            if turn % 5 == 0:
                pids = tree(self._leg)
            turn += 1
            self._write(sum(map(resident_bytes, pids)))

    def close(self) -> None:
        self._over.set()
        self.join()
        os.close(self._file)


def resident_bytes(pid: int) -> int:
    """Of one process; 0 where it is gone."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_bytes().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * PAGE_BYTES


def run_hostile(folder: Path, shape: Shape) -> tuple[Leg, Plan]:
    """Run the suite in one leg on a small machine, to the end."""
    (folder / "test_hostile.py").write_text(SUITE)
    plan = hostile_plan(shape)
    machine = SmallMachine(folder, shape.machine_bytes)
    leg = start_shard(folder, plan, program=leg_program(meminfo="'meminfo'"))
    machine.hold(leg)
    try:
        leg.wait(timeout_s=280)
    finally:
        leg.process.kill()
        machine.close()
    return leg, plan


def finals(results: Iterable[Result]) -> dict[str, Result]:
    """By unit the result of its last try; each try of it has one."""
    found: dict[str, dict[int, Result]] = {}
    for result in results:
        tries = found.setdefault(result.unit, {})
        assert result.try_number not in tries, f"two results of one try: {result}"
        assert result.case == result.unit
        tries[result.try_number] = result
    assert all(sorted(tries) == list(range(1, len(tries) + 1)) for tries in found.values())
    return {unit: tries[max(tries)] for unit, tries in found.items()}


def differences(record: Record, shape: Shape) -> dict[str, tuple[object, object]]:
    """By unit: what it should have come to, and what the record says."""
    last = {unit: (one.outcome, one.ending) for unit, one in finals(record.results).items()}
    should = expected(shape)
    flaky = unit_of("flaky")
    # A worker's neighbour may take the process along when the flaky test has left its mark and its
    # failure is not yet told: it is started twice then, and passes in the turn it has alone.
    if sum(start.unit == flaky for start in record.starts) > 1 and last[flaky] == END["flaky"]:
        should[flaky] = END["flaky"]
    return {
        unit: (should.get(unit), last.get(unit))
        for unit in should.keys() | last.keys()
        if should.get(unit) != last.get(unit)
    }
