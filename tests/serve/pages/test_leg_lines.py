"""The shards of a run as bars in time, by literals."""

from __future__ import annotations

from typing import Any

from ciguard.serve.pages.leg_lines import LegLine, leg_lines

AT_TEN = "2026-11-20T10:00:00Z"


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


def lines(*legs: dict[str, Any]) -> dict[str, LegLine]:
    return {one.shard: one for one in leg_lines({"legs": list(legs), "findings": []})}


def places(line: LegLine) -> tuple[float | None, float, float | None, float | None]:
    return line.start_s, line.start_x, line.end_x, line.predicted_end_x


def test_bar_begins_when_its_shard_began() -> None:
    found = lines(
        leg("01", AT_TEN, 150.0, 100.0),
        leg("02", "2026-11-20T11:01:40+01:00", 80.0, 100.0),
        leg("03", "2026-11-20T10:00:50", None, 20.0),
    )
    assert places(found["01"]) == (0.0, 0.0, 75.0, 50.0)
    assert places(found["02"]) == (100.0, 50.0, 90.0, 100.0)
    assert places(found["03"]) == (50.0, 25.0, None, 35.0)


def test_shard_that_was_run_again_begins_with_its_attempt() -> None:
    found = lines(
        leg("01", AT_TEN, 100.0, 50.0),
        leg("02", "2026-11-20T15:00:00Z", 100.0, 50.0, attempt=2),
        leg("03", "2026-11-20T15:00:10Z", 10.0, 10.0, attempt=2),
    )
    assert [one.start_s for one in found.values()] == [0.0, 0.0, 10.0]
    assert found["03"].end_x == 20.0


def test_bar_of_which_nobody_knows_when_it_began() -> None:
    old = leg("03", None, 20.0, 10.0)
    del old["started_at"]
    found = lines(leg("01", "soon", 40.0, 10.0), leg("02", "9999-99-99", 10.0, 10.0), old)
    assert [places(one) for one in found.values()] == [
        (None, 0.0, 100.0, 25.0),
        (None, 0.0, 50.0, 25.0),
        (None, 0.0, 25.0, 25.0),
    ]
    assert lines() == {}
