"""How long it takes until the first test of a run begins: tests collected before, or by each job.

    .venv/bin/python benchmarks/collect_history.py [--rounds 3] [--shards 4]
    .venv/bin/python benchmarks/collect_history.py --package numpy --also hypothesis

Installs a package from the index into a fresh environment, as a plan job does that collects, and
plans the tests that the package brings, once with `--collect here` and once with `--collect
history`, from a history of these tests. Then one shard of each plan runs until its first test has
begun. Times are wall times in seconds, the least of the rounds, and each round.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

CIGUARD: Final = (sys.executable, "-m", "ciguard")
LEG: Final = (sys.executable, "-m", "ciguard.run")
POLL_S: Final = 0.02


def timed(*command: str | Path, cwd: Path) -> float:
    """Run it to its end; raise where that is no good one."""
    begin_s = time.monotonic()
    subprocess.run(list(map(str, command)), cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin_s


def first_test_s(folder: Path, plan: str, record: str) -> float:
    """From the start of a leg to the first start line of its record."""
    begin_s = time.monotonic()
    words = ("--plan", plan, "--shard", "01", "--record", record)
    process = subprocess.Popen([*LEG, *words], cwd=folder, stdout=subprocess.DEVNULL)
    lines = folder / record / "process-001.jsonl"
    try:
        while not (lines.exists() and b'"type":"start"' in lines.read_bytes()):
            if process.poll() is not None:
                raise SystemExit(f"the leg ended with {process.returncode} before its first test")
            time.sleep(POLL_S)
        return time.monotonic() - begin_s
    finally:
        process.terminate()
        process.wait()


def prepare(folder: Path, package: str) -> None:
    (folder / "matrix.yml").write_text('os: ["ubuntu-latest"]\n')
    command = json.dumps([str(folder / "environment" / "bin" / "python"), "-m", "pytest"])
    args = json.dumps(["--pyargs", package, "-p", "no:cacheprovider"])
    (folder / "ciguard.toml").write_text(
        f'[suite.""]\ncommand = {command}\nargs = {args}\n[history]\nstore = "past.bin"\n'
    )


def add_history(folder: Path, plan: str) -> None:
    """A run that had all tests of a plan, a tenth of a second each."""
    units = [unit["unit"] for shard in shards(folder, plan) for unit in shard["units"]]
    (folder / "durations.json").write_text(json.dumps(dict.fromkeys(units, 0.1)))
    run = ("--run-id", "1", "--variant", "ubuntu-latest")
    timed(*CIGUARD, "history", "add", "durations.json", *run, cwd=folder)


def shards(folder: Path, plan: str) -> list[dict[str, list[dict[str, str]]]]:
    found = json.loads((folder / plan).read_text())["shards"]
    for shard in found:
        if isinstance(shard["units"], dict):  # columns
            shard["units"] = [{"unit": unit} for unit in shard["units"]["unit"]]
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--package", default="networkx")
    parser.add_argument("--also", nargs="*", default=["numpy", "scipy", "matplotlib", "pandas"])
    parser.add_argument("--shards", default="4")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, given.package)
        for number in range(given.rounds):
            python = folder / "environment" / "bin" / "python"
            set_up_s = timed(sys.executable, "-m", "venv", "--clear", "environment", cwd=folder)
            install = ("-m", "pip", "install", "--quiet", "--no-cache-dir", "pytest")
            set_up_s += timed(python, *install, given.package, *given.also, cwd=folder)
            plan = ("plan", "--matrix", "matrix.yml", "--shards", given.shards)
            times = {"set-up of the project": set_up_s}
            times["plan --collect here"] = timed(
                *CIGUARD, *plan, "--collect", "here", "-o", "here.json", cwd=folder
            )
            if number == 0:
                add_history(folder, "here.json")
            times["plan --collect history"] = timed(
                *CIGUARD, *plan, "--collect", "history", "-o", "history.json", cwd=folder
            )
            times["first test, plan made here"] = first_test_s(folder, "here.json", f"h{number}")
            times["first test, job lists"] = first_test_s(folder, "history.json", f"l{number}")
            for what, time_s in times.items():
                found.setdefault(what, []).append(time_s)
        count = sum(len(shard["units"]) for shard in shards(folder, "here.json"))
    print(f"{given.package}, {count:,} tests, {os.cpu_count()} cores")
    for what, all_s in found.items():
        rounds = " ".join(f"{time_s:.2f}" for time_s in all_s)
        print(f"{what:30} {min(all_s):7.2f}   ({rounds})")


if __name__ == "__main__":
    main()
