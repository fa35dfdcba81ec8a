"""Why a unit has no result, and a process ended as it did: in words that can be acted on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from guard import damages
from guard.fixtures import World, text_of

from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.guard.headline import headline
from ciguard.guard.json import as_json
from ciguard.guard.view import document
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.model import (
    ENDINGS,
    Ending,
    EndLine,
    EventKind,
    EventLine,
    ProcessEndLine,
    ProcessLine,
    Result,
    SampleLine,
    StartLine,
)
from ciguard.render.markdown import as_markdown


def test_unexplained_exit_is_a_finding() -> None:
    world = World()
    damages.red_process(world)
    verdict = world.prove()
    (finding,) = verdict.findings
    assert (finding.level, finding.kind, finding.shard) == ("failed", "unexplained_exit", "01")
    assert finding_message(finding) == (
        "shard 01: process 1 ended with exit code 1, and no failed test explains it; "
        "last output: 3 style errors"
    )
    assert "a coverage gate" in finding_fix(finding)
    annotated = {one.message for one in annotations_of(verdict)}
    assert finding_message(finding) in annotated
    (written,) = as_json(verdict)["findings"]
    assert written["kind"] == "unexplained_exit"
    assert written["facts"] == {"process": 1, "exit_code": 1, "output": "3 style errors"}
    damages.replaced(world, ProcessEndLine(1, "completed", -11, 3.0))
    killed = next(one for one in world.prove().findings if one.kind == "unexplained_exit")
    assert finding_message(killed).startswith("shard 01: process 1 ended with SIGSEGV, and no")


def test_a_process_that_died_between_units_is_a_warning() -> None:
    world = World()
    own = world.legs["01"].own
    detail = "killed by SIGSEGV\nin the exit of a module"
    own[:0] = [
        ProcessLine(7, 1, at_s=0.0),
        EventLine("last_output", 0.5, 7, detail=detail),
        ProcessEndLine(7, "crash", -11, 0.5),
        ProcessLine(8, 1, at_s=0.0),
        EventLine("last_output", 0.6, 8, detail="exit code 2\n"),
        ProcessEndLine(8, "timeout", 2, 0.6),
    ]
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [(one.level, one.kind, finding_message(one)) for one in verdict.findings] == [
        (
            "warning",
            "died_between_tests",
            "shard 01: process 7 ended by crash (SIGSEGV), and no test explains it; "
            "last output: in the exit of a module",
        )
    ]
    assert finding_fix(verdict.findings[0]) == "check why it ended"
    world.result("01", "a.t::two", outcome="died", ending="crash")
    assert world.prove().findings == (), "the search found it"


@pytest.mark.parametrize(
    ("after_s", "reason", "row", "findings"),
    [
        (57.0, "session_teardown", "57 s after its last test: session teardown", []),
        (57.0, "threads_left", "57 s after its last test: threads left over", ["threads_left"]),
        (4.9, "process_exit", None, []),
    ],
    ids=["teardown", "threads", "others still ran"],
)
def test_time_behind_the_last_test_is_in_the_row_of_its_shard(
    after_s: float, reason: str, row: str | None, findings: list[str]
) -> None:
    world = World()
    last_s = max(one.at_s or 0 for one in world.legs["01"].inner if isinstance(one, Result))
    detail = "Thread-1 of a.t::two" if findings else ""
    event = EventLine("after_tests", last_s + after_s, 1, reason=reason, detail=detail)
    world.legs["01"].own.insert(-1, event)
    verdict = world.prove()
    after = verdict.legs[0].after_tests
    assert (note_text(after) if after else None) == row
    assert [(one.kind, one.facts["threads"]) for one in verdict.findings] == [
        (kind, detail) for kind in findings
    ]


def test_fewer_workers_are_in_the_row_of_their_shard() -> None:
    world = World()
    for workers, reason in ((3.0, "memory"), (2.0, "memory"), (1.0, "fitting")):
        facts = {"workers": workers, "tool_workers": 8.0}
        event = EventLine("workers", 0.1, 1, reason=reason, facts=facts)
        world.legs["01"].inner.insert(0, event)
    shown = as_markdown(document(world.prove()), full_text_location="the record")
    assert ", 2 of 8 workers: no more fit into its memory, by measured peaks |" in shown


CAUSED = [
    ("not_imported", "it could not be imported: ImportError: x", "run a.t alone: for the plan"),
    ("not_found", "it was not found by any in this checkout", "make the plan again"),
    ("no_result", "the command wrote no result for it to $CIGUARD_RECORD_FILE", "let the command"),
]


@pytest.mark.parametrize(("kind", "why", "fix"), CAUSED)
def test_event_in_the_record_is_the_reason_of_a_missing_unit(
    kind: EventKind, why: str, fix: str
) -> None:
    world = World()
    damages.neither_start_nor_result(world)
    world.end("01", exit_code=13)
    world.legs["01"].own.insert(0, EventLine(kind, 1.0, 1, unit="a.t::two", detail=why))
    verdict = world.prove()
    assert [note_text(one.reason) for one in verdict.missing] == [why]
    (finding,) = verdict.findings
    assert finding_message(finding) == "shard 01: 1 planned test without a result"
    assert finding.kind == kind
    assert finding_fix(finding).startswith(fix)


def test_failed_setup_of_a_leg_quotes_its_last_output() -> None:
    world = World()
    world.drop("01", Result, StartLine)
    world.end("01", ending="setup_failed", exit_code=13, counts={})
    detail = "exit code 1\npython: No module named x\n\n"
    world.legs["01"].own.insert(0, EventLine("last_output", 1.0, 1, detail=detail))
    (finding,) = world.prove().findings
    assert (
        finding_message(finding)
        == "shard 01: its tests could not be set up: python: No module named x"
    )


def test_missing_record_names_its_units_and_a_fix() -> None:
    world = World()
    damages.record_removed(world)
    verdict = world.prove()
    (finding,) = [one for one in verdict.findings if one.kind == "no_record"]
    assert finding.shard == "03"
    assert [key.unit for key in finding.units] == ["d.t::eight", "d.t::seven", "d.t::six"]
    assert "run it again" in finding_fix(finding)
    assert {one.reason.kind for one in verdict.missing} == {"shard_without_record"}


REASONS = [
    (damages.start_without_result, "started, but did not finish"),
    (damages.neither_start_nor_result, "its job ended by itself, without a record of this test"),
    (damages.died("deadline"), "stopped: deadline"),
]


@pytest.mark.parametrize(("damage", "reason"), REASONS)
def test_a_missing_unit_has_a_reason(damage: Callable[[World], None], reason: str) -> None:
    world = World()
    damage(world)
    missing = world.prove().missing
    assert [(one.key.unit, one.shard, note_text(one.reason)) for one in missing] == [
        ("a.t::two", "01", reason)
    ]


def test_unit_stopped_with_its_leg_is_no_failure() -> None:
    world = World()
    damages.died("deadline")(world)
    world.result("01", "b.t::three", outcome="failed")
    verdict = world.prove()
    assert "; 1 of 8 tests failed" in headline(verdict)
    assert [(leg.bad, leg.counts.get("died", 0)) for leg in verdict.legs] == [
        (1, 1),
        (0, 0),
        (0, 0),
    ]
    rows = [line.split() for line in text_of(verdict).splitlines()]
    (head,) = [row for row in rows if row[:1] == ["shard"] and "failed" in row]
    reported = [
        row[head.index("failed") - len(head)] for row in rows if row[:1] in (["01"], ["02"], ["03"])
    ]
    assert reported == ["1", "0", "0"]


@pytest.mark.parametrize("ending", ENDINGS[1:])
def test_ending_of_a_leg_is_described_in_words(ending: Ending) -> None:
    world = World()
    world.end("01", ending=ending, exit_code=13)
    (text_of_leg,) = [finding_message(one) for one in world.prove().findings if one.kind == ending]
    assert "_" not in text_of_leg
    assert "ended by" not in text_of_leg


def test_unstarted_unit_of_a_stopped_leg_has_a_reason() -> None:
    world = World()
    world.drop("01", Result, StartLine, unit="b.t::three")
    world.end("01", ending="deadline", exit_code=13)
    (missing,) = world.prove().missing
    assert missing.reason.kind == "not_started"


def test_units_lost_by_a_damaged_record_are_listed() -> None:
    world = World()
    damages.cut_line(world)
    (finding,) = world.prove().findings
    assert finding.kind == "damaged"
    assert finding_message(finding).startswith(
        "shard 02: its record is damaged: record-02-1/process-001.jsonl"
    )
    assert [key.unit for key in finding.units] == ["c.t::five"]


def test_truncated_record_gives_the_last_heartbeat() -> None:
    world = World()
    world.drop("02", EndLine)
    world.legs["02"].own.append(SampleLine(1234.0, tree_bytes=1))
    verdict = world.prove()
    assert verdict.legs[1].wall_s == 1234.0
    assert verdict.legs[1].ending == "unknown"
    (finding,) = verdict.findings
    assert "last line 20 min 34 s after its start" in finding_message(finding)
