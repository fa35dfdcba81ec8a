"""How long `ciguard plan` takes as a whole process, and its memory, on an inventory of any size.

    .venv/bin/python benchmarks/plan_scale.py [--units N] [--runs 20] [--shards 64] [--rounds 5]
    .venv/bin/python benchmarks/plan_scale.py --units 1000000 --shards 256 --rounds 3

The history is made from a seed: log-normal times, 8 legs a run, one unit in a hundred new, one
entry in a hundred of units that are gone. Wall time, CPU time and peak RSS are those of the
whole process; the best of the rounds by CPU time is shown first, which other programs on the
machine disturb least, then the wall and CPU time of each. `--group file` is the default.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ciguard.history import file as codec
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey

LEGS: Final = 8
NEW_EVERY: Final = 100
REMOVED_EVERY: Final = 100


class Cost(NamedTuple):
    """What one process took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def unit(number: int) -> str:
    """40 units a file, 10 a class, as large suites have them."""
    module, class_ = number // 40, number // 10 % 4
    return f"tests/package_{module % 50}/test_module_{module}.py::TestCase{class_}::test_{number}"


def history(units: int, runs: int) -> codec.History:
    """Past runs of all units but the new ones, and of some that are gone."""
    seen = [unit(number) for number in range(units) if number % NEW_EVERY]
    removed = [f"tests/test_gone.py::test_{number}" for number in range(units // REMOVED_EVERY)]
    keys = sorted(CaseKey("", "", name, name) for name in (*seen, *removed))
    random = np.random.default_rng(7)
    count = len(keys)
    usual_s = random.lognormal(-1.5, 1.5, count)
    wall_s = np.round(usual_s[:, None] * random.lognormal(0, 0.1, (count, runs)), 6).ravel()
    delta = random.lognormal(15, 1.5, count)
    peak = np.rint(delta[:, None] * random.lognormal(0, 0.01, (count, runs))).ravel()
    rows = count * runs
    values = codec.of_columns(
        {
            "key": np.repeat(np.arange(count, dtype=np.int32), runs),
            "run": np.tile(np.arange(runs, dtype=np.int32), count),
            "leg": np.repeat(np.arange(count, dtype=np.int32) * LEGS // count, runs),
            "outcome": np.full(rows, codec.CODE_NAMES["outcome"].index("passed"), np.uint8),
            "ending": np.full(rows, codec.CODE_NAMES["ending"].index("completed"), np.uint8),
            "measured_by": np.full(rows, codec.CODE_NAMES["measured_by"].index("mark"), np.uint8),
            "try_number": np.ones(rows, np.uint8),
            "wall_s": wall_s,
            "peak_delta_bytes": peak,
            "retained_bytes": np.zeros(rows),
        }
    )
    start = datetime(2026, 11, 1, tzinfo=UTC)
    legs = tuple(
        HistoryLeg(shard=f"{number:02}", ending="completed", complete=True)
        for number in range(LEGS)
    )
    known = tuple(
        HistoryRun(run_id=number + 1, at=start + timedelta(hours=number), legs=legs)
        for number in range(runs)
    )
    return codec.History(values, known, tuple(keys))


def cost(arguments: list[str], folder: Path) -> Cost:
    """Run the program once.

    Its peak is its own high-water mark, looked at until it ends: the maximum that the kernel keeps
    for a child (`ru_maxrss`) begins with what this process had when it started it.
    """
    environ = {name: text for name, text in os.environ.items() if not name.startswith("GITHUB_")}
    started_s = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ciguard", *arguments],
        cwd=folder,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak_bytes, ended, status, usage = 0, 0, 0, None
    while not ended:
        with suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            mark = next(line for line in lines if line.startswith("VmHWM"))
            peak_bytes = int(mark.split()[1]) * 1024
        time.sleep(0.002)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    wall_s = time.perf_counter() - started_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{arguments}: exit code {process.returncode}")
    assert usage is not None
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, peak_bytes)


def show(what: str, costs: list[Cost]) -> None:
    """The best round and, behind it, what every round took."""
    best = min(costs, key=lambda one: one.cpu_s)
    rounds = " ".join(f"{one.wall_s:.2f}/{one.cpu_s:.2f}" for one in costs)
    print(
        f"{what:<44} {best.wall_s:6.2f} s wall {best.cpu_s:6.2f} s CPU "
        f"{max(one.peak_bytes for one in costs) / 2**20:6.0f} MiB   wall/CPU {rounds}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    requested = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory(prefix="ciguard-benchmark-") as name:
        folder = Path(name)
        large = folder / "large.txt"
        large.write_text("".join(f"{unit(number)}\n" for number in range(requested.units)))
        small = folder / "small.txt"
        small.write_text("".join(f"{unit(number)}\n" for number in range(200)))
        past = folder / "past.ciguard"
        past.write_bytes(codec.encode(history(requested.units, requested.runs)))
        print(f"history: {past.stat().st_size / 2**20:.1f} MiB")
        plan = ["plan", "--shards", str(requested.shards), "-o", "plan.json", "--inventory"]
        cases = {
            "ciguard --help": ["--help"],
            "plan, 200 units, no history": [*plan, str(small), "--history", "none"],
            f"plan, {requested.units:,} units, no history": [
                *(*plan, str(large), "--history", "none"),
            ],
            f"plan, {requested.units:,} units, {requested.runs} runs, by file": [
                *(*plan, str(large), "--history", str(past)),
            ],
            f"plan, {requested.units:,} units, {requested.runs} runs, --group none": [
                *(*plan, str(large), "--history", str(past), "--group", "none"),
            ],
        }
        for what, arguments in cases.items():
            show(what, [cost(arguments, folder) for _ in range(requested.rounds)])


if __name__ == "__main__":
    main()
