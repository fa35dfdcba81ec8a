"""One damage at a time to a green run: the verdict, and what is odd."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guard import damages
from guard.world import World

from ciguard.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from ciguard.guard.verdict import State


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


CASES: list[tuple[Callable[[World], None], State, str]] = [
    (
        damages.record_removed,
        "incomplete",
        "shard 03 of 3 has no record; 3 of 8 units have no result",
    ),
    (
        damages.all_removed,
        "incomplete",
        "shards 01, 02, 03 of 3 have no record; 8 of 8 units have no",
    ),
    (damages.empty_files, "incomplete", "shard 02 of 3 has no record; 2 of 8 units have no result"),
    (
        damages.only_a_header,
        "incomplete",
        "shard 02 of 3 did not end by itself; 2 of 8 units have no",
    ),
    (damages.no_header, "incomplete", "shard 02 of 3 has no record; 2 of 8 units have no result"),
    (damages.no_end, "incomplete", "shard 02 of 3 did not end by itself"),
    (damages.cut_line, "incomplete", "1 of 8 units has no result"),
    (damages.start_without_result, "incomplete", "1 of 8 units has no result"),
    (damages.neither_start_nor_result, "incomplete", "1 of 8 units has no result"),
    (damages.process_file_lost, "incomplete", "3 of 8 units have no result"),
    (damages.one_case_lost, "incomplete", "its end line counts 4 results, its record holds 3"),
    (damages.failed, "failed", "1 of 8 units failed"),
    (damages.timed_out, "failed", "1 of 8 units failed"),
    (damages.crashed, "failed", "1 of 8 units failed"),
    (damages.out_of_memory, "failed", "1 of 8 units failed"),
    (damages.memory_guard, "failed", "1 of 8 units failed"),
    (damages.stopped_at_the_deadline, "incomplete", "1 of 8 units has no result"),
    (damages.cancelled_in_it, "incomplete", "1 of 8 units has no result"),
    (damages.died_of_the_unknown, "incomplete", "1 of 8 units has no result"),
    (damages.leg_at_its_deadline, "incomplete", "shard 01 of 3 did not end by itself"),
    (damages.leg_cancelled, "incomplete", "shard 01 of 3 did not end by itself"),
    (damages.leg_says_incomplete, "incomplete", "shard 01: it ended with exit code 13"),
    (damages.leg_says_failed, "failed", "shard 01 says that tests failed, and its record holds no"),
    (damages.failed_and_a_record_removed, "incomplete", "no result; 1 of 8 units failed"),
    (damages.skipped, "passed", "all 8 units of 3 shards have a result, 1 of them skipped"),
    (damages.flaky, "passed", "all 8 units of 3 shards have a result"),
    (damages.other_plan, "incomplete", "shard 03 of 3 has no record"),
    (damages.other_commit, "incomplete", "shard 02 of 3 has no record"),
    (damages.other_run, "incomplete", "shard 03 of 3 has no record"),
    (damages.unplanned, "passed", "all 8 units"),
    (damages.unplanned_and_failed, "failed", "1 of 8 units failed"),
    (damages.doubled, "passed", "all 8 units"),
    (damages.doubled_and_differing, "failed", "1 of 8 units failed"),
    (damages.passed_behind_a_failure_of_the_same_try, "failed", "1 of 8 units failed"),
    (damages.collection_error, "incomplete", "collecting failed: e.t: ImportError"),
    (damages.not_all_planned, "incomplete", "1 unit collected, and neither planned nor excluded"),
    (damages.excluded, "passed", "all 8 units"),
    (damages.fewer_than_the_base, "incomplete", "8 units were collected, 9 on the base (-11.1 %)"),
    (damages.one_percent_fewer, "passed", "all 99 units of 1 shard"),
    (damages.file_without_units, "passed", "all 8 units"),
    (damages.nothing_planned, "incomplete", "no unit is planned"),
    (damages.copied, "passed", "all 8 units"),
    (damages.copied_and_changed, "incomplete", "contradict each other"),
    (
        damages.red_process,
        "failed",
        "a process of shard 01 of 3 failed, and no failed test explains it",
    ),
    (
        damages.red_process_and_a_failure,
        "failed",
        "1 of 8 units failed; a process of shard 01 of 3",
    ),
    (damages.job("success"), "passed", "all 8 units"),
    (damages.job("failure"), "incomplete", "job legs is 'failure', and no record says why"),
    (damages.job("cancelled"), "incomplete", "job legs is 'cancelled'"),
    (damages.job("skipped"), "incomplete", "job legs is 'skipped'"),
    (damages.job("neutral"), "incomplete", "a word that this version does not know"),
    (damages.job_failed_as_a_test_did, "failed", "1 of 8 units failed"),
    (
        damages.job_cancelled_as_a_test_failed,
        "incomplete",
        "job legs is 'cancelled'; 1 of 8 units failed",
    ),
]


EXIT = {"passed": 0, "failed": 10, "incomplete": 13}


@pytest.mark.parametrize(
    ("damage", "state", "said"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_verdict(damage: Callable[[World], None], state: State, said: str) -> None:
    world = World()
    damage(world)
    verdict = world.prove()
    assert verdict.state == state
    assert verdict.exit_code == EXIT[state]
    assert said in verdict.headline
    assert verdict.headline.startswith(f"{state.upper()}: ")


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
