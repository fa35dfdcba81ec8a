"""The table of shards of a run page, with bars: where each bar begins and how long it is. Pure.

A bar of wall time begins at the second at which its shard started, after the first shard of the
same run attempt. All shards share one scale: 100 is the end of the shard that ends last. The source
is the stored JSON of `ciguard guard`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.serve.state.run_rows import RunRow

WIDTH: Final = 100.0  # of the drawing of a bar
MAX_RUN_MS: Final = 35 * 86_400_000  # GitHub ends a run after 35 days
MAX_SKEW_MS: Final = 300_000  # between the clocks of a runner and of GitHub


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard in the table. Times and sizes are None where not measured, or not predicted.

    Attributes:
        ending: how it ended, or "no record".
        causes: findings that explain why it did not complete.
        run_attempt: in which it ran; None without a record.
        start_s: seconds after the start of the first shard of its attempt, by the runners' clocks.
        start_x, end_x, predicted_end_x: 0 to 100, where 100 is the end of the shard that ends last;
            a bar begins at 0 if the start of its shard is unknown.
        peak_x, predicted_peak_x: 0 to 100, where 100 is the largest peak.
    """

    shard: str
    is_bad: bool
    ending: str
    causes: tuple[str, ...]
    planned: int
    with_result: int
    bad: int
    run_attempt: int | None
    start_s: float | None
    wall_s: float | None
    predicted_wall_s: float | None
    peak_bytes: int | None
    predicted_peak_bytes: int | None
    peak_measured_by: str | None
    start_x: float
    end_x: float | None
    predicted_end_x: float | None
    peak_x: float | None
    predicted_peak_x: float | None


def shard_rows(
    legs: list[dict[str, Any]], causes: Mapping[str, tuple[str, ...]], run: RunRow
) -> tuple[ShardRow, ...]:
    """List the shards: first those that are bad, then the longest.

    Args:
        legs: the key of the same name in the JSON of `ciguard guard`.
        causes: findings in words, by shard.
    """
    starts_s = bar_starts_s(legs, run)
    ends_s = (starts_s.get(leg["shard"], 0.0) + _largest(leg["wall_s"]) for leg in legs)
    last_end_s = max(ends_s, default=0.0)
    max_bytes = max((_largest(leg["peak_bytes"]) for leg in legs), default=0)
    rows = [
        _shard_row(
            leg,
            causes.get(leg["shard"], ()),
            starts_s.get(leg["shard"]),
            last_end_s or 1.0,
            max_bytes or 1,
        )
        for leg in legs
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_bad, -(row.wall_s or 0.0), row.shard)))


def bar_starts_s(legs: list[dict[str, Any]], run: RunRow) -> dict[str, float]:
    """Return the second at which the bar of each shard begins; leave out unknown starts.

    Each run attempt has its own zero, the start of its first shard: "Re-run failed jobs" may follow
    hours later. A start outside of the run comes from a wrong clock and counts as unknown, because
    it would compress all other bars.
    """
    known = {}
    for leg in legs:
        # Verdicts of earlier versions have no `started_at`.
        if text := leg.get("started_at"):
            start_ms = 1000 * datetime.fromisoformat(text).timestamp()
            is_own = leg["run_attempt"] == run.key.run_attempt
            earliest_ms = run.started_at_ms if is_own else run.completed_at_ms - MAX_RUN_MS
            if earliest_ms - MAX_SKEW_MS <= start_ms <= run.completed_at_ms + MAX_SKEW_MS:
                known[leg["shard"]] = (leg["run_attempt"], start_ms / 1000)
    first_s: dict[int | None, float] = {}
    for attempt, start_s in known.values():
        first_s[attempt] = min(start_s, first_s.get(attempt, start_s))
    return {shard: start_s - first_s[attempt] for shard, (attempt, start_s) in known.items()}


def _largest(measure: dict[str, Any]) -> float:
    return max(measure["actual"] or 0, measure["predicted"] or 0)


def _shard_row(
    leg: dict[str, Any],
    causes: tuple[str, ...],
    start_s: float | None,
    last_end_s: float,
    max_bytes: float,
) -> ShardRow:
    wall, peak = leg["wall_s"], leg["peak_bytes"]
    is_known = leg["recorded"] or leg["ending"] != "unknown"
    bad = sum(leg["counts"].get(outcome, 0) for outcome in BAD_OUTCOMES)
    ending = leg["ending"].replace("_", " ") if is_known else "no record"
    units, begin_s = leg["units"], start_s or 0.0
    return ShardRow(
        leg["shard"],
        leg["ending"] != "completed" or units["with_result"] < units["planned"],
        ending,
        tuple(cause for cause in causes if cause != ending),
        units["planned"],
        units["with_result"],
        bad,
        leg["run_attempt"],
        start_s,
        wall["actual"],
        wall["predicted"],
        peak["actual"],
        peak["predicted"],
        peak["measured_by"],
        _x(begin_s, last_end_s) or 0.0,
        _x(wall["actual"], last_end_s, begin_s),
        _x(wall["predicted"], last_end_s, begin_s),
        _x(peak["actual"], max_bytes),
        _x(peak["predicted"], max_bytes),
    )


def _x(value: float | None, full_scale: float, begin: float = 0.0) -> float | None:
    return None if value is None else round(WIDTH * (begin + value) / full_scale, 2)
