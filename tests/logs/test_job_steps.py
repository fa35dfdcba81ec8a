"""Steps within the log of a job, in lines as GitHub writes them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Final

from ciguard.logs.job_steps import find_steps, with_steps
from ciguard.logs.log_reader import LogReader
from ciguard.model.jobs import Step

LOG: Final = """\
\ufeff2026-06-08T13:58:50.1000000Z Current runner version: '2.330.0'
2026-06-08T13:58:50.2000000Z ##[group]Runner Image
2026-06-08T13:58:51.1000000Z Complete job name: tests (1)
2026-06-08T13:58:51.5000000Z ##[group]Run actions/checkout@v4
2026-06-08T13:58:51.6000000Z ##[endgroup]
2026-06-08T13:58:53.0000000Z Syncing repository: octo-org/shop
2026-06-08T13:58:54.1000000Z [command]/usr/bin/git checkout
2026-06-08T13:58:54.2000000Z ##[group]Run make test
2026-06-08T13:58:54.3000000Z bytes_in_use: 5
2026-06-08T13:58:54.4000000Z ##[group]Run echo inner
2026-06-08T13:58:58.0000000Z bytes_in_use: 7
2026-06-08T13:59:00.0000000Z Post job cleanup.
2026-06-08T13:59:01.0000000Z Cleaning up orphan processes
"""


def at(second: str) -> datetime:
    return datetime.fromisoformat(f"2026-06-08T13:{second}").replace(tzinfo=UTC)


def step(number: int, name: str, started_at: datetime) -> Step:
    return Step(name, number, "success", started_at=started_at)


STEPS: Final = (
    step(1, "Set up job", at("58:50")),
    step(2, "Run actions/checkout@v4", at("58:51")),
    step(3, "Run make test", at("58:54")),
    step(7, "Post Run actions/checkout@v4", at("59:00")),
    step(8, "Complete job", at("59:01")),
)


def test_each_step_begins_at_its_first_line() -> None:
    found = find_steps(io.BytesIO(LOG.encode()), STEPS)
    assert [(line, one.number) for line, one in found.items()] == [
        (1, 1),
        (4, 2),
        (8, 3),
        (12, 7),
        (13, 8),
    ]


def test_steps_in_one_second_begin_one_after_the_other() -> None:
    log = "".join(
        f"2026-06-08T13:58:54.{n}000000Z {text}\n"
        for n, text in enumerate(["##[group]Run a", "x", "##[group]Run b", "y"], 1)
    )
    steps = [step(n, name, at("58:54")) for n, name in ((2, "Run a"), (3, "Run b"))]
    found = find_steps(io.BytesIO(log.encode()), steps)
    assert [(line, one.name) for line, one in found.items()] == [(1, "Run a"), (3, "Run b")]


def test_a_step_without_output_is_none_of_the_log() -> None:
    steps = (*STEPS[:2], step(3, "Run true", at("58:52")), step(4, "x", at("58:52")))
    log = "".join(LOG.splitlines(keepends=True)[:6])
    found = find_steps(io.BytesIO(log.encode()), steps)
    assert [(line, one.number) for line, one in found.items()] == [(1, 1), (4, 2), (6, 4)]


def test_values_are_placed_in_their_step() -> None:
    reading = LogReader().read(io.BytesIO(LOG.encode()))
    starts = find_steps(io.BytesIO(LOG.encode()), STEPS)
    placed = [one.place for one in with_steps(reading, starts).values]
    assert [(one.step, one.step_number, one.line) for one in placed] == [
        ("Run make test", 3, 2),
        ("Run make test", 3, 4),
    ]
    unnamed = [one.place.step for one in with_steps(reading, starts, named=False).values]
    assert unnamed == ["", ""]
