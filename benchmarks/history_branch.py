"""Carries a history of a real suite's size to a git branch and back: 41,192 tests x 20 runs.

    python benchmarks/history_branch.py [RUNS]

Where recordings lie beside the project, the ids are those of 41,192 real xUnit tests, and each
test's times are a real test's in 12 recordings of one of five suites (begun again after the last),
which other machines made than the ones before; else both are made up as in `history_add.py`. CPU
times, peaks and what is retained are made up as there. The remote is a bare repository on the same
disk: what a network adds is the file's size. Every figure is one measurement.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from history_add import SHARDS, run_records
from recordings import FOLDER

from ciguard.history import file as history_codec
from ciguard.history.file import empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.model import EndLine, Record, Result, ShardLine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ciguard.history.file import History

KEYS = 41_192
PAGE = 4096


def real_units() -> list[str]:
    path = FOLDER / "aidotnet" / "tests_head.json.gz"
    return sorted({test["id"] for test in json.loads(gzip.decompress(path.read_bytes()))})


def real_times() -> NDArray[np.float64]:
    """(tests, recordings): tests of five suites that all recordings of their suite have."""
    rows: list[list[float]] = []
    for path in sorted((FOLDER / "duration-history").glob("*.json.gz")):
        found = [one["durations"] for one in json.loads(gzip.decompress(path.read_bytes()))]
        common = sorted(set.intersection(*map(set, found)))
        rows += [[float(one[test]) for one in found] for test in common]
    return np.array(rows)


def real_records(units: list[str], times: NDArray[np.float64], run: int) -> list[Record]:
    """What the shards of one run wrote."""
    usual, noise = np.random.default_rng(1), np.random.default_rng(100 + run)
    wall = times[usual.integers(0, len(times), len(units)), run % times.shape[1]]
    cpu = wall * np.exp(noise.normal(-0.05, 0.03, len(units)))
    peak = np.maximum(0, usual.normal(3e6, 5e6, len(units)))
    peak = peak * np.exp(noise.normal(0, 0.004, len(units))) // PAGE * PAGE
    size = -(-len(units) // SHARDS)
    records = []
    for shard in range(SHARDS):
        places = range(shard * size, min(len(units), (shard + 1) * size))
        results = tuple(
            Result(
                units[at],
                "failed" if at % 4999 == run else "passed",
                case=units[at],
                wall_s=round(float(wall[at]), 6),
                cpu_s=round(float(cpu[at]), 6),
                peak_delta_bytes=int(peak[at]),
                retained_bytes=PAGE * (at % 50 == 0),
                measured_by="mark",
            )
            for at in places
        )
        header = ShardLine(
            plan_id="p",
            shard=f"{shard:02d}",
            run_id=run + 1,
            run_attempt=1,
            branch="main",
            event="push",
            tested_sha=f"{run:040x}",
            started_at=f"2026-11-21T{run:02d}:00:00Z",
        )
        records.append(
            Record(header.shard, header, results=results, end=EndLine("completed", at_s=100.0))
        )
    return records


def made(runs: int) -> History:
    history = empty()
    if (FOLDER / "aidotnet").is_dir():
        units, times = real_units(), real_times()
        print(f"{len(units)} real ids, times of {len(times)} real tests in {times.shape[1]} runs")
        for run in range(runs):
            history = merge(history, history_of(real_records(units, times, run)))
    else:
        print(f"{KEYS} ids and times that are made up: no recordings in {FOLDER}")
        for run in range(runs):
            history = merge(history, history_of(run_records(KEYS, run)))
    return history


def called(folder: Path, *words: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    begin, used = time.perf_counter(), children_cpu_s()
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    took, used = time.perf_counter() - begin, children_cpu_s() - used
    print(f"{' '.join(words[-4:]):<48.48}{took:8.2f} s, {used:.2f} s of a processor")


def children_cpu_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def main(runs: int) -> None:
    history = made(runs)
    content = history_codec.encode(history)
    count = len(history.values)
    print(f"{len(history.keys)} cases, {count} values: {len(content) / 1e6:.2f} MB, ", end="")
    print(f"{len(content) / count:.2f} bytes a value")
    program = (sys.executable, "-m", "ciguard", "history")
    with tempfile.TemporaryDirectory() as name:
        folder, work = Path(name), Path(name) / "work"
        called(folder, "git", "init", "--quiet", "--bare", "-b", "main", "origin.git")
        called(folder, "git", "clone", "--quiet", f"file://{folder}/origin.git", "work")
        (work / "history.ciguard").write_bytes(content)
        (work / "one.json").write_text(json.dumps({key.unit: 1.0 for key in history.keys}))
        called(work, *program, "push", "history.ciguard")
        called(work, *program, "pull", "pulled.ciguard")
        assert (work / "pulled.ciguard").read_bytes() == content
        called(work, *program, "add", "one.json", "--run-id", str(runs + 1))
        called(work, *program, "show")


if __name__ == "__main__":
    main(int([*sys.argv[1:], "20"][0]))
