"""Which records count: of this plan, commit, attempt, each once; and what no leg writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from guard import damages
from guard.fixtures import SHARDS, World, make_leg, make_plan, passed

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.guard.github_facts import RunFacts
from ciguard.guard.headline import headline
from ciguard.guard.legs import contradictions
from ciguard.guard.prove import prove
from ciguard.guard.wording import finding_fix, finding_message, note_text
from ciguard.model import (
    EventKind,
    EventLine,
    Line,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    ShardLine,
    StartLine,
)
from ciguard.render.notes import Note

REJECTED = [
    (damages.other_plan, "03", "record-03-1/process-001.jsonl is of plan "),
    (
        damages.other_commit,
        "02",
        f"record-02-1/supervisor.jsonl is of commit {'b' * 40}, not {'a' * 40}",
    ),
    (damages.other_run, "03", "record-03-1/process-001.jsonl is of run 6, not 7"),
]


ONE_START = ["process 1 does not have one start and then one end"]


@pytest.mark.parametrize(("damage", "shard", "why"), REJECTED)
def test_foreign_record_in_place_of_a_record_is_the_cause(
    damage: Callable[[World], None], shard: str, why: str
) -> None:
    world = World()
    damage(world)
    found = world.prove().findings
    assert {one.kind for one in found} <= {"no_record", "no_shard_line"}
    (finding,) = (one for one in found if one.kind == "no_record")
    assert finding.shard == shard
    assert finding_message(finding).startswith(f"shard {shard}: no record: {why}")
    assert finding_fix(finding) == "pass only the records of this run; this one was not counted"


def test_additional_foreign_record_is_a_warning() -> None:
    world = World()
    world.extra = make_leg(make_plan(head_sha="f" * 40), "03", attempt=2).files()
    verdict = world.prove()
    assert verdict.state == "passed"
    found = [(one.level, one.kind, one.shard) for one in verdict.findings]
    assert found == [("warning", "other_plan", "03")]


def test_records_of_another_plan_are_the_first_finding() -> None:
    world = World()
    other = make_plan(head_sha="f" * 40)
    world.legs = {key: make_leg(other, key) for key in SHARDS}
    verdict = world.prove()
    assert headline(verdict).startswith("INCOMPLETE: no record is of this plan: record-01-1/")
    cause, *rest = verdict.findings
    assert (cause.level, cause.kind) == ("incomplete", "only_other_plans")
    assert finding_message(cause).endswith(f" is of another one, {other.id}; so are 2 more")
    assert [(finding_message(one), finding_fix(one)) for one in rest] == [
        (f"shard {key}: no record of this plan", "") for key in SHARDS
    ]


def test_empty_files_of_one_shard_do_not_affect_another() -> None:
    world = World(plan=make_plan({key: SHARDS[key] for key in ("01", "02")}))
    del world.legs["02"]
    world.extra = {"02/supervisor.jsonl": b"", "02/process-001.jsonl": b""}
    no_one, lost = world.prove().findings
    assert finding_message(no_one) == (
        "files without a shard line: 02/process-001.jsonl: empty, 02/supervisor.jsonl: empty"
    )
    assert (lost.kind, lost.shard) == ("no_record", "02")
    del world.extra["02/supervisor.jsonl"]
    no_one = world.prove().findings[0]
    assert finding_message(no_one) == "files without a shard line: 02/process-001.jsonl: empty"


def test_the_newest_attempt_of_each_leg_counts() -> None:
    world = World()
    damages.failed(world)
    rerun = make_leg(world.plan, "01", attempt=2)
    world.extra = rerun.files()
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [leg.run_attempt for leg in verdict.legs] == [2, 1, 1]
    assert [(one.key.unit, one.first.outcome) for one in verdict.flaky] == [("a.t::two", "failed")]


def test_truncated_newer_attempt_is_not_replaced_by_an_older_one() -> None:
    world = World()
    content = make_leg(world.plan, "01", attempt=2).files()
    world.extra = {path: text[:400] for path, text in content.items() if "supervisor" in path}
    assert world.prove().state == "incomplete"


def test_record_of_an_unknown_shard_is_not_counted() -> None:
    world = World()
    header = ShardLine(world.plan.id, "09", run_id=7, run_attempt=1)
    world.extra = {"x/a.jsonl": encode(header) + encode(passed("a.t::one", outcome="failed"))}
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [finding.kind for finding in verdict.findings] == ["unknown_shard"]


@pytest.mark.parametrize(
    ("heads", "event", "counts"),
    [
        (("a",), "push", True),
        (("b",), "push", False),
        (("b", "a"), "pull_request", True),  # GITHUB_SHA is the merge
        ((), "push", True),
        (("b",), "pull_request_target", True),  # its run is of the base branch
    ],
)
def test_record_must_match_the_head_sha_of_the_run(
    heads: tuple[str, ...], event: str, *, counts: bool
) -> None:
    """Also where the plan is kept in the repository, and so of no commit."""
    world = World()
    for leg in world.legs.values():
        leg.header = replace(leg.header, head_sha="a" * 40, tested_sha="c" * 40, event=event)
    platform = RunFacts(
        7, 1, unknown=Note("no_token"), head_shas=frozenset(one * 40 for one in heads)
    )
    verdict = prove(world.plan, read_records(world.files().items()), platform=platform)
    assert verdict.state == ("passed" if counts else "incomplete")
    reported = [finding_message(one) for one in verdict.findings if one.kind == "no_record"]
    output = f"is of commit {'a' * 40}, not {'b' * 40}"
    assert [output in one for one in reported] == [True] * (0 if counts else 3)


def headless(world: World, attempt: int = 1) -> None:
    """A record of shard 02 that began when the disk was full: its own file has no byte."""
    files = make_leg(world.plan, "02", attempt=attempt).files()
    stored = {path: content for path, content in files.items() if "process" in path}
    lost = dict.fromkeys(files.keys() - stored.keys(), b"")
    world.extra |= {**stored, **lost}


def test_record_without_shard_line_is_a_warning_given_a_later_attempt() -> None:
    world = World()
    world.legs["02"] = make_leg(world.plan, "02", attempt=2)
    headless(world)
    (finding,) = world.prove().findings
    assert (finding.level, finding.kind, finding.shard) == (
        "warning",
        "older_record_without_shard_line",
        "02",
    )
    assert finding_message(finding) == (
        "shard 02: a record of attempt 1 has no shard line (record-02-1/process-001.jsonl); "
        "attempt 2 counts"
    )


@pytest.mark.parametrize("attempt", [1, 3])
def test_record_without_shard_line_is_not_replaced_by_older_one(attempt: int) -> None:
    world = World()
    if attempt == 1:
        del world.legs["02"]
    headless(world, attempt)
    verdict = world.prove()
    assert verdict.state == "incomplete"
    assert verdict.findings[0].kind == "no_shard_line"


def test_empty_file_in_a_separate_folder_is_a_warning() -> None:
    world = World()
    world.extra = {"record-02-0/supervisor.jsonl": b""}
    (finding,) = world.prove().findings
    assert (finding.level, finding.kind) == ("warning", "empty_record_file")
    world.extra = {"record-02-0/supervisor.jsonl": b"{"}  # was something, and might be a failure
    assert world.prove().state == "incomplete"
    world.extra = {"record-02-0/process-009.jsonl": b""}  # of a leg that got to its tests
    assert world.prove().state == "incomplete"
    world = World()
    world.extra = {"record-02-0/supervisor.jsonl": b""}
    damages.record_removed(world)
    assert world.prove().findings[0].level == "incomplete"


RESUMED = EventLine("resumed", 10.0, 2)
FIRST = (ProcessLine(1, 1, at_s=0.0), ProcessEndLine(1, "completed", 0, 3.0))


def found(*lines: Line, tries: int = 1) -> list[str]:
    record = Record(
        "r",
        None,
        processes=tuple(one for one in lines if isinstance(one, ProcessLine)),
        process_ends=tuple(one for one in lines if isinstance(one, ProcessEndLine)),
        events=tuple(one for one in lines if isinstance(one, EventLine)),
        results=tuple(one for one in lines if isinstance(one, Result)),
        starts=tuple(one for one in lines if isinstance(one, StartLine)),
    )
    return list(map(note_text, contradictions(record, tries)))


def test_losses_of_an_earlier_step_are_no_contradiction() -> None:
    lost = (ProcessLine(1, 1, at_s=0.0), passed("u", process=2), passed("v"))
    own = (ProcessLine(3, 1, at_s=10.5), ProcessEndLine(3, "completed", 0, 11.0))
    assert found(RESUMED, *lost, *own, passed("w", process=3)) == []
    assert found(*lost, *own) != []
    late = ProcessEndLine(1, "completed", 0, 10.7)
    assert found(RESUMED, *lost, *own, late) == ONE_START


def test_processes_of_earlier_attempts_have_separate_clocks() -> None:
    second = (ProcessLine(2, 1, at_s=0.5), ProcessEndLine(2, "completed", 0, 2.0))
    ran = (passed("u", outcome="failed"), passed("u", process=2))
    assert found(RESUMED, *FIRST, *second, *ran) == []
    assert found(*FIRST, *second, *ran) == ["1 test ran in two processes at once: 'u'"]


@pytest.mark.parametrize(
    ("code", "event", "bad"),
    [
        (1, "unexplained_exit", False),
        (1, "exit_in_files", False),
        (2, "recycled", False),
        (5, "not_found", False),
        (1, None, True),
        (0, None, False),
    ],
)
def test_exit_code_without_a_reason_is_a_finding(
    code: int, event: EventKind | None, *, bad: bool
) -> None:
    lines: list[Line] = [
        *(ProcessLine(1, 1, at_s=0.0), ProcessEndLine(1, "completed", code, 1.0)),
        *([EventLine(event, 1.0, 1)] if event else []),
        passed("u", outcome="failed" if bad else "passed"),
    ]
    assert found(*lines) == []
    of_another = [replace(one, process=7) if isinstance(one, EventLine) else one for one in lines]
    output = [f"process 1 ended (completed, exit code {code}), and no line explains it"]
    assert found(*of_another) == (output if event else [])


def test_isolated_rerun_after_a_concurrent_crash_is_valid() -> None:
    """With one try as well: a crash of several is solved by turns alone."""
    first = (ProcessLine(1, 2, at_s=0.0), ProcessEndLine(1, "crash", -11, 3.0))
    second = (ProcessLine(2, 1, at_s=3.1), ProcessEndLine(2, "completed", 0, 4.0))
    died = passed("u", outcome="died", ending="crash")
    assert found(*first, *second, died, passed("u", process=2)) == []


def test_duplicate_lines_are_merged() -> None:
    assert found(*FIRST, *FIRST, passed("u")) == []
    assert found(*FIRST, ProcessLine(1, 2, at_s=0.0), passed("u")) == ONE_START


def test_records_of_result_files_alone_have_no_processes() -> None:
    assert found(EventLine("result_file", detail="r.xml"), passed("u")) == []
