"""Adds a run of 100,000 results to a history of 20 runs; target: < 2 s, and 41,192 x 20 in ~5 MB.

    python benchmarks/history_add.py [KEYS] [RUNS]

Durations are lognormal around 10 ms with 5 % noise, peaks normal with 0.4 %, both as a plugin
would round them; every figure is one measurement on the machine at hand.
"""

from __future__ import annotations

import resource
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ciguard.history import file as history_codec
from ciguard.history.file import empty
from ciguard.history.ingest import history_of
from ciguard.history.merge import merge
from ciguard.history.query import newest_values, speed_factors
from ciguard.model import EndLine, Record, Result, ShardLine

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARDS = 64


@contextmanager
def timed(what: str) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    print(f"{what:<44}{time.perf_counter() - begin:8.3f} s")


def run_records(keys: int, run: int) -> list[Record]:
    """What the shards of one run wrote."""
    usual = np.random.default_rng(1)
    wall = np.exp(usual.normal(np.log(0.01), 1.5, keys))
    peak = np.maximum(0, usual.normal(3e6, 5e6, keys))
    noise = np.random.default_rng(100 + run)
    wall = wall * np.exp(noise.normal(0, 0.05, keys))
    cpu = wall * np.exp(noise.normal(-0.05, 0.03, keys))
    peak = peak * np.exp(noise.normal(0, 0.004, keys)) // 4096 * 4096
    units = [
        f"tests/unit/mod_{i % 997}/test_thing_{i % 9973}.py::TestClass{i % 13}::test_{i}[p{i % 7}]"
        for i in range(keys)
    ]
    results: list[list[Result]] = [[] for _ in range(SHARDS)]
    for i, unit in enumerate(units):
        results[i * SHARDS // keys].append(
            Result(
                unit,
                "failed" if i % 4999 == run else "passed",
                case=unit,
                wall_s=round(float(wall[i]), 6),
                cpu_s=round(float(cpu[i]), 6),
                peak_delta_bytes=int(peak[i]),
                retained_bytes=4096 * (i % 50 == 0),
                measured_by="mark",
            )
        )
    return [
        Record(
            f"{shard:02d}",
            ShardLine(
                plan_id="p",
                shard=f"{shard:02d}",
                repository="octo-org/shop",
                run_id=run + 1,
                run_attempt=1,
                branch="main",
                event="push",
                started_at=f"2026-11-21T{run:02d}:00:00Z",
            ),
            results=tuple(found),
            end=EndLine("completed", at_s=100.0),
        )
        for shard, found in enumerate(results)
    ]


def main(keys: int, runs: int) -> None:
    history = empty()
    with timed(f"building {runs} runs of {keys} results"):
        for run in range(runs):
            history = merge(history, history_of(run_records(keys, run)))
    content = history_codec.encode(history)
    print(f"{'size':<44}{len(content) / 1e6:8.2f} MB")
    records = run_records(keys, runs)
    with timed("decode + intake + join + encode"):
        with timed("  decode"):
            before = history_codec.decode(content, "benchmark")
        with timed("  intake of Result values"):
            added = history_of(records)
        with timed("  join"):
            after = merge(before, added)
        with timed("  encode"):
            history_codec.encode(after)
    with timed("last 8 wall times of each key"):
        newest_values(after.values.wall_s, after.values.key, len(after.keys), 8)
    with timed("speed factor of each leg"):
        speed_factors(after)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'largest memory':<44}{peak_mib:8.0f} MiB")


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], "100000", "20"][:2]))
