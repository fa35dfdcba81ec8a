"""What a green run says it proved, and what is odd and fails nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from guard import damages
from guard.fixtures import World, make_plan, passed, text_of, two_suites

from ciguard.codec.record.reader import read_records
from ciguard.document import plain
from ciguard.errors import ExitCode
from ciguard.guard.github_facts import NeededJob, RunFacts
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.prove import prove
from ciguard.guard.verdict import Failure, Policy
from ciguard.guard.view import document, sections
from ciguard.guard.wording import finding_fix, finding_message
from ciguard.model import EventLine, Result
from ciguard.render.links import NO_LINKS
from ciguard.render.markdown import as_markdown
from ciguard.render.notes import Note
from ciguard.report.answer import status_line


def test_complete_run_passes_with_counts() -> None:
    verdict = World().prove()
    assert (verdict.state, verdict.exit_code) == ("passed", ExitCode.OK)
    assert headline(verdict) == "PASSED: all 8 tests of 3 shards have a result"
    assert (verdict.planned, verdict.with_result) == (8, 8)
    assert verdict.counts == {"passed": 8}
    assert not verdict.findings
    assert [leg.shard for leg in verdict.legs] == ["01", "02", "03"]
    first = verdict.legs[0]
    assert (first.planned, first.with_result, first.ending) == (3, 3, "completed")
    assert (first.wall_s, first.peak_bytes) == (3.1, 480 * 1024 * 1024)
    assert (first.predicted_wall_s, first.predicted_peak_bytes) == (3.0, 512 * 1024 * 1024)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00+00:00"),
        ("2026-11-20T11:00:00.5+01:00", "2026-11-20T10:00:00.500000+00:00"),
        ("2026-11-20T10:00:00", "2026-11-20T10:00:00+00:00"),
        ("0001-01-01T00:00:00+14:00", None),
        ("soon", None),
        (None, None),
    ],
)
def test_start_of_a_leg_is_in_utc(text: str | None, expected: str | None) -> None:
    world = World()
    world.legs["01"].header = replace(world.legs["01"].header, started_at=text)
    assert as_json(world.prove())["legs"][0]["started_at"] == expected


def test_start_of_a_leg_that_resumed_an_earlier_one_is_unknown() -> None:
    """Its times count from the start of the earlier one."""
    world = World()
    leg = world.legs["01"]
    leg.header = replace(leg.header, started_at="2026-11-20T10:00:00Z")
    leg.own.insert(0, EventLine("resumed", 0.0))
    assert world.prove().legs[0].started_at is None


def test_each_failure_is_reproduced_the_earliest_first() -> None:
    verdict = World().prove()
    failures = [
        Failure("01", Result("a.t::alphabetical", "failed", at_s=9.0)),
        Failure("01", Result("z.t::chronological", "failed", at_s=2.0)),
    ]
    verdict = replace(verdict, failures=tuple(failures))
    names = ["z.t::chronological", "a.t::alphabetical"]
    pattern = r"--shard 01 --record again --until (\S+)</code>"
    assert re.findall(pattern, as_markdown(document(verdict))) == names
    text = as_markdown(sections(verdict, listed=failures[:1]))
    assert re.findall(pattern, text) == names[::-1]


RESULTS = ("success", "failure", "cancelled", "skipped")  # all that `needs` may say
WARNINGS = [
    (damages.copied, "duplicate_record", "01"),
    (damages.metric_without_number, "unreadable_metric", "02"),
    (damages.unplanned, "unplanned", "01"),
    (damages.doubled, "ran_in_several_shards", ""),
    (damages.excluded, "excluded", ""),
]


@pytest.mark.parametrize(("damage", "kind", "shard"), WARNINGS)
def test_unusual_records_are_a_warning(
    damage: Callable[[World], None], kind: str, shard: str
) -> None:
    world = World()
    damage(world)
    found = [finding for finding in world.prove().findings if finding.kind == kind]
    assert [(finding.level, finding.shard) for finding in found] == [("warning", shard)]


@pytest.mark.parametrize("results", list(product(RESULTS, repeat=2)))
def test_complete_records_pass_only_if_all_jobs_succeeded(results: tuple[str, str]) -> None:
    world = World(needs=(NeededJob("plan", results[0]), NeededJob("legs", results[1])))
    expected = "passed" if results == ("success", "success") else "incomplete"
    assert world.prove().state == expected


def test_needs_without_a_job_is_a_warning() -> None:
    (finding,) = World(needs=()).prove().findings
    assert (finding.level, finding.kind) == ("warning", "needs_empty")
    assert finding_message(finding).startswith("`needs` names no job")
    assert "needs:" in finding_fix(finding)


def test_that_the_ends_of_the_jobs_are_unknown_is_named() -> None:
    world = World()
    unknown = RunFacts(run_id=7, run_attempt=1, unknown=Note("no_token"))
    records = read_records(world.files().items())
    verdict = prove(world.plan, records, platform=unknown)
    output = next(finding_message(one) for one in verdict.findings if one.kind == "jobs_unknown")
    assert output == ("the verdict does not consider how the jobs ended: there is no GITHUB_TOKEN")


def test_headline_leads_with_all_tests_skipped() -> None:
    world = World()
    for shard in world.plan.shards:
        for unit in shard.units:
            world.result(shard.key, unit.unit, outcome="skipped")
    verdict = world.prove()
    assert headline(verdict) == "INCOMPLETE: NOTHING RAN: 8 tests, all skipped"
    assert verdict.exit_code == ExitCode.INCOMPLETE
    world.policy = Policy(empty="pass")
    accepted = world.prove()
    assert headline(accepted) == "PASSED, but NOTHING RAN: all 8 tests of 3 shards were skipped"
    assert accepted.exit_code == ExitCode.OK
    (finding,) = accepted.findings
    assert (finding.level, finding.kind) == ("warning", "nothing_ran")
    world.policy = Policy()
    world.result("01", "a.t::two")
    verdict = world.prove()
    assert headline(verdict) == "PASSED: all 8 tests of 3 shards have a result, 7 of them skipped"
    assert not verdict.findings


def test_headline_counts_skipped_cases_where_a_unit_has_several() -> None:
    world = World()
    world.legs["01"].inner.append(passed("a.t::two", case="second", outcome="skipped"))
    world.result("01", "a.t::one")  # counts again
    said = "PASSED: all 8 tests of 3 shards have a result, 1 of 9 cases skipped"
    assert headline(world.prove()) == said


def test_expected_failure_is_not_counted_as_skipped() -> None:
    world = World()
    for unit, message in (("a.t::one", "xfail: issue 7"), ("a.t::two", "xfail: [NOTRUN] hangs")):
        world.result("01", unit, outcome="skipped", message=message)
    verdict = world.prove()
    assert verdict.counts == {"passed": 6, "skipped": 1, "xfailed": 1}
    assert headline(verdict).endswith("have a result, 1 of them skipped")


@pytest.mark.parametrize(
    ("share", "state"), [(None, "passed"), (0.5, "passed"), (0.51, "incomplete")]
)
def test_run_that_executes_too_few_tests_is_incomplete(share: float | None, state: str) -> None:
    world = World(policy=Policy(min_executed=share))
    for shard, unit, message in (
        ("01", "a.t::one", "Skipped: gpu\nmore"),
        ("02", "c.t::four", "Skipped: gpu"),
        ("03", "d.t::six", "xfail: [NOTRUN] hangs"),
        ("01", "a.t::two", "xfail: issue 7"),  # this one ran
        ("01", "b.t::three", None),
    ):
        world.result(shard, unit, outcome="skipped", message=message)
    verdict = world.prove()
    assert verdict.state == state
    if state == "incomplete":
        assert headline(verdict) == (
            "INCOMPLETE: 4 of 8 listed tests were executed (50.0 %), and guard.min_executed is "
            "51.0 %; the others: 2 gpu, 1 no reason, 1 xfail: [NOTRUN] hangs"
        )
        assert verdict.exit_code == ExitCode.INCOMPLETE


def test_unit_without_a_result_did_not_execute() -> None:
    world = World(policy=Policy(min_executed=0.8))
    world.legs["01"].inner.append(passed("a.t::two", case="second", outcome="skipped"))
    del world.legs["02"]
    (finding,) = [one for one in world.prove().findings if one.kind == "few_executed"]
    assert (finding.facts["executed"], finding.facts["count"]) == (6, 9)
    assert finding.facts["reasons"] == ("2 no result", "1 no reason")


def test_headline_counts_files_where_units_are_files() -> None:
    plan = make_plan({"01": ("a.test.js", "b.test.js"), "02": ("c.test.js",)})
    plan = replace(plan, suites={"": replace(plan.suites[""], framework="mocha")})
    world = World(plan)
    world.legs["01"].inner.append(passed("a.test.js", case="adds", outcome="skipped"))
    world.end("01", counts={"passed": 2, "skipped": 1})
    said = "all 3 test files of 2 shards have a result, 1 of 4 cases skipped"
    assert headline(world.prove()) == f"PASSED: {said}"
    world.result("02", "c.test.js", outcome="died", ending="crash")
    verdict = world.prove()
    assert "1 of 3 test files failed" in headline(verdict)
    status = plain(status_line(verdict, None, NO_LINKS).content)
    early = ", not c.test.js (cases that it did not report are not counted)"
    assert status.startswith(f"2 of 3 test files ran to the end{early} · 2 cases ran · 1 skipped")


def test_file_that_died_in_two_variants_counts_twice() -> None:
    suites = {key: replace(suite, framework="jest") for key, suite in two_suites().suites.items()}
    world = World(replace(two_suites(), suites=suites))
    leg = world.legs["01"]
    for at, line in enumerate(leg.inner):
        if isinstance(line, Result) and line.variant:
            leg.inner[at] = replace(line, outcome="died", ending="crash")
    world.end("01", exit_code=10, counts={"passed": 1, "died": 2})
    status = plain(status_line(world.prove(), None, NO_LINKS).content)
    named = "[web/node 20] t, [web/node 22] t (cases that it did not report are not counted)"
    assert status.startswith(f"4 of 6 test files ran to the end, not {named} · 4 cases ran")


def test_variant_with_every_test_skipped_is_a_finding() -> None:
    world = World(plan=two_suites())
    for key, leg in world.legs.items():
        leg.inner = [
            replace(one, outcome="skipped")
            if isinstance(one, Result) and one.variant == "node 22"
            else one
            for one in leg.inner
        ]
        world.end(key, counts=Counter(one.outcome for one in leg.inner if isinstance(one, Result)))
    verdict = world.prove()
    (finding,) = [one for one in verdict.findings if one.kind == "nothing_ran"]
    assert finding_message(finding).startswith(
        'NOTHING RAN of suite "web", variant "node 22": 2 tests, all'
    )
    assert [key.unit for key in finding.units] == ["t", "u"]
    assert headline(verdict) == f"INCOMPLETE: {finding_message(finding)}"


DRY_RUN = ("not_executed", ".mocharc.json: dry-run")
FOCUS = ("focus", "test/cart.js: .only")
FILTER = ("filter", "--grep slow")


@pytest.mark.parametrize(
    ("setting", "filters", "said"),
    [
        (DRY_RUN, None, "INCOMPLETE: tests were listed, not executed in 3 shards: {}"),
        (FOCUS, (), "INCOMPLETE: only focused tests ran in 3 shards: {}"),
        (FILTER, ("--grep fast",), "INCOMPLETE: a filter that is not in the plan left tests"),
        (FILTER, ("--grep slow",), "PASSED: all 8 tests of 3 shards have a result"),
        (FILTER, None, "PASSED: all 8 tests of 3 shards have a result"),
        (("no_effect", "coverageThreshold"), (), "PASSED: all 8 tests of 3 shards have a result"),
        (("executed", ""), (), "PASSED: all 8 tests of 3 shards have a result"),
    ],
)
def test_setting_that_keeps_tests_from_running_is_incomplete(
    setting: tuple[str, str], filters: tuple[str, ...] | None, said: str
) -> None:
    """A filter that the framework named when the plan was made is part of the plan."""
    world = World()
    suites = {name: replace(one, filters=filters) for name, one in world.plan.suites.items()}
    world.plan = replace(world.plan, suites=suites)
    reason, detail = setting
    for leg in world.legs.values():
        leg.inner.append(EventLine("execution", process=1, reason=reason, detail=detail))
    verdict = world.prove()
    assert headline(verdict).startswith(said.format(detail))
    expected = ExitCode.INCOMPLETE if said.startswith("INCOMPLETE") else ExitCode.OK
    assert verdict.exit_code == expected
    stated = [finding_message(one) for one in verdict.findings]
    assert len(stated) == (reason != "executed")
    assert all(detail in text for text in stated)


@pytest.mark.parametrize("reasons", [("executed",), ("executed", "filter_in_tests")])
def test_cases_that_were_not_to_run_are_stated(reasons: tuple[str, ...]) -> None:
    world = World()
    for leg in world.legs.values():
        leg.inner += [EventLine("execution", reason=reason, detail=reason) for reason in reasons]
        leg.inner += [
            EventLine("closed", unit=unit, facts={"defined": 5, "selected": selected})
            for unit, selected in (("a.t", 5), ("b.t", 2), ("b.t", 3))  # the last try of b.t counts
        ]
    (finding,) = world.prove().findings
    assert finding.facts["left_out"] == 2 * len(world.legs)
    assert finding.kind == ("filter_planned" if reasons[1:] else "cases_not_selected")


def test_what_the_memory_guard_stopped_is_counted_as_out_of_memory() -> None:
    world = World()
    for unit, ending in (("a.t::two", "out_of_memory"), ("a.t::one", "memory_guard")):
        world.result("01", unit, outcome="died", ending=ending, message="no memory")
    lines = text_of(world.prove()).splitlines()
    (row,) = [line for line in lines if line.startswith("01 ") and "completed" in line]
    assert row.split()[-1] == "2"
