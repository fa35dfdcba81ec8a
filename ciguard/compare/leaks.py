"""Memory that grows from test to test within a process: what each test keeps is little. Pure.

One test that loads a large module keeps much once, and is no leak: the tenth of the tests that
keeps most is left out, and what is left must still grow, and more than the same tests did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.baseline import usable
from ciguard.compare.normalise import MANY
from ciguard.compare.runs import places
from ciguard.compare.statistics import counts, medians
from ciguard.compare.vocabulary import CONFIRMING
from ciguard.compare.wholes import Leak

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from ciguard.compare.runs import Run
    from ciguard.compare.statistics import Flags, Floats
    from ciguard.compare.vocabulary import Tier

    Counts = NDArray[np.int64]

TESTS: Final = 20  # of a process, before its growth is called steady
LEFT_OUT: Final = 0.1
# Of one process: the bookkeeping of a framework grows, too, by some KiB a test.
LEAST_BYTES: Final = 16 * 1024 * 1024
MORE: Final = 1.5  # times what the same tests kept before


def leaks(
    run: Run, comparable: Flags, kept: Floats | None, previous: Run | None = None
) -> tuple[Leak, ...]:
    """The processes of a run whose memory grows steadily, and more than before.

    Args:
        comparable: cases that ran to their good end.
        kept: (cases, 20) of the baseline, NaN where there are fewer; None without one.
        previous: an earlier run of the same change: what leaked there, too, beyond the same
            baseline, is confirmed.
    """
    if run.retained_bytes is None or run.process is None:
        return ()
    before = np.full(len(run.keys), np.nan) if kept is None else medians(kept)
    number = np.zeros(len(run.keys), np.int64) if kept is None else counts(kept)
    again = _suspected(previous, run, before, number) if previous is not None else frozenset()
    return tuple(
        sorted(_judged(run, comparable, before, number, again), key=lambda leak: -leak.steady_bytes)
    )


def _suspected(previous: Run, run: Run, before: Floats, number: Counts) -> frozenset[str]:
    """The shards of an earlier run that leaked there by the same baseline.

    Growth alone confirms nothing: a suite that always kept much keeps it in each run.
    """
    if previous.retained_bytes is None or previous.process is None:
        return frozenset()
    place = places(previous, run)
    there = place >= 0
    usual, known = np.full(len(place), np.nan), np.zeros(len(place), np.int64)
    usual[there], known[there] = before[place[there]], number[place[there]]
    found = _judged(previous, usable(previous), usual, known, frozenset())
    return frozenset(leak.shard for leak in found if leak.tier == "suspect")


def _judged(
    run: Run, comparable: Flags, before: Floats, number: Counts, again: Collection[str]
) -> Iterator[Leak]:
    assert run.retained_bytes is not None
    assert run.process is not None
    kept = np.where(comparable, run.retained_bytes, np.nan)
    measured = np.flatnonzero(~np.isnan(kept) & (run.process >= 0))
    place = run.leg[measured].astype(np.int64) << 32 | run.process[measured].astype(np.int64)
    for one in np.unique(place).tolist():
        rows = measured[place == one]
        if len(rows) < TESTS:
            continue
        steady = _steady(kept[rows])
        if steady < LEAST_BYTES:
            continue
        known = rows[~np.isnan(before[rows])]
        # The same tests on both sides, if they are most of them.
        usual = _steady(before[known]) if 2 * len(known) >= len(rows) else None
        now = steady if usual is None else _steady(kept[known])
        if usual is not None and (now - usual < LEAST_BYTES or now < MORE * usual):
            continue
        shard, n = run.legs[one >> 32].name, int(np.median(number[rows]))
        tier: Tier = "moved" if usual is None or n < MANY else "suspect"
        if tier == "suspect" and n >= CONFIRMING and shard in again:
            tier = "confirmed"
        yield Leak(
            shard=shard,
            process=one & 0xFFFFFFFF,
            tests=len(rows),
            growth_bytes=int(kept[rows].sum()),
            steady_bytes=int(now),
            before_bytes=None if usual is None else int(usual),
            n=n,
            tier=tier,
        )


def _steady(kept: Floats) -> float:
    """What all but the tenth that keeps most keep together."""
    return float(np.sort(kept)[: len(kept) - int(LEFT_OUT * len(kept))].sum())
