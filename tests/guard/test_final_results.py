"""From the tries and cases of a unit to the one result that counts."""

from __future__ import annotations

import pytest
from guard import damages
from guard.fixtures import World, make_plan, passed, text_of

from ciguard.model import ProcessEndLine, ProcessLine, Result, UnitKey
from ciguard.render.plaintext import COLUMNS


def test_failure_has_message_file_and_line() -> None:
    world = World()
    world.result("01", "a.t::two", outcome="failed", message="1 != 2", file="a.t", line=17)
    (failure,) = world.prove().failures
    assert failure.shard == "01"
    assert failure.result.key.unit_key == UnitKey("", "", "a.t::two")
    found = (failure.result.message, failure.result.file, failure.result.line)
    assert found == ("1 != 2", "a.t", 17)


def test_a_unit_that_fails_in_another_leg_is_not_flaky() -> None:
    world = World()
    damages.flaky(world)
    world.legs["02"].inner.append(passed("a.t::two", outcome="failed"))
    world.end("02", counts={"passed": 2, "failed": 1}, exit_code=10)
    verdict = world.prove()
    assert [(one.shard, one.result.unit) for one in verdict.failures] == [("02", "a.t::two")]
    assert verdict.flaky == ()


def test_unit_that_passed_after_plugin_reruns_is_flaky() -> None:
    world = World()
    world.result("01", "a.t::two", reruns=2, message="a.t:6: 1 != 2")
    verdict = world.prove()
    assert verdict.state == "passed"
    (flaky,) = verdict.flaky
    assert (flaky.key.unit, flaky.first.outcome) == ("a.t::two", "failed")
    assert "first failed: a.t:6: 1 != 2" in text_of(verdict)


@pytest.mark.parametrize(
    ("ending", "ran_out_of_memory"),
    [("crash", False), ("out_of_memory", True), ("memory_guard", True)],
)
def test_unit_that_died_and_passed_in_the_next_process_passes(
    ending: str, *, ran_out_of_memory: bool
) -> None:
    world = World()
    world.drop("01", Result, unit="a.t::two")
    own = world.legs["01"].own
    own.insert(0, passed("a.t::two", outcome="died", ending=ending))
    own[-1:-1] = [ProcessLine(2, 1, at_s=9.0), ProcessEndLine(2, "completed", 0)]
    own.insert(0, passed("a.t::two", process=2))
    world.end("01", counts={"passed": 3}, exit_code=0)
    verdict = world.prove()
    assert verdict.state == "passed"
    found, other = verdict.passed_after_oom, verdict.flaky
    if not ran_out_of_memory:
        found, other = other, found
    assert ([one.first.ending for one in found], other) == ([ending], ())
    words = (
        "test passed alone after memory ran out"
        if ran_out_of_memory
        else "flaky test: failed, then passed"
    )
    assert f"\n1 {words}" in text_of(verdict)


def test_two_variants_are_two_units() -> None:
    plan = make_plan({"01": ("a.t::one",)})
    world = World(plan=plan)
    world.legs["01"].inner.append(passed("a.t::one", variant="x", outcome="failed"))
    world.end("01", counts={"passed": 1, "failed": 1}, exit_code=10)
    verdict = world.prove()
    assert [failure.result.variant for failure in verdict.failures] == ["x"]


def test_message_of_a_flaky_unit_is_wrapped_not_truncated() -> None:
    short, long = "a.t::two", "a.t::" + "x" * 60
    message = "AssertionError: the till was left open last night and nobody closed it, so the total"
    world = World(plan=make_plan({"01": (short, long)}))
    for unit in (short, long):
        world.result("01", unit, try_number=2)
        first = passed(unit, outcome="failed", try_number=1, message=message)
        world.legs["01"].inner.insert(1, first)
    text = text_of(world.prove())
    output = f"in shard 01, first failed: {message}"
    assert f"- {short} {output} - {long} {output}" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= COLUMNS
