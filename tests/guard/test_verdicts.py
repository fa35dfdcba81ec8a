"""What a green run says it proved, and what is odd and fails nothing."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from guard import damages
from guard.world import World

from ciguard.errors import ExitCode
from ciguard.guard.needs import Job

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_green_run_passes_and_says_what_it_proved() -> None:
    verdict = World().prove()
    assert (verdict.state, verdict.exit_code) == ("passed", ExitCode.OK)
    assert verdict.headline == "PASSED: all 8 units of 3 shards have a result"
    assert (verdict.planned, verdict.ended) == (8, 8)
    assert verdict.counts == {"passed": 8}
    assert not verdict.findings
    assert [leg.shard for leg in verdict.legs] == ["01", "02", "03"]
    first = verdict.legs[0]
    assert (first.planned, first.ended, first.ending) == (3, 3, "completed")
    assert (first.wall_s, first.peak_bytes) == (3.1, 480 * 1024 * 1024)
    assert (first.predicted_wall_s, first.predicted_peak_bytes) == (3.0, 512 * 1024 * 1024)


RESULTS = ("success", "failure", "cancelled", "skipped")  # all that `needs` may say
WARNINGS = [
    (damages.copied, "recorded_twice", "01"),
    (damages.unplanned, "unplanned", "01"),
    (damages.doubled, "doubled", ""),
    (damages.doubled, "elsewhere", "02"),
    (damages.excluded, "excluded", ""),
    (damages.file_without_units, "empty_file", ""),
]


@pytest.mark.parametrize(("damage", "kind", "shard"), WARNINGS)
def test_what_is_odd_is_named(damage: Callable[[World], None], kind: str, shard: str) -> None:
    world = World()
    damage(world)
    found = [finding for finding in world.prove().findings if finding.kind == kind]
    assert [(finding.level, finding.shard) for finding in found] == [("warning", shard)]


@pytest.mark.parametrize("results", list(product(RESULTS, repeat=2)))
def test_whole_records_pass_only_beside_jobs_that_succeeded(results: tuple[str, str]) -> None:
    world = World(needs=(Job("plan", results[0]), Job("legs", results[1])))
    expected = "passed" if results == ("success", "success") else "incomplete"
    assert world.prove().state == expected
