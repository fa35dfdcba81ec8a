"""Leaks: memory of a process that grows a little with each of its tests. Pure.

A test that loads a large module retains much memory once, which is no leak. The tenth of the tests
that retains most is therefore ignored. The sum of the others must be large, and must exceed the sum
of the same tests in the baseline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.codec.columns import Flags, Floats, Integers
from ciguard.compare.baseline_matrix import usable
from ciguard.compare.run_columns import Run, index_in
from ciguard.compare.statistics import MIN_BASELINE_RUNS, MIN_RUNS_TO_CONFIRM, count_values, medians

if TYPE_CHECKING:
    from ciguard.compare.statistics import Tier


MIN_TESTS: Final = 20  # of a process; with fewer, no growth is called steady
TRIM: Final = 0.1
# Growth of a process: the bookkeeping of a framework alone grows by some KiB a test.
MIN_BYTES: Final = 16 * 1024 * 1024
MIN_RATIO: Final = 1.5  # times the growth of the same tests before


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: memory that all of its tests retained.
        trimmed_growth_bytes: memory that the tests in both runs retained, without the tenth that
            retains most.
        before_bytes: memory that the same tests retained in the baseline; None if it has too few.
    """

    shard: str
    process: int
    tests: int
    growth_bytes: int
    trimmed_growth_bytes: int
    before_bytes: int | None
    n: int
    tier: Tier


def find_leaks(
    run: Run, comparable: Flags, retained: Floats | None, previous: Run | None = None
) -> tuple[Leak, ...]:
    """Find the processes of a run whose memory grows steadily, and more than before.

    Args:
        comparable: cases that passed.
        retained: (cases, 20) values of the baseline, padded with NaN; None without a baseline.
        previous: an earlier run of the same change; a leak in both runs is confirmed.
    """
    before = np.full(len(run.keys), np.nan) if retained is None else medians(retained)
    number = np.zeros(len(run.keys), np.int64) if retained is None else count_values(retained)
    previously_suspected = (
        _suspected_shards(previous, run, before, number) if previous is not None else frozenset()
    )
    leaks = _judge_processes(run, comparable, before, number, previously_suspected)
    return tuple(sorted(leaks, key=lambda leak: -leak.trimmed_growth_bytes))


def _suspected_shards(previous: Run, run: Run, before: Floats, number: Integers) -> frozenset[str]:
    """Return the shards of an earlier run with a leak against the same baseline.

    Growth alone confirms no leak, because a suite may retain much memory in each run.
    """
    index = index_in(previous, run)
    shared = index >= 0
    usual, known = np.full(len(index), np.nan), np.zeros(len(index), np.int64)
    usual[shared], known[shared] = before[index[shared]], number[index[shared]]
    leaks = _judge_processes(previous, usable(previous), usual, known, frozenset())
    return frozenset(leak.shard for leak in leaks if leak.tier == "suspect")


def _judge_processes(
    run: Run,
    comparable: Flags,
    before: Floats,
    number: Integers,
    previously_suspected: Collection[str],
) -> Iterator[Leak]:
    if run.retained_bytes is None or run.process is None:
        return
    retained = np.where(comparable, run.retained_bytes, np.nan)
    measured = np.flatnonzero(~np.isnan(retained) & (run.process >= 0))
    processes = run.leg[measured].astype(np.int64) << 32 | run.process[measured].astype(np.int64)
    for process in np.unique(processes).tolist():
        rows = measured[processes == process]
        if len(rows) < MIN_TESTS:
            continue
        steady = _trimmed_sum(retained[rows])
        if steady < MIN_BYTES:
            continue
        known = rows[~np.isnan(before[rows])]
        # The same tests are compared, if most tests are in the baseline.
        usual = _trimmed_sum(before[known]) if 2 * len(known) >= len(rows) else None
        now = steady if usual is None else _trimmed_sum(retained[known])
        if usual is not None and (now - usual < MIN_BYTES or now < MIN_RATIO * usual):
            continue
        shard, n = run.legs[process >> 32].name, int(np.median(number[rows]))
        tier: Tier = "unjudged" if usual is None or n < MIN_BASELINE_RUNS else "suspect"
        if tier == "suspect" and n >= MIN_RUNS_TO_CONFIRM and shard in previously_suspected:
            tier = "confirmed"
        yield Leak(
            shard=shard,
            process=process & 0xFFFFFFFF,
            tests=len(rows),
            growth_bytes=int(retained[rows].sum()),
            trimmed_growth_bytes=int(now),
            before_bytes=None if usual is None else int(usual),
            n=n,
            tier=tier,
        )


def _trimmed_sum(retained: Floats) -> float:
    """Sum the memory that the tests retain, without the tenth that retains most."""
    return float(np.sort(retained)[: len(retained) - int(TRIM * len(retained))].sum())
