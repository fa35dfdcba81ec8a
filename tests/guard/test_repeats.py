"""Repeats of new and changed tests: what the run says of them, and that they change no result."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from guard.damages import flaky
from guard.fixtures import SHARDS, VERDICT_SCHEMA, World, make_leg, make_plan, text_of

from ciguard.codec.quarantine import Entry
from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.guard.github_facts import NeededJob, RunFacts
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.verdict import Policy
from ciguard.guard.wording import finding_message, repeats_text
from ciguard.model import EndLine, PlanNote, ProcessLine, Result
from ciguard.model.probes import Repeats

FOUND = "times: a test that fails 1 in 10 times would be found with"


@pytest.mark.parametrize(
    ("tests", "text"),
    [
        ([], ""),
        ([("new", 20)], f"1 new test repeated 20 {FOUND} 87 %"),
        ([("new", 20), ("new", 14)] * 6, f"12 new tests repeated 14 to 20 {FOUND} 77 to 87 %"),
        (
            [("new", 5), ("changed", 4), ("changed", 0)],
            f"1 new or changed test repeated 5 {FOUND} 40 %; 1 repeated fewer than 5 times; "
            "1 not repeated: new_tests.budget was spent",
        ),
        ([("changed", 0)] * 3, "3 changed tests not repeated: new_tests.budget was spent"),
        ([("new", 2, 1), ("new", 0, 1)], "2 of 2 new tests failed when repeated: t0, t1"),
        (
            [("new", 2, 1), ("new", 2)],
            "1 of 2 new tests failed when repeated; 1 repeated fewer than 5 times",
        ),
        (
            [("new", 17, 3), ("new", 10), ("new", 10**6)],  # the last one is forged
            f"1 of 3 new tests failed when repeated; 2 passed 10 to 1,000,000 {FOUND} 65 to 99 %",
        ),
    ],
)
def test_summary_says_what_repeats_would_have_found(tests: list[Any], text: str) -> None:
    found = {f"t{number}": Repeats(*test) for number, test in enumerate(tests)}
    assert repeats_text(found) == text


def test_summary_counts_tests_beyond_the_limit() -> None:
    verdict = flaky_world().prove()
    note = PlanNote("repeats_omitted", {"tests": 1_200, "at_most": 2})
    plan = replace(verdict.plan, warnings=(note,))
    text = text_of(replace(verdict, plan=plan))
    assert f"{LINE}; 1,200 not repeated: more than new_tests.at_most" in " ".join(text.split())


def world_of(changes: dict[str, str], **policy: Any) -> World:
    """The run of the fixtures, in which these units are new or changed."""
    return World(make_plan(change=changes), policy=Policy(**policy))


def flaky_world(**policy: Any) -> World:
    world = world_of({"a.t::two": "new", "c.t::four": "changed"}, **policy)
    world.repeat("01", "a.t::two", "ppf.pfpfpppp", "\x1b[31m<b>1 == 2\nmore")
    world.repeat("02", "c.t::four", "p" * 20)
    return world


TEXT = r"flaky new test a.t::two: 3 of 11 executions failed: \x1b[31m<b>1 == 2"
PASSED = "PASSED: all 8 tests of 3 shards have a result"
LINE = f"1 of 2 new or changed tests failed when repeated; 1 passed 20 {FOUND} 87 %"
ENTRY = Entry(unit="a.t::*", reason="late", issue="#7", until=date(2026, 12, 1))


@pytest.mark.parametrize(
    ("policy", "first", "level"),
    [
        ({}, f"{PASSED}; {TEXT}", "warning"),
        ({"new_tests": "enforce"}, f"FAILED: {TEXT}", "error"),
        ({"new_tests": "enforce", "quarantine": (ENTRY,)}, f"{PASSED}; {TEXT}", "warning"),
        ({"new_tests": "off"}, PASSED, ""),
    ],
)
def test_failed_repeat_is_named_as_the_policy_says(
    policy: dict[str, Any], first: str, level: str
) -> None:
    verdict = flaky_world(**policy).prove()
    assert (verdict.exit_code, headline(verdict)) == (10 if level == "error" else 0, first)
    assert "quarantine_passed" not in {finding.kind for finding in verdict.findings}
    shown = [(one.level, one.message) for one in annotations_of(verdict) if "flaky" in one.title]
    assert shown == [(level, TEXT)] * bool(level)
    assert (f" {LINE} 3 shards, " in " ".join(text_of(verdict).split())) == bool(level)
    content = as_json(verdict)
    VERDICT_SCHEMA.validate(content)
    found = {"change": "new", "passed": 8, "failed": 3, "message": "\x1b[31m<b>1 == 2\nmore"}
    found |= {"passed_alone": 3, "failed_alone": 2}
    key = {"suite": "", "variant": "", "unit": "a.t::two"}
    assert content["repeats"][:1] == [{**key, **found}] * bool(level)


@pytest.mark.parametrize(
    ("letters", "how"),
    [
        ("pf" * 4, "fails alone, and passes after tests of its file: 4 of 8"),
        ("fp" * 4, "passes alone, and fails after tests of its file: 4 of 8"),
        ("f" * 5, "fails whenever it runs again: 5 of 5"),
        ("fp" * 3, ""),  # one in 32 tests that fail every second time do so
        ("fpfpfpff", ""),
    ],
)
def test_failure_that_is_no_chance_is_no_flaky_test(letters: str, how: str) -> None:
    world = world_of({"a.t::two": "new"}, new_tests="enforce")
    world.repeat("01", "a.t::two", letters)
    verdict = world.prove()
    (finding,) = verdict.findings
    text = finding_message(finding)
    assert text == f"new test a.t::two {how} executions failed: no" if how else "flaky" in text
    assert headline(verdict) == f"FAILED: {text}"


def test_new_test_that_passed_in_a_retry_is_flaky() -> None:
    world = world_of({"a.t::two": "new"}, new_tests="enforce")
    flaky(world)
    assert headline(world.prove()) == "FAILED: flaky new test a.t::two: 1 of 2 executions failed"


def test_few_flaky_tests_are_named_and_the_others_counted() -> None:
    units = sorted(unit for shard in SHARDS.values() for unit in shard)
    worst = tuple(ENTRY.model_copy(update={"unit": unit}) for unit in units[3:])
    world = world_of(dict.fromkeys(units, "changed"), new_tests="enforce", quarantine=worst)
    for shard, of_shard in SHARDS.items():
        for unit in of_shard:
            world.repeat(shard, unit, "p" + "f" * (1 + units.index(unit)))
    verdict = world.prove()
    assert headline(verdict) == "FAILED: 8 new or changed tests failed when repeated"
    messages = [finding_message(one) for one in verdict.findings if "flaky" in one.kind]
    assert messages[0] == "3 more new or changed tests failed when repeated"
    assert sorted(messages[1:]) == [
        f"flaky changed test {unit}: {n} of {n + 1} executions failed: no"
        for n, unit in enumerate(units[3:], 4)
    ]


def test_repeats_are_of_the_record_that_gave_the_result_and_of_planned_tests_that_passed() -> None:
    world = world_of(dict.fromkeys((*SHARDS["01"], *SHARDS["02"], "d.t::six", "d.t::eight"), "new"))
    world.result("01", "a.t::one", outcome="failed", message="no")
    world.result("01", "a.t::two", outcome="skipped")
    for unit in ("a.t::one", "z.t::unplanned"):
        world.repeat("01", unit, "f" * 6)
    world.repeat("01", "b.t::three", "p" * 6)
    world.repeat("02", "c.t::four", "f" * 6)
    world.extra.update(world.legs["02"].files())
    world.legs["02"] = make_leg(world.plan, "02", attempt=2)
    world.repeat("02", "c.t::five", "ppp")
    world.drop("03", EndLine)  # killed
    world.drop("03", Result, unit="d.t::eight")
    verdict = world.prove()
    found = [(key.unit, repeats.passed) for key, repeats in verdict.repeats.items()]
    assert found == [("b.t::three", 6), ("c.t::five", 3), ("c.t::four", 0), ("d.t::six", 0)]
    assert not [finding for finding in verdict.findings if "flaky" in finding.kind]
    world.plan = replace(world.plan, drill="timeout")
    assert not world.prove().repeats


def test_repeats_change_nothing_else_wherever_they_are_cut() -> None:
    """A leg is killed after any line of its repeats."""
    for kept in range(1, 60):
        world = flaky_world()
        for leg in world.legs.values():
            end = next(n for n, line in enumerate(leg.own, 1) if isinstance(line, EndLine))
            leg.own = leg.own[: end + kept - 1]
        lines = [line for leg in world.legs.values() for line in leg.own]
        started = {line.process for line in lines if isinstance(line, ProcessLine)}
        world.extra = {
            path: content for path, content in world.extra.items() if int(path[-9:-6]) in started
        }
        verdict = world.prove()
        assert {one.kind for one in verdict.findings} <= {"flaky_new_test"}
        bare = replace(verdict, repeats={}, findings=())
        assert bare == replace(World(world.plan).prove(), repeats={}, findings=())


@pytest.mark.parametrize(
    ("result", "is_killed", "platform", "state"),
    [
        ("failure", True, RunFacts(), "passed"),
        ("failure", True, None, "incomplete"),  # another job of the matrix may have failed
        ("failure", False, RunFacts(), "incomplete"),
        ("cancelled", True, RunFacts(), "incomplete"),
    ],
)
def test_kill_during_repeats_explains_the_failed_job(
    result: str, is_killed: bool, platform: RunFacts | None, state: str
) -> None:
    world = flaky_world()
    world.needs = (NeededJob("tests", result),)
    if is_killed:
        del world.legs["01"].own[-1:]
    assert world.prove(platform).state == state
