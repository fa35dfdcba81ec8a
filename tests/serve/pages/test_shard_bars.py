"""The shards of a run as bars in time, by literals."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from serve.pages.filled import SHOP, make_run

from ciguard.serve.pages.shard_bars import ShardRow, shard_rows
from ciguard.serve.state.run_key import RunKey

AT_TEN: Final = "2026-11-20T10:00:00+00:00"
AT_TEN_MS: Final = round(1000 * datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp())
# From 09:59 to 16:00.
RUN: Final = replace(
    make_run(SHOP, 0, 0),
    key=RunKey(SHOP.id, 7, 1),
    started_at_ms=AT_TEN_MS - 60_000,
    completed_at_ms=AT_TEN_MS + 6 * 3_600_000,
)


def leg(
    shard: str, started_at: str | None, wall_s: float | None, predicted_s: float, attempt: int = 1
) -> dict[str, Any]:
    return {
        "shard": shard,
        "recorded": True,
        "ending": "completed",
        "run_attempt": attempt,
        "started_at": started_at,
        "units": {"planned": 1, "with_result": 1},
        "wall_s": {"predicted": predicted_s, "actual": wall_s},
        "peak_bytes": {"predicted": None, "actual": None, "measured_by": None},
        "counts": {"passed": 1},
    }


def rows(*legs: dict[str, Any], attempt: int = 1) -> dict[str, ShardRow]:
    run = replace(RUN, key=replace(RUN.key, run_attempt=attempt))
    return {row.shard: row for row in shard_rows(list(legs), {}, run)}


def bar(row: ShardRow) -> tuple[float | None, float, float | None, float | None]:
    return row.start_s, row.start_x, row.end_x, row.predicted_end_x


def test_bar_starts_where_its_shard_started() -> None:
    shards = rows(
        leg("01", AT_TEN, 150.0, 100.0),
        leg("02", "2026-11-20T10:01:40+00:00", 80.0, 100.0),
        leg("03", "2026-11-20T10:00:50+00:00", None, 20.0),
    )
    assert bar(shards["01"]) == (0.0, 0.0, 75.0, 50.0)
    assert bar(shards["02"]) == (100.0, 50.0, 90.0, 100.0)
    assert bar(shards["03"]) == (50.0, 25.0, None, 35.0)


def test_each_attempt_has_its_own_zero() -> None:
    shards = rows(
        leg("01", "2026-11-20T05:00:00+00:00", 100.0, 50.0),
        leg("02", AT_TEN, 100.0, 50.0, attempt=2),
        leg("03", "2026-11-20T10:00:10+00:00", 10.0, 10.0, attempt=2),
        attempt=2,
    )
    shown = [(row.run_attempt, row.start_s) for row in shards.values()]
    assert shown == [(1, 0.0), (2, 0.0), (2, 10.0)]
    assert shards["03"].end_x == 20.0


def test_bar_of_an_unknown_start_starts_at_zero() -> None:
    old = leg("02", None, 20.0, 10.0)
    del old["started_at"]
    shards = rows(leg("01", None, 40.0, 10.0), old)
    assert [bar(row) for row in shards.values()] == [
        (None, 0.0, 100.0, 25.0),
        (None, 0.0, 50.0, 25.0),
    ]
    assert rows() == {}


def test_wrong_clock_changes_no_other_bar() -> None:
    wrong = ("1970-01-01", "9999-12-31", "2026-11-19", "2026-11-21")
    shards = rows(
        leg("01", AT_TEN, 150.0, 100.0),
        leg("02", "2026-11-20T10:00:50+00:00", 100.0, 20.0),
        *(leg(day, f"{day}T10:00:00+00:00", 90.0, 60.0) for day in wrong),
    )
    assert bar(shards["02"]) == (50.0, 33.33, 100.0, 46.67)
    assert [bar(shards[day]) for day in wrong] == [(None, 0.0, 60.0, 40.0)] * 4
