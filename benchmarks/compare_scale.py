"""Compares two runs of 100,000 tests with 20 baseline values; target: < 4 s, < 1 GB, whole process.

    python benchmarks/compare_scale.py [TESTS] [RUNS]

Once with both runs in the history, once with records of both on the disk: there, reading JSON Lines
is most of the time. Every figure is one measurement on the machine at hand; where others use it as
well, the CPU time says what an idle one would take.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np

from ciguard.codec.record.lines import encode
from ciguard.history import file as history_codec
from ciguard.history.file import History, empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.model import EndLine, Record, Result, ShardLine, StartLine

SHARDS: Final = 64


def records(tests: int, run: int) -> list[Record]:
    """What the shards of one run wrote: 5 % noise in time, 0.4 % in memory, dealt anew."""
    usual = np.random.default_rng(1)
    wall = usual.lognormal(np.log(0.1), 1.2, tests)
    peak = usual.lognormal(np.log(5e6), 1.5, tests)
    noise = np.random.default_rng(100 + run)
    wall *= np.exp(noise.normal(0, 0.05, tests))
    peak *= np.exp(noise.normal(0, 0.004, tests))
    shard = noise.integers(0, SHARDS, tests)
    results: list[list[Result]] = [[] for _ in range(SHARDS)]
    for test in range(tests):
        unit = f"tests/unit/mod_{test % 997}/test_thing_{test % 9973}.py::test_{test}[p{test % 7}]"
        result = Result(
            unit,
            "passed",
            case=unit,
            at_s=round(test * 0.01, 3),
            wall_s=round(float(wall[test]), 6),
            cpu_s=round(float(wall[test]) * 0.9, 6),
            rss_before_bytes=100_000_000,
            peak_bytes=150_000_000,
            peak_delta_bytes=int(peak[test]) // 4096 * 4096,
            retained_bytes=0,
            measured_by="mark",
            concurrent=1,
            process=1,
        )
        results[shard[test]].append(result)
    return [
        Record(
            f"{number:02}",
            ShardLine(
                plan_id=f"p{run}",
                shard=f"{number:02}",
                run_id=run + 1,
                run_attempt=1,
                branch="main",
                event="push",
                started_at=f"2026-11-{1 + run:02}T10:00:00Z",
            ),
            results=tuple(found),
            end=EndLine("completed", at_s=600.0, exit_code=0),
        )
        for number, found in enumerate(results)
    ]


def write(folder: Path, found: list[Record]) -> None:
    """One file a shard, with the start lines that a real record has."""
    folder.mkdir()
    for record in found:
        assert record.header is not None
        assert record.end is not None
        lines = [encode(record.header)]
        for result in record.results:
            lines += [encode(StartLine(result.unit, process=1, at_s=result.at_s)), encode(result)]
        lines.append(encode(record.end))
        (folder / f"{record.source}.jsonl").write_bytes(b"".join(lines))


def measure(what: str, *words: str) -> None:
    """Run `ciguard compare` and print its time and largest memory."""
    begin = time.perf_counter()
    program = [sys.executable, "-m", "ciguard", "compare", *words]
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(program[0], program, dict(os.environ), file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    seconds = time.perf_counter() - begin
    cpu_s = usage.ru_utime + usage.ru_stime
    peak_mib = usage.ru_maxrss / 1024
    print(f"{what:<36}{seconds:8.2f} s{cpu_s:8.2f} s CPU{peak_mib:8.0f} MiB", flush=True)


def main(tests: int, runs: int) -> None:
    history: History = empty()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for run in range(runs):
            found = records(tests, run)
            history = merge(history, history_of(found))
            if run >= runs - 2:
                write(folder / f"run-{run + 1}", found)
        place = folder / "history"
        place.write_bytes(history_codec.encode(history))
        history = empty()
        base, head = str(runs - 1), str(runs)
        past = ("--history", str(place))
        measure("two runs of the history", base, head, *past)
        measure("two runs of the history, as JSON", base, head, *past, "--format", "json")
        here, there = str(folder / f"run-{base}"), str(folder / f"run-{head}")
        measure("a record against the history", base, there, *past)
        measure("two records against the history", here, there, *past)
        measure("two records alone", here, there)


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], "100000", "20"][:2]))
