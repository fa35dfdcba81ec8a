"""Failures that count and those that do not; what a policy can never excuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from conftest import Golden
from guard.fake_jobs import FAILED, KILLED, FakeRunApi, job, verdict_of
from guard.fixtures import World, make_plan, passed, text_of

from ciguard.codec.quarantine import Entry
from ciguard.codec.record.lines import encode
from ciguard.guard.annotations_and_outputs import outputs_of
from ciguard.guard.github_facts import NeededJob, check_needs
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.verdict import Finding, Policy
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.history.query import KnownFailure
from ciguard.model import CaseKey, EventLine, Line, ProcessEndLine, ProcessLine, Result, StartLine
from ciguard.render.markdown import SizeLimit, utf16_units
from ciguard.render.plaintext import COLUMNS
from ciguard.report.view import Report, ReportData

SAMPLES = Path(__file__).parent.parent / "samples" / "guard"
SCRUB = {r"\b[0-9a-f]{12}\b": "PLAN"}
UNTIL = date(2026, 12, 1)


def entry(unit: str, **more: Any) -> Entry:
    return Entry(
        unit=unit, reason="the mail server answers late", issue="#4711", until=UNTIL, **more
    )


def known(unit: str) -> dict[CaseKey, KnownFailure]:
    return {CaseKey("", "", unit, unit): KnownFailure("failed", 123, 150, "main")}


def red(policy: Policy, *units: str) -> World:
    world = World(policy=policy)
    for unit in units or ("a.t::two",):
        key = next(
            shard.key for shard in world.plan.shards if unit in {u.unit for u in shard.units}
        )
        world.result(key, unit, outcome="failed", message="AssertionError: no mail")
    return world


@pytest.mark.parametrize(
    "one", [entry("a.t::two"), entry("a.t::*"), entry("*two", suite="", variant="")]
)
def test_quarantined_failure_is_shown_and_does_not_fail_the_run(one: Entry) -> None:
    verdict = red(Policy(quarantine=(one,))).prove()
    assert verdict.state == "passed"
    assert headline(verdict) == (
        "PASSED: all 8 tests of 3 shards have a result; 1 quarantined test failed"
    )
    assert not verdict.failures
    assert not verdict.failure_groups
    (shown,) = verdict.quarantined
    assert (shown.shard, shown.result.unit, shown.result.outcome) == ("01", "a.t::two", "failed")
    assert note_text(shown.reason) == "the mail server answers late (#4711, until 2026-12-01)"
    assert verdict.counts == {"passed": 7, "failed": 1}
    assert outputs_of(verdict)["quarantined"] == "1"


def test_numbers_of_results_are_empty_where_there_is_none() -> None:
    world = World()
    world.legs.clear()
    outputs = outputs_of(world.prove())
    expected = {"planned": "8", "executed": "0", "missing": "8", "failed": "", "flaky": ""}
    assert {name: outputs[name] for name in expected} == expected


@pytest.mark.parametrize(
    "one",
    [
        entry("b.t::*"),
        entry("a.t::two", suite="other"),
        entry("a.t::two", variant="x"),
        entry("A*"),
    ],
)
def test_failure_that_no_entry_matches_fails(one: Entry) -> None:
    assert red(Policy(quarantine=(one,))).prove().state == "failed"


def test_id_with_brackets_matches_literally() -> None:
    plan = make_plan({"01": ("a.t::two[x]", "a.t::twox")})
    for unit, state in (("a.t::two[x]", "passed"), ("a.t::twox", "failed")):
        world = World(plan=plan, policy=Policy(quarantine=(entry("a.t::two[x]"),)))
        world.result("01", unit, outcome="failed")
        # As a pattern it means "twox" as well: fnmatch has no other way to say it.
        assert world.prove().state == ("passed" if unit == "a.t::twox" else state)


def test_a_quarantined_unit_that_did_not_run_is_missing() -> None:
    world = World(policy=Policy(quarantine=(entry("a.t::two"),)))
    world.drop("01", Result, StartLine, unit="a.t::two")
    world.end("01", counts={"passed": 2})
    assert world.prove().state == "incomplete"


def test_quarantine_excuses_a_crash_or_timeout_but_no_stopped_unit() -> None:
    for ending, state in (("timeout", "passed"), ("crash", "passed"), ("deadline", "incomplete")):
        world = World(policy=Policy(quarantine=(entry("a.t::two"),)))
        world.result("01", "a.t::two", outcome="died", ending=ending)
        assert world.prove().state == state


def test_unexplained_exit_is_not_excused() -> None:
    world = red(Policy(quarantine=(entry("a.t::two"),)))
    event = EventLine("unexplained_exit", 3.0, 1, detail="exit code 1\n")
    world.legs["01"].own.insert(-1, event)
    assert world.prove().state == "failed"


@pytest.mark.parametrize("quarantined", [True, False])
def test_process_crash_is_not_excused_by_a_failed_unit(quarantined: bool) -> None:
    """Not even where the leg did not say itself that nothing explains it."""
    policy = Policy(quarantine=(entry("a.t::two"),)) if quarantined else Policy()
    world = red(policy) if quarantined else World()
    own = world.legs["01"].own
    (at,) = [at for at, line in enumerate(own) if isinstance(line, ProcessEndLine)]
    own[at : at + 1] = [
        EventLine("last_output", 3.0, 1, detail="killed by SIGSEGV\n"),
        ProcessEndLine(1, "crash", -11, 3.0),
    ]
    verdict = world.prove()
    assert verdict.state == "failed"
    (finding,) = [one for one in verdict.findings if one.level == "failed"]
    assert finding_message(finding).startswith("shard 01: process 1 ended by crash (SIGSEGV)")
    assert finding_fix(finding) == "check why it ended"


# Where a process was killed, and what the run is with the unit before it in quarantine.
KILLED_WHERE = [
    ("in the unit", "passed", []),
    ("between units", "passed", ["died_between_tests"]),
    ("behind the last unit", "failed", ["died_between_tests"]),
]


@pytest.mark.parametrize(("where", "state", "kinds"), KILLED_WHERE)
def test_quarantined_unit_excuses_only_crashes_it_caused(
    where: str, state: str, kinds: list[str]
) -> None:
    world = World(policy=Policy(quarantine=(entry("a.t::two"),)))
    in_it = where == "in the unit"
    how = {"outcome": "died", "ending": "crash"} if in_it else {"outcome": "failed"}
    world.result("01", "a.t::two", **how)
    leg = world.legs["01"]
    more: list[Line] = []
    if where != "behind the last unit":  # the third unit runs in another process
        more = [
            ProcessLine(2, 1, at_s=0.0, reason="restart"),
            ProcessEndLine(2, "completed", 0, 1.0),
        ]
        third = [
            replace(line, process=2)
            for line in leg.inner
            if isinstance(line, Result | StartLine) and line.unit == "b.t::three"
        ]
        world.drop("01", Result, StartLine, unit="b.t::three")
        world.extra[f"{leg.folder}/process-002.jsonl"] = b"".join(map(encode, third))
    (at,) = [at for at, line in enumerate(leg.own) if isinstance(line, ProcessEndLine)]
    leg.own[at : at + 1] = [
        EventLine("last_output", 3.0, 1, detail="killed by SIGKILL\n"),
        ProcessEndLine(1, "crash", -9, 3.0),
        *more,
    ]
    verdict = world.prove()
    assert (verdict.state, [one.kind for one in verdict.findings]) == (state, kinds)
    assert [one.result.unit for one in verdict.quarantined] == ["a.t::two"]


def test_quarantined_failure_excuses_no_other_job() -> None:
    world = red(Policy(quarantine=(entry("a.t::two"),)))
    for state, jobs in (
        ("incomplete", {"tests": "success", "lint": "failure"}),
        ("incomplete", {"tests": "failure", "lint": "failure"}),
        ("passed", {"tests": "failure", "lint": "success"}),  # as the records call it
        ("passed", {"suite": "failure", "lint": "success"}),  # nobody else needs one
        ("incomplete", {"suite": "failure", "lint": "failure"}),
        ("passed", {"tests": "failure", "plan": "success"}),
        ("incomplete", {"tests": "cancelled", "plan": "success"}),
        ("incomplete", {"tests": "skipped", "plan": "success"}),
        ("incomplete", {"plan": "failure"}),
    ):
        world.needs = tuple(NeededJob(*one) for one in jobs.items())
        assert world.prove().state == state, jobs


def test_job_conclusion_from_github_is_not_excused() -> None:
    world = red(Policy(quarantine=(entry("a.t::two"),)))
    world.needs = (NeededJob("tests", "failure"),)
    for conclusion, steps, state in (
        ("failure", FAILED, "passed"),
        ("cancelled", KILLED, "incomplete"),
        ("skipped", (), "incomplete"),
    ):
        reported = FakeRunApi(special=(job("01", conclusion, steps=steps),))
        assert verdict_of(world, reported).state == state, conclusion
    # Another leg's job is red, and no record says why: the quarantined failure is not its reason.
    reported = FakeRunApi(
        special=(job("01", "failure", steps=FAILED), job("02", "failure", steps=FAILED))
    )
    assert verdict_of(world, reported).state == "incomplete"


def test_another_job_called_tests_is_not_excused_by_the_records() -> None:
    jobs = (NeededJob("tests", "failure"), NeededJob("unit", "failure"))
    found = check_needs(jobs, is_explained=True, is_excused=True, names={"unit", ""})
    assert [one.kind for one in found] == ["job_unexplained", "job_excused"]


def test_failed_job_is_explained_by_the_unexcused_failure() -> None:
    world = red(Policy(quarantine=(entry("a.t::two"),)), "a.t::two", "c.t::four")
    world.needs = (NeededJob("tests", "failure"),)
    verdict = world.prove()
    assert headline(verdict) == "FAILED: 1 of 8 tests failed; 1 quarantined test failed"
    assert [(one.level, one.kind) for one in verdict.findings] == [("failed", "job_failed")]


def test_base_failure_is_ignored_and_listed() -> None:
    verdict = red(Policy(base_failures=known("a.t::two"))).prove()
    assert verdict.state == "passed"
    assert headline(verdict).endswith("; 1 ignored test failed")
    (one,) = verdict.failing_on_base
    assert note_text(one.reason) == "also fails on main since run 123"
    assert red(Policy(base_failures=known("a.t::one"))).prove().state == "failed"


@pytest.mark.parametrize(
    ("outcome", "ending", "state"),
    [
        ("errored", "completed", "passed"),
        ("died", "crash", "failed"),
        ("died", "timeout", "failed"),
    ],
)
def test_ending_worse_than_on_the_base_fails(outcome: str, ending: str, state: str) -> None:
    world = World(policy=Policy(base_failures=known("a.t::two")))
    world.result("01", "a.t::two", outcome=outcome, ending=ending)
    assert world.prove().state == state


def test_stale_quarantine_entries_are_a_warning() -> None:
    entries = (entry("a.t::*"), entry("c.t::four"), entry("gone.t"), entry("d.t::six"))
    world = red(Policy(quarantine=entries), "c.t::four")
    world.result("03", "d.t::six", outcome="skipped")
    found = [one for one in world.prove().findings if one.kind.startswith("quarantine_")]
    assert [(one.level, finding_message(one)) for one in found] == [
        ("warning", "quarantine.toml: a.t::* is stale: 2 tests passed"),
        ("warning", "quarantine.toml: gone.t is stale: it matches no test of this plan"),
    ]


def test_entry_of_a_flaky_unit_is_not_stale() -> None:
    world = World(policy=Policy(quarantine=(entry("a.t::two"),)))
    world.result("01", "a.t::two", try_number=2)
    world.legs["01"].inner.insert(1, passed("a.t::two", outcome="failed", try_number=1))
    assert world.prove().findings == ()
    world = World(policy=Policy(quarantine=(entry("a.t::two"),)))
    world.result("01", "a.t::two", reruns=1)
    assert world.prove().findings == (), "a plugin executed it again"


def policy_change(*keys: str) -> Finding:
    facts = {"event": "pull_request", "keys": keys}
    return Finding("policy_changed", facts=facts)


def test_policy_finding_fails_and_its_note_ends_the_headline() -> None:
    facts = {"problem": "quarantine.toml: a.t has expired on 2026-11-01"}
    problem = Finding("quarantine", facts=facts)
    policy = Policy(findings=(problem, policy_change("guard.max_drop")))
    verdict = World(policy=policy).prove()
    assert verdict.exit_code == 10
    assert headline(verdict) == (
        "FAILED: quarantine.toml: a.t has expired on 2026-11-01; "
        "this pull request changes guard.max_drop"
    )


def world_with_policy() -> World:
    """A run with all that a policy can say of it."""
    policy = Policy(
        quarantine=(entry("b.t::*"), entry("d.t::six")),
        base_failures=known("c.t::four"),
        findings=(policy_change("quarantine.toml", "guard.max_drop"),),
    )
    units = ("a.t::one", "a.t::two", "b.t::three", "c.t::four", "c.t::five")
    world = red(policy, *units)
    for unit in units[:2]:
        message = f"shop/mail.py:41: SMTPException: 421 from 10.0.0.{len(unit)}"
        world.result("01", unit, outcome="failed", message=message, file="a.t", line=3)
    world.needs = (NeededJob("legs", "failure"), NeededJob("plan", "success"))
    return world


def test_policy_verdict_as_text_markdown_and_json(golden: Golden) -> None:
    world = world_with_policy()
    verdict = world.prove()
    text = text_of(verdict)
    golden(text, SAMPLES / "judged.txt", scrub=SCRUB)
    assert max(map(len, text.splitlines())) <= COLUMNS
    text = Report(ReportData(world.plan, verdict), 0).text(SizeLimit(65_000, utf16_units))
    golden(text, SAMPLES / "judged.md", scrub=SCRUB)
    found = as_json(verdict)
    assert [one["reason"]["facts"] for one in found["failing_on_base"]] == [
        {"branch": "main", "since_run": 123}
    ]
    assert [one["unit"] for one in found["quarantined"]] == ["b.t::three"]
    assert [(one["kind"], one["failures"], one["shards"]) for one in found["failure_groups"]] == [
        ("SMTPException", 2, ["01"]),
        ("AssertionError", 1, ["02"]),
    ]
