"""From the tries and cases of a unit to the one result that counts."""

from __future__ import annotations

from guard import damages
from guard.world import World, make_plan, passed

from ciguard.model import (
    StartLine,
    UnitKey,
)


def test_a_failure_carries_what_a_reader_needs() -> None:
    world = World()
    world.result("01", "a.t::two", outcome="failed", message="1 != 2", file="a.t", line=17)
    (failure,) = world.prove().failures
    assert failure.shard == "01"
    assert failure.result.key.unit_key == UnitKey("", "", "a.t::two")
    found = (failure.result.message, failure.result.file, failure.result.line)
    assert found == ("1 != 2", "a.t", 17)


def test_fail_then_pass_is_flaky_within_a_leg() -> None:
    world = World()
    damages.flaky(world)
    (flaky,) = world.prove().flaky
    assert (flaky.key.unit, flaky.shard, flaky.first.outcome) == ("a.t::two", "01", "failed")


def test_a_unit_that_died_and_passed_in_the_next_process_is_flaky() -> None:
    world = World()
    world.result("01", "a.t::two", process=2)
    world.legs["01"].own.insert(0, passed("a.t::two", outcome="died", ending="out_of_memory"))
    world.end("01", counts={"passed": 3}, exit_code=0)
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [one.first.ending for one in verdict.flaky] == ["out_of_memory"]


def test_a_second_try_that_did_not_finish_is_missing() -> None:
    world = World()
    world.legs["01"].inner.append(StartLine("a.t::two", process=2))
    verdict = world.prove()
    assert verdict.state == "incomplete"
    assert [one.reason for one in verdict.missing] == ["its last try did not finish"]


def test_one_bad_case_is_a_failed_unit() -> None:
    world = World()
    leg = world.legs["01"]
    leg.inner.append(passed("a.t::two", case="a.t::two[x=1]"))
    leg.inner.append(passed("a.t::two", case="a.t::two[x=2]", outcome="failed"))
    world.end("01", counts={"passed": 4, "failed": 1}, exit_code=10)
    verdict = world.prove()
    assert [failure.result.case for failure in verdict.failures] == ["a.t::two[x=2]"]
    assert verdict.counts == {"passed": 9, "failed": 1}


def test_two_variants_are_two_units() -> None:
    plan = make_plan({"01": ("a.t::one",)})
    world = World(plan=plan)
    world.legs["01"].inner.append(passed("a.t::one", variant="x", outcome="failed"))
    world.end("01", counts={"passed": 1, "failed": 1}, exit_code=10)
    verdict = world.prove()
    assert [failure.result.variant for failure in verdict.failures] == ["x"]
