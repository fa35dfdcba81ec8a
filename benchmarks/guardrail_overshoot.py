"""How far memory falls below the guard rail's floor before what takes it is dead.

    .venv/bin/python benchmarks/guardrail_overshoot.py [--rounds 11] [--rates 0.1 0.5 1 4]

A real leg guards a real process that grows at a given rate (GB/s; one that is too high is as fast
as the machine gives pages; what was reached is printed). The machine's memory is a file of this
program: 1.5 GiB less what that process really holds, written every millisecond, so that nothing
else on the machine is in the number and nothing is endangered. Overshoot: floor - the least that
was left. The floor is the last ditch of `guard_rail = "auto"`, 256 MiB.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from plugin_overhead import interval

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
from ciguard.run.policy.guard_rail import CRITICAL_BYTES

MIB: Final = 1 << 20
GIGABYTE: Final = 1e9
MEMORY_BYTES: Final = 1536 * MIB
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
GROWS: Final = """
import ctypes, mmap, os, sys, time
units, results, rate = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(results, "a") as stream: stream.write('{"type":"start","unit":"grows"}\\\\n')
size = 4 << 30  # an end all the same
area = mmap.mmap(-1, size)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
with open("pid.new", "w") as stream: stream.write(str(os.getpid()))
os.rename("pid.new", "pid")
began, done = time.monotonic(), 0
while done < size:
    wanted = min(size, int((time.monotonic() - began) * rate * 1e9))
    while done < wanted:
        step = min(1 << 20, wanted - done)
        ctypes.memset(start + done, 1, step)
        done += step
    time.sleep(0.0005)
"""
LEG: Final = """
import os, sys, time
from ciguard.run import leg
plan = leg.read_plan("plan.json")
leg.run_shard(plan, "01", "record", os.environ, origin_s=time.monotonic(), meminfo="meminfo")
"""


class Fall(NamedTuple):
    """One kill: the least that was left, and how fast it fell over the last 100 ms before."""

    left_bytes: int
    rate: float

    @property
    def overshoot_mib(self) -> float:
        return (CRITICAL_BYTES - self.left_bytes) / MIB


def plan_of(rate: float) -> Plan:
    words = (sys.executable, "-S", "grows.py", "{units_file}", "{results_file}", str(rate))
    return Plan(
        id="",
        suites={"": Suite("command", words)},
        pools={"p": Pool("ubuntu-latest")},
        policy=LegPolicy(guard_rail="auto"),
        shards=(Shard("01", "p", (PlannedUnit("grows"),), Prediction(1.0, 1.0)),),
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(1, {}, "0"),
    )


def write_left(meminfo: int, left_bytes: int) -> None:
    text = f"MemTotal: {MEMORY_BYTES >> 10:10} kB\nMemAvailable: {max(0, left_bytes) >> 10:10} kB\n"
    os.pwrite(meminfo, text.encode("ascii"), 0)


def fall(rate: float) -> Fall:
    """Let one process grow until the leg has ended it."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        (folder / "grows.py").write_text(GROWS)
        (folder / "plan.json").write_bytes(plan_codec.encode(plan_of(rate)))
        meminfo = os.open(folder / "meminfo", os.O_WRONLY | os.O_CREAT, 0o644)
        write_left(meminfo, MEMORY_BYTES)
        command = [sys.executable, "-c", LEG]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as leg:
            while not (folder / "pid").exists() and leg.poll() is None:
                time.sleep(0.001)
            seen = watched(int((folder / "pid").read_text()), meminfo)
            write_left(meminfo, MEMORY_BYTES)
        os.close(meminfo)
        assert b'"ending":"memory_guard"' in (folder / "record" / "supervisor.jsonl").read_bytes()
    last_s, left_bytes = min(seen, key=lambda moment: moment[1])
    before = [moment for moment in seen if last_s - 0.1 <= moment[0] <= last_s]
    fell, took_s = before[0][1] - left_bytes, last_s - before[0][0]
    return Fall(left_bytes, fell / took_s / GIGABYTE if took_s else 0.0)


def watched(pid: int, meminfo: int) -> list[tuple[float, int]]:
    """What was left at which moment while the process lived; keeps the file true meanwhile."""
    found: list[tuple[float, int]] = []
    statm = os.open(f"/proc/{pid}/statm", os.O_RDONLY)
    try:
        while True:
            content = os.pread(statm, 256, 0)
            pages = int(content.split(b" ", 2)[1]) if content else 0
            if not pages:
                return found
            left = MEMORY_BYTES - pages * PAGE_BYTES
            write_left(meminfo, left)
            found.append((time.monotonic(), left))
            time.sleep(0.001)
    except ProcessLookupError:
        return found
    finally:
        os.close(statm)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.1, 0.5, 1, 4], metavar="GB/S")
    options = parser.parse_args()
    print(
        f"{'asked GB/s':>10}{'reached':>9}{'overshoot MiB: median (95 %)':>31}{'worst':>8}{'n':>4}"
    )
    for rate in options.rates:
        falls = [fall(rate) for _ in range(options.rounds)]
        sizes = [one.overshoot_mib for one in falls]
        low, high, _ = interval(sizes)
        middle = f"{statistics.median(sizes):.0f} ({low:.0f}..{high:.0f})"
        reached = statistics.median(one.rate for one in falls)
        print(f"{rate:10g}{reached:9.2f}{middle:>31}{max(sizes):8.0f}{len(sizes):4}", flush=True)


if __name__ == "__main__":
    main()
