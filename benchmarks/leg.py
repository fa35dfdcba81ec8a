"""What a leg costs: the size and the start of its program, and the supervisor while tests run.

    .venv/bin/python benchmarks/leg.py [--seconds 10] [--starts 15] [--units 100000]

Targets (2 cores): ciguard-run.pyz < 300 KB, starts in < 0.15 s, supervisor at 20 ms < 1 % of a
core. The supervisor's CPU time is its own (user + system of its process, its children left out),
over a leg in which one test sleeps, so that nothing but ticks is counted: once with the machine's
memory (calm: 50 ms), once with a file that says that memory is short (20 ms). The marks of the test
are read and reset meanwhile (40 ms), for its program does not measure itself; the third row is one
that does.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from ciguard.codec import plan_file as plan_codec
from ciguard.model import (
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Pool,
    Prediction,
    Shard,
    Suite,
)
from ciguard.plan.outputs import PROGRAM, members, zipped
from ciguard.run.frameworks.base import PEAK_RESET_BY
from ciguard.sources.local import read_record_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SLEEPS = """
import sys, time
with open(sys.argv[1]) as units: names = units.read().splitlines()
with open(sys.argv[2], "a") as results:
    for name in names:
        print(f'{{"type":"start","unit":"{name}"}}', file=results, flush=True)
        time.sleep(float(sys.argv[3]))
        print(f'{{"type":"result","unit":"{name}","outcome":"passed"}}', file=results, flush=True)
"""

LEG = """
import os, sys, time
sys.path.insert(0, os.path.abspath(sys.argv[1]))
from ciguard.run import leg
plan = leg.read_plan("plan.json")
start_s = time.monotonic()
leg.run_shard(plan, "01", sys.argv[2], os.environ, origin_s=start_s, meminfo=sys.argv[3])
"""
SHORT = "MemTotal: 16000000 kB\nMemAvailable: 1500000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"


def plan_of(
    shards: Sequence[Sequence[str]], command: tuple[str, ...], env: Mapping[str, str] = {}
) -> Plan:
    made = tuple(
        Shard(f"{number:02d}", "p", tuple(map(PlannedUnit, units)), Prediction(1.0, 1.0))
        for number, units in enumerate(shards, 1)
    )
    return Plan(
        id="",
        suites={"": Suite("command", command, env=env)},
        pools={"p": Pool("ubuntu-latest")},
        policy=LegPolicy(guard_rail="auto"),
        shards=made,
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(1, {}, "0"),
    )


def run_leg(folder: Path, plan: Plan, record: str) -> float:
    """Run shard 01; wall time in seconds."""
    (folder / "plan.json").write_bytes(plan_codec.encode(plan))
    command = [sys.executable, "-I", "-S", PROGRAM, "--plan", "plan.json", "--shard", "01"]
    start_s = time.perf_counter()
    subprocess.run([*command, "--record", record], cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start_s


def program_starts(folder: Path, times: int) -> tuple[float, float, float]:
    """Medians: wall time of --help; at_s of the first process; wall time of a leg of `true`."""
    helps, firsts, legs = [], [], []
    for number in range(times):
        start_s = time.perf_counter()
        command = [sys.executable, "-I", "-S", PROGRAM, "--help"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        helps.append(time.perf_counter() - start_s)
        start_s = time.perf_counter()
        wrapped = [*command[:-1], "--record", f"start-{number}", "--", "true"]
        subprocess.run(wrapped, cwd=folder, check=True, capture_output=True)
        legs.append(time.perf_counter() - start_s)
        (record,) = read_record_tree(folder / f"start-{number}")
        firsts.append(record.processes[0].at_s or 0.0)
    return statistics.median(helps), statistics.median(firsts), statistics.median(legs)


def supervisor_share(folder: Path, seconds: float, meminfo: str, *, marks: bool = True) -> float:
    """CPU share of the supervisor over the middle of a leg; with marks read from outside or not."""
    (folder / "sleeps.py").write_text(SLEEPS)
    words = (sys.executable, "sleeps.py", "{units_file}", "{results_file}", str(seconds + 1))
    env = {} if marks else {PEAK_RESET_BY: "self"}
    (folder / "plan.json").write_bytes(plan_codec.encode(plan_of([["one"]], words, env)))
    record = f"share-{Path(meminfo).parent.name}-{marks}"
    command = [sys.executable, "-I", "-S", "-c", LEG, PROGRAM, record, meminfo]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as leg:
        time.sleep(0.5)  # start-up is not asked for here
        before, start_s = cpu_ns(leg.pid), time.perf_counter()
        time.sleep(seconds - 0.5)
        used_s = (cpu_ns(leg.pid) - before) / 1e9
        seconds = time.perf_counter() - start_s
    return used_s / seconds


def cpu_ns(pid: int) -> int:
    """CPU time of the main thread so far: schedstat is exact, where stat counts ticks of 10 ms."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def large_plan_s(folder: Path, units: int, shards: int = 64) -> float:
    """Wall time of a leg of one unit in a plan of so many."""
    ids = [f"folder/test_file_{number % 997}.py::test_{number}" for number in range(units)]
    groups = [["one"], *(ids[start::shards] for start in range(shards))]
    (folder / "sleeps.py").write_text(SLEEPS)
    words = (sys.executable, "sleeps.py", "{units_file}", "{results_file}", "0")
    return run_leg(folder, plan_of(groups, words), "large")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--units", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = zipped(members(files("ciguard")))
        (folder / PROGRAM).write_bytes(content)
        print(f"{PROGRAM}: {len(content) / 1000:.0f} KB")
        helped_s, first_s, leg_s = program_starts(folder, options.starts)
        print(f"start: --help {helped_s:.3f} s; first process at {first_s:.3f} s", end="; ")
        print(f"a leg around `true` {leg_s:.3f} s")
        (folder / "meminfo").write_text(SHORT)
        for words, place in (("calm", "/proc/meminfo"), ("at 20 ms", str(folder / "meminfo"))):
            share = supervisor_share(folder, options.seconds, place)
            print(f"supervisor, {words}: {share:.2%} of a core")
        share = supervisor_share(folder, options.seconds, "/proc/meminfo", marks=False)
        print(f"supervisor, calm, no marks from outside: {share:.2%} of a core")
        wall_s = large_plan_s(folder, options.units)
        print(f"a leg of one unit in a plan of {options.units:,} units: {wall_s:.2f} s")


if __name__ == "__main__":
    main()
