"""Memory that grows from test to test within a process: what each test keeps is little. Pure.

One test that loads a large module keeps much once, and is no leak: the tenth of the tests that
keeps most is left out, and what is left must still grow, and more than the same tests did before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline_matrix import usable
from ciguard.compare.run_columns import Run, index_in
from ciguard.compare.statistics import MIN_BASELINE_RUNS, MIN_RUNS_TO_CONFIRM, count_values, medians

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from ciguard.compare.statistics import Flags, Floats, Tier

    Counts = NDArray[np.int64]

MIN_TESTS: Final = 20  # of a process, before its growth is called steady
TRIM: Final = 0.1
# Of one process: the bookkeeping of a framework grows, too, by some KiB a test.
MIN_BYTES: Final = 16 * 1024 * 1024
MIN_RATIO: Final = 1.5  # times what the same tests kept before


@dataclass(frozen=True, slots=True)
class Leak:
    """A process whose memory grew from test to test.

    Attributes:
        growth_bytes: what all of its tests kept together.
        trimmed_growth_bytes: without the tenth that keeps most, of the tests that the base has too.
        before_bytes: the same of the baseline; None where it has too few of these tests.
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
    """The processes of a run whose memory grows steadily, and more than before.

    Args:
        comparable: cases that ran to their good end.
        retained: (cases, 20) of the baseline, NaN where there are fewer; None without one.
        previous: an earlier run of the same change: what leaked there, too, beyond the same
            baseline, is confirmed.
    """
    if run.retained_bytes is None or run.process is None:
        return ()
    before = np.full(len(run.keys), np.nan) if retained is None else medians(retained)
    number = np.zeros(len(run.keys), np.int64) if retained is None else count_values(retained)
    previously_suspected = (
        _suspected_shards(previous, run, before, number) if previous is not None else frozenset()
    )
    return tuple(
        sorted(
            _judge_processes(run, comparable, before, number, previously_suspected),
            key=lambda leak: -leak.trimmed_growth_bytes,
        )
    )


def _suspected_shards(previous: Run, run: Run, before: Floats, number: Counts) -> frozenset[str]:
    """The shards of an earlier run that leaked there by the same baseline.

    Growth alone confirms nothing: a suite that always kept much keeps it in each run.
    """
    if previous.retained_bytes is None or previous.process is None:
        return frozenset()
    place = index_in(previous, run)
    there = place >= 0
    usual, known = np.full(len(place), np.nan), np.zeros(len(place), np.int64)
    usual[there], known[there] = before[place[there]], number[place[there]]
    found = _judge_processes(previous, usable(previous), usual, known, frozenset())
    return frozenset(leak.shard for leak in found if leak.tier == "suspect")


def _judge_processes(
    run: Run,
    comparable: Flags,
    before: Floats,
    number: Counts,
    previously_suspected: Collection[str],
) -> Iterator[Leak]:
    assert run.retained_bytes is not None
    assert run.process is not None
    retained = np.where(comparable, run.retained_bytes, np.nan)
    measured = np.flatnonzero(~np.isnan(retained) & (run.process >= 0))
    place = run.leg[measured].astype(np.int64) << 32 | run.process[measured].astype(np.int64)
    for one in np.unique(place).tolist():
        rows = measured[place == one]
        if len(rows) < MIN_TESTS:
            continue
        steady = _trimmed_sum(retained[rows])
        if steady < MIN_BYTES:
            continue
        known = rows[~np.isnan(before[rows])]
        # The same tests on both sides, if they are most of them.
        usual = _trimmed_sum(before[known]) if 2 * len(known) >= len(rows) else None
        now = steady if usual is None else _trimmed_sum(retained[known])
        if usual is not None and (now - usual < MIN_BYTES or now < MIN_RATIO * usual):
            continue
        shard, n = run.legs[one >> 32].name, int(np.median(number[rows]))
        tier: Tier = "unjudged" if usual is None or n < MIN_BASELINE_RUNS else "suspect"
        if tier == "suspect" and n >= MIN_RUNS_TO_CONFIRM and shard in previously_suspected:
            tier = "confirmed"
        yield Leak(
            shard=shard,
            process=one & 0xFFFFFFFF,
            tests=len(rows),
            growth_bytes=int(retained[rows].sum()),
            trimmed_growth_bytes=int(now),
            before_bytes=None if usual is None else int(usual),
            n=n,
            tier=tier,
        )


def _trimmed_sum(retained: Floats) -> float:
    """Sum what the tests retain, without the tenth of them that retains most."""
    return float(np.sort(retained)[: len(retained) - int(TRIM * len(retained))].sum())
