"""Memory that grows from test to test within a process: what each test keeps is little. Pure.

One test that loads a large module keeps much once, and is no leak: the tenth of the tests that
keeps most is left out, and what is left must still grow, and more than the same tests did before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ciguard.compare.normalise import MANY
from ciguard.compare.statistics import counts, medians
from ciguard.compare.vocabulary import CONFIRMING
from ciguard.compare.wholes import Leak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ciguard.compare.runs import Run
    from ciguard.compare.statistics import Flags, Floats
    from ciguard.compare.vocabulary import Tier

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
        previous: an earlier run of the same change: what leaked there, too, is confirmed.
    """
    if run.retained_bytes is None or run.process is None:
        return ()
    before = np.full(len(run.keys), np.nan) if kept is None else medians(kept)
    number = np.zeros(len(run.keys), np.int64) if kept is None else counts(kept)
    again = {leak.shard for leak in _found(previous)} if previous is not None else set()
    return tuple(
        sorted(_judged(run, comparable, before, number, again), key=lambda leak: -leak.steady_bytes)
    )


def _found(run: Run) -> Iterator[Leak]:
    nothing = np.full(len(run.keys), np.nan)
    everything = np.ones(len(run.keys), np.bool_)
    if run.retained_bytes is not None and run.process is not None:
        yield from _judged(run, everything, nothing, np.zeros(len(run.keys), np.int64), set())


def _judged(
    run: Run, comparable: Flags, before: Floats, number: np.ndarray[tuple[int], np.dtype[np.int64]],
    again: set[str],
) -> Iterator[Leak]:  # fmt: skip
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
