"""The table of shards of a run page, from the stored JSON of `ciguard guard`. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ciguard.model import BAD_OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ShardRow:
    """One shard in the table. Times and sizes are None where not measured, or not predicted.

    Attributes:
        ending: how it ended, or "no record".
        causes: findings that explain why it did not complete.
        run_attempt: in which it ran; None without a record.
    """

    shard: str
    is_bad: bool
    ending: str
    causes: tuple[str, ...]
    planned: int
    with_result: int
    bad: int
    run_attempt: int | None
    wall_s: float | None
    predicted_wall_s: float | None
    peak_bytes: int | None
    predicted_peak_bytes: int | None


def shard_rows(
    legs: list[dict[str, Any]], causes: Mapping[str, tuple[str, ...]]
) -> tuple[ShardRow, ...]:
    """List the shards: first those that are bad, then the longest.

    Args:
        legs: the key of the same name in the JSON of `ciguard guard`.
        causes: findings in words, by shard.
    """
    rows = [_shard_row(leg, causes.get(leg["shard"], ())) for leg in legs]
    return tuple(sorted(rows, key=lambda row: (not row.is_bad, -(row.wall_s or 0.0), row.shard)))


def _shard_row(leg: dict[str, Any], causes: tuple[str, ...]) -> ShardRow:
    is_known = leg["recorded"] or leg["ending"] != "unknown"
    ending = leg["ending"].replace("_", " ") if is_known else "no record"
    units = leg["units"]
    return ShardRow(
        leg["shard"],
        leg["ending"] != "completed" or units["with_result"] < units["planned"],
        ending,
        tuple(cause for cause in causes if cause != ending),
        units["planned"],
        units["with_result"],
        sum(leg["counts"].get(outcome, 0) for outcome in BAD_OUTCOMES),
        leg["run_attempt"],
        leg["wall_s"]["actual"],
        leg["wall_s"]["predicted"],
        leg["peak_bytes"]["actual"],
        leg["peak_bytes"]["predicted"],
    )
