"""One damage at a time to a green run: the verdict, and who is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from guard.world import SHARDS, World, make_leg, make_plan, passed
from hypothesis import given, settings
from hypothesis import strategies as st

from ciguard.codec.gathering import read_records
from ciguard.codec.record import encode
from ciguard.errors import ExitCode
from ciguard.guard.annotations import annotations_of
from ciguard.guard.as_json import as_json
from ciguard.guard.needs import Job
from ciguard.guard.proof import prove
from ciguard.model import (
    EndLine,
    EventLine,
    Exclusion,
    InventorySummary,
    ProcessEndLine,
    Result,
    SampleLine,
    ShardLine,
    StartLine,
    UnitKey,
)

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


def _record_removed(world: World) -> None:
    del world.legs["03"]


def _all_removed(world: World) -> None:
    world.legs.clear()
    world.extra = {"nothing/here.jsonl": b""}


def _empty_files(world: World) -> None:
    del world.legs["02"]
    world.extra = {"record-02-1/supervisor.jsonl": b"", "record-02-1/process-001.jsonl": b""}


def _only_a_header(world: World) -> None:
    world.legs["02"].own = []
    world.legs["02"].inner = []


def _no_header(world: World) -> None:
    leg = world.legs["02"]
    del world.legs["02"]
    world.extra = {"record-02-1/supervisor.jsonl": b"".join(map(encode, leg.own))}


def _no_end(world: World) -> None:
    world.drop("02", EndLine)


def _cut_line(world: World) -> None:
    content = world.legs["02"].files()["record-02-1/process-001.jsonl"]
    world.extra = {"record-02-1/process-001.jsonl": content[:-20]}


def _start_without_result(world: World) -> None:
    world.drop("01", Result, unit="a.t::two")


def _neither_start_nor_result(world: World) -> None:
    world.drop("01", Result, StartLine, unit="a.t::two")
    world.end("01", counts={"passed": 2})


def _process_file_lost(world: World) -> None:
    world.extra = {"record-01-1/process-001.jsonl": b"\n"}


def _one_case_lost(world: World) -> None:
    world.end("01", counts={"passed": 4})


def _failed(world: World) -> None:
    world.result("01", "a.t::two", outcome="failed", message="AssertionError: 1 != 2")


def _timed_out(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="timeout")


def _crashed(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="crash")


def _out_of_memory(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="out_of_memory")


def _memory_guard(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="memory_guard")


def _stopped_at_the_deadline(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="deadline")


def _cancelled_in_it(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="cancelled")


def _died_of_the_unknown(world: World) -> None:
    world.result("01", "a.t::two", outcome="died", ending="unknown")


def _leg_at_its_deadline(world: World) -> None:
    world.end("01", ending="deadline", exit_code=13)


def _leg_cancelled(world: World) -> None:
    world.end("01", ending="cancelled", exit_code=143)


def _leg_says_incomplete(world: World) -> None:
    world.end("01", exit_code=13)


def _leg_says_failed(world: World) -> None:
    world.end("01", exit_code=10)


def _failed_and_a_record_removed(world: World) -> None:
    _failed(world)
    _record_removed(world)


def _skipped(world: World) -> None:
    world.result("01", "a.t::two", outcome="skipped")


def _flaky(world: World) -> None:
    first = passed("a.t::two", outcome="failed", try_number=1)
    world.result("01", "a.t::two", try_number=2)
    world.legs["01"].inner.insert(1, first)


def _other_plan(world: World) -> None:
    world.legs["03"] = make_leg(make_plan(head_sha="f" * 40), "03")


def _other_commit(world: World) -> None:
    world.plan = make_plan(head_sha="a" * 40)
    world.legs = {key: make_leg(world.plan, key) for key in SHARDS}
    header = world.legs["02"].header
    world.legs["02"].header = ShardLine(header.plan_id, "02", run_id=7, head_sha="b" * 40)


def _other_run(world: World) -> None:
    world.legs["03"] = make_leg(world.plan, "03", run=6)


def _unplanned(world: World) -> None:
    world.legs["01"].inner.append(passed("new.t::nine"))
    world.end("01", counts={"passed": 4})


def _unplanned_and_failed(world: World) -> None:
    world.legs["01"].inner.append(passed("new.t::nine", outcome="failed"))
    world.end("01", counts={"passed": 3, "failed": 1}, exit_code=10)


def _doubled(world: World) -> None:
    world.legs["02"].inner.append(passed("a.t::two"))
    world.end("02", counts={"passed": 3})


def _doubled_and_differing(world: World) -> None:
    world.legs["02"].inner.append(passed("a.t::two", outcome="failed"))
    world.end("02", counts={"passed": 2, "failed": 1}, exit_code=10)


def _passed_behind_a_failure_of_the_same_try(world: World) -> None:
    world.legs["01"].inner.append(passed("a.t::two", outcome="failed"))


def _collection_error(world: World) -> None:
    _replanned(world, InventorySummary(8, {}, "0", errors=("e.t: ImportError",)))


def _not_all_planned(world: World) -> None:
    _replanned(world, InventorySummary(9, {}, "0"))


def _excluded(world: World) -> None:
    _replanned(world, InventorySummary(9, {}, "0", excluded=(Exclusion("z.t", "exclude: z*"),)))


def _fewer_than_the_base(world: World) -> None:
    _replanned(world, InventorySummary(8, {}, "0", base_collected=9))


def _one_percent_fewer(world: World) -> None:
    units = {"01": tuple(f"u{n:03}" for n in range(99))}
    world.plan = make_plan(units, inventory=InventorySummary(99, {}, "0", base_collected=100))
    world.legs = {"01": make_leg(world.plan, "01")}


def _file_without_units(world: World) -> None:
    _replanned(world, InventorySummary(8, {"a.t": 8, "b.t": 0}, "0"))


def _nothing_planned(world: World) -> None:
    world.plan = make_plan({})
    world.legs = {}


def _replanned(world: World, inventory: InventorySummary) -> None:
    world.plan = make_plan(inventory=inventory)
    world.legs = {key: make_leg(world.plan, key) for key in SHARDS}


def _job(result: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        world.needs = (Job("legs", result), Job("plan", "success"))

    change.__name__ = f"_job_{result}"
    return change


def _job_failed_as_a_test_did(world: World) -> None:
    _failed(world)
    world.needs = (Job("legs", "failure"),)


def _job_cancelled_as_a_test_failed(world: World) -> None:
    _failed(world)
    world.needs = (Job("legs", "cancelled"),)


def _copied(world: World) -> None:
    files = world.legs["01"].files()
    world.extra = {f"copy/{path.rpartition('/')[2]}": content for path, content in files.items()}


def _copied_and_changed(world: World) -> None:
    _copied(world)
    path = "copy/process-001.jsonl"
    lines = world.extra[path].splitlines(keepends=True)
    changed = [
        line.replace(b'"passed"', b'"failed"') if b"a.t::two" in line else line for line in lines
    ]
    world.extra[path] = b"".join(changed)


def _red_process(world: World) -> None:
    detail = "exit code 1\n3 style errors"
    world.legs["01"].own.insert(-1, EventLine("unexplained_exit", 3.0, 1, detail=detail))
    world.end("01", exit_code=10)


def _red_process_and_a_failure(world: World) -> None:
    _red_process(world)
    world.result("02", "c.t::four", outcome="failed")


CASES: list[tuple[Callable[[World], None], State, str]] = [
    (_record_removed, "incomplete", "shard 03 of 3 has no record; 3 of 8 units have no result"),
    (_all_removed, "incomplete", "shards 01, 02, 03 of 3 have no record; 8 of 8 units have no"),
    (_empty_files, "incomplete", "shard 02 of 3 has no record; 2 of 8 units have no result"),
    (_only_a_header, "incomplete", "shard 02 of 3 did not end by itself; 2 of 8 units have no"),
    (_no_header, "incomplete", "shard 02 of 3 has no record; 2 of 8 units have no result"),
    (_no_end, "incomplete", "shard 02 of 3 did not end by itself"),
    (_cut_line, "incomplete", "1 of 8 units has no result"),
    (_start_without_result, "incomplete", "1 of 8 units has no result"),
    (_neither_start_nor_result, "incomplete", "1 of 8 units has no result"),
    (_process_file_lost, "incomplete", "3 of 8 units have no result"),
    (_one_case_lost, "incomplete", "its end line counts 4 results, its record holds 3"),
    (_failed, "failed", "1 of 8 units failed"),
    (_timed_out, "failed", "1 of 8 units failed"),
    (_crashed, "failed", "1 of 8 units failed"),
    (_out_of_memory, "failed", "1 of 8 units failed"),
    (_memory_guard, "failed", "1 of 8 units failed"),
    (_stopped_at_the_deadline, "incomplete", "1 of 8 units has no result"),
    (_cancelled_in_it, "incomplete", "1 of 8 units has no result"),
    (_died_of_the_unknown, "incomplete", "1 of 8 units has no result"),
    (_leg_at_its_deadline, "incomplete", "shard 01 of 3 did not end by itself"),
    (_leg_cancelled, "incomplete", "shard 01 of 3 did not end by itself"),
    (_leg_says_incomplete, "incomplete", "shard 01: it ended with exit code 13"),
    (_leg_says_failed, "failed", "shard 01 says that tests failed, and its record holds no"),
    (_failed_and_a_record_removed, "incomplete", "no result; 1 of 8 units failed"),
    (_skipped, "passed", "all 8 units of 3 shards have a result, 1 of them skipped"),
    (_flaky, "passed", "all 8 units of 3 shards have a result"),
    (_other_plan, "incomplete", "shard 03 of 3 has no record"),
    (_other_commit, "incomplete", "shard 02 of 3 has no record"),
    (_other_run, "incomplete", "shard 03 of 3 has no record"),
    (_unplanned, "passed", "all 8 units"),
    (_unplanned_and_failed, "failed", "1 of 8 units failed"),
    (_doubled, "passed", "all 8 units"),
    (_doubled_and_differing, "failed", "1 of 8 units failed"),
    (_passed_behind_a_failure_of_the_same_try, "failed", "1 of 8 units failed"),
    (_collection_error, "incomplete", "collecting failed: e.t: ImportError"),
    (_not_all_planned, "incomplete", "1 unit collected, and neither planned nor excluded"),
    (_excluded, "passed", "all 8 units"),
    (_fewer_than_the_base, "incomplete", "8 units were collected, 9 on the base (-11.1 %)"),
    (_one_percent_fewer, "passed", "all 99 units of 1 shard"),
    (_file_without_units, "passed", "all 8 units"),
    (_nothing_planned, "incomplete", "no unit is planned"),
    (_copied, "passed", "all 8 units"),
    (_copied_and_changed, "incomplete", "contradict each other"),
    (_red_process, "failed", "a process of shard 01 of 3 failed, and no failed test explains it"),
    (_red_process_and_a_failure, "failed", "1 of 8 units failed; a process of shard 01 of 3"),
    (_job("success"), "passed", "all 8 units"),
    (_job("failure"), "incomplete", "job legs is 'failure', and no record says why"),
    (_job("cancelled"), "incomplete", "job legs is 'cancelled'"),
    (_job("skipped"), "incomplete", "job legs is 'skipped'"),
    (_job("neutral"), "incomplete", "a word that this version does not know"),
    (_job_failed_as_a_test_did, "failed", "1 of 8 units failed"),
    (_job_cancelled_as_a_test_failed, "incomplete", "job legs is 'cancelled'; 1 of 8 units failed"),
]
EXIT = {"passed": 0, "failed": 10, "incomplete": 13}


@pytest.mark.parametrize(
    ("damage", "state", "said"), CASES, ids=[case[0].__name__[1:] for case in CASES]
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
    (_copied, "recorded_twice", "01"),
    (_unplanned, "unplanned", "01"),
    (_doubled, "doubled", ""),
    (_doubled, "elsewhere", "02"),
    (_excluded, "excluded", ""),
    (_file_without_units, "empty_file", ""),
]


@pytest.mark.parametrize(("damage", "kind", "shard"), WARNINGS)
def test_what_is_odd_is_named(damage: Callable[[World], None], kind: str, shard: str) -> None:
    world = World()
    damage(world)
    found = [finding for finding in world.prove().findings if finding.kind == kind]
    assert [(finding.level, finding.shard) for finding in found] == [("warning", shard)]


INSTEAD = [
    (_other_plan, "03", "record-03-1/process-001.jsonl is of plan "),
    (_other_commit, "02", f"record-02-1/supervisor.jsonl is of commit {'b' * 40}, not {'a' * 40}"),
    (_other_run, "03", "record-03-1/process-001.jsonl is of run 6, not 7"),
]


@pytest.mark.parametrize(("damage", "shard", "why"), INSTEAD)
def test_a_stranger_in_the_place_of_a_record_is_the_cause(
    damage: Callable[[World], None], shard: str, why: str
) -> None:
    world = World()
    damage(world)
    found = world.prove().findings
    assert {one.kind for one in found} <= {"no_record", "no_shard_line"}
    (finding,) = (one for one in found if one.kind == "no_record")
    assert finding.shard == shard
    assert finding.what.startswith(f"shard {shard} has no record that counts: {why}")
    assert finding.fix == "pass only the records of this run; they were not counted"


def test_a_stranger_beside_a_record_is_a_warning() -> None:
    world = World()
    world.extra = make_leg(make_plan(head_sha="f" * 40), "03", attempt=2).files()
    verdict = world.prove()
    assert verdict.state == "passed"
    found = [(one.level, one.kind, one.shard) for one in verdict.findings]
    assert found == [("warning", "other_plan", "03")]


def test_records_of_another_plan_are_one_cause_and_it_comes_first() -> None:
    world = World()
    world.legs = {key: make_leg(make_plan(head_sha="f" * 40), key) for key in SHARDS}
    verdict = world.prove()
    assert verdict.headline.startswith("INCOMPLETE: no record is of this plan: record-01-1/")
    cause, *rest = verdict.findings
    assert (cause.level, cause.kind) == ("incomplete", "other_plan")
    assert cause.what.endswith(f", not {world.plan.id}, and 2 more like it")
    assert [(one.what, one.fix) for one in rest] == [
        (f"shard {key} has no record of this plan", "") for key in SHARDS
    ]


def test_emptied_files_of_one_shard_are_not_an_innocent_ones() -> None:
    world = World(plan=make_plan({key: SHARDS[key] for key in ("01", "02")}))
    del world.legs["02"]
    world.extra = {"02/supervisor.jsonl": b"", "02/process-001.jsonl": b""}
    nobody, lost = world.prove().findings
    assert nobody.what == (
        "files that belong to no shard: 02/process-001.jsonl: empty, 02/supervisor.jsonl: empty"
    )
    assert (lost.kind, lost.shard) == ("no_record", "02")
    del world.extra["02/supervisor.jsonl"]
    nobody = world.prove().findings[0]
    assert nobody.what == "a file that belongs to no shard: 02/process-001.jsonl: empty"


def test_a_copy_of_a_record_that_says_otherwise_is_not_believed() -> None:
    world = World()
    _copied_and_changed(world)
    verdict = world.prove()
    first = verdict.findings[0]
    assert (first.level, first.kind, first.shard) == ("incomplete", "damaged", "01")
    assert "copy/process-001.jsonl and record-01-1/process-001.jsonl contradict" in first.what
    assert "'a.t::two' failed in the one, passed in the other" in first.what
    assert first.fix == "pass each record once: which of its copies is true is not known"


def test_an_exit_that_no_result_explains_is_named() -> None:
    world = World()
    _red_process(world)
    verdict = world.prove()
    (finding,) = verdict.findings
    assert (finding.level, finding.kind, finding.shard) == ("failed", "unexplained_exit", "01")
    assert finding.what == (
        "shard 01: process 1 ended with exit code 1, and no failed result explains it; "
        "its last output: 3 style errors"
    )
    assert finding.fix.startswith("a hook of the session or a coverage gate set it?")
    world.legs["01"].own[:-1] = [
        EventLine("unexplained_exit", 3.0, 1, detail="killed by SIGSEGV\n")
    ]
    (killed,) = world.prove().findings
    assert killed.what.startswith("shard 01: process 1 was killed by SIGSEGV, and no failed")
    assert killed.fix.startswith("it died behind its last test?")
    assert finding.what in {one.message for one in annotations_of(verdict)}
    assert finding.what in {one["what"] for one in as_json(verdict)["findings"]}


def test_a_process_that_died_between_units_is_a_warning() -> None:
    world = World()
    own = world.legs["01"].own
    detail = "killed by SIGSEGV\nin the exit of a module"
    own[:0] = [
        EventLine("last_output", 0.5, 7, detail=detail),
        ProcessEndLine(7, "crash", -11, 0.5),
        EventLine("last_output", 0.6, 8, detail="exit code 2\n"),
        ProcessEndLine(8, "timeout", 2, 0.6),
    ]
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [(one.level, one.kind, one.what) for one in verdict.findings] == [
        (
            "warning",
            "unblamed",
            "shard 01: process 7 ended by crash (killed by SIGSEGV) and no unit is to blame; "
            "its last output: in the exit of a module",
        )
    ]
    world.result("01", "a.t::two", outcome="died", ending="crash")
    assert world.prove().findings == (), "the search found it"


CAUSED = [
    ("not_imported", "it could not be imported: ImportError: x", "mend the import"),
    ("not_found", "it was not found by any in this checkout", "renamed or moved"),
    ("no_result", "the command wrote no result for it to $CIGUARD_RECORD_FILE", "let the command"),
]


@pytest.mark.parametrize(("kind", "why", "fix"), CAUSED)
def test_the_legs_own_word_on_a_missing_unit_is_the_reason(kind: str, why: str, fix: str) -> None:
    world = World()
    _neither_start_nor_result(world)
    world.end("01", exit_code=13)
    world.legs["01"].own.insert(0, EventLine(kind, 1.0, 1, unit="a.t::two", detail=why))
    verdict = world.prove()
    assert [one.reason for one in verdict.missing] == [why]
    (finding,) = verdict.findings
    assert finding.what == "shard 01: 1 planned unit without a final result"
    assert finding.kind == kind
    assert finding.fix.startswith(fix)


def test_a_leg_that_could_not_begin_quotes_its_last_output() -> None:
    world = World()
    world.drop("01", Result, StartLine)
    world.end("01", ending="setup_failed", exit_code=13, counts={})
    detail = "exit code 1\npython: No module named x\n\n"
    world.legs["01"].own.insert(0, EventLine("last_output", 1.0, 1, detail=detail))
    (finding,) = world.prove().findings
    assert finding.what == "shard 01: it ended by setup_failed: python: No module named x"


def test_a_lost_record_names_its_units_and_what_to_do() -> None:
    world = World()
    _record_removed(world)
    verdict = world.prove()
    (finding,) = [one for one in verdict.findings if one.kind == "no_record"]
    assert finding.shard == "03"
    assert [key.unit for key in finding.units] == ["d.t::eight", "d.t::seven", "d.t::six"]
    assert "Run it again" in finding.fix
    assert {one.reason for one in verdict.missing} == {"its shard has no record"}


REASONS = [
    (_start_without_result, "it was started and did not finish"),
    (_neither_start_nor_result, "its leg ended by itself and wrote nothing about it"),
    (_stopped_at_the_deadline, "it was stopped: deadline"),
]


@pytest.mark.parametrize(("damage", "reason"), REASONS)
def test_a_missing_unit_has_a_reason(damage: Callable[[World], None], reason: str) -> None:
    world = World()
    damage(world)
    missing = world.prove().missing
    assert [(one.key.unit, one.shard, one.reason) for one in missing] == [
        ("a.t::two", "01", reason)
    ]


def test_not_started_in_a_leg_that_was_stopped() -> None:
    world = World()
    world.drop("01", Result, StartLine, unit="b.t::three")
    world.end("01", ending="deadline", exit_code=13)
    (missing,) = world.prove().missing
    assert missing.reason == "it was not started: it ended by deadline"


def test_what_a_damaged_record_lost_is_not_called_vanished() -> None:
    world = World()
    _cut_line(world)
    (finding,) = world.prove().findings
    assert finding.kind == "damaged"
    assert finding.what.startswith("shard 02: its record is damaged: record-02-1/process-001.jsonl")
    assert [key.unit for key in finding.units] == ["c.t::five"]


def test_the_cut_leg_says_how_long_it_lived() -> None:
    world = World()
    world.drop("02", EndLine)
    world.legs["02"].own.append(SampleLine(1234.0, tree_bytes=1))
    verdict = world.prove()
    assert verdict.legs[1].wall_s == 1234.0
    assert verdict.legs[1].ending == "unknown"
    (finding,) = verdict.findings
    assert "the last sign of life is 1234 s after its start" in finding.what


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
    _flaky(world)
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


def test_the_newest_attempt_of_each_leg_counts() -> None:
    world = World()
    _failed(world)
    again = make_leg(world.plan, "01", attempt=2)
    world.extra = again.files()
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [leg.run_attempt for leg in verdict.legs] == [2, 1, 1]
    assert [(one.key.unit, one.first.outcome) for one in verdict.flaky] == [("a.t::two", "failed")]


def test_a_newer_attempt_that_was_cut_is_not_replaced_by_the_older_one() -> None:
    world = World()
    content = make_leg(world.plan, "01", attempt=2).files()
    world.extra = {path: text[:400] for path, text in content.items() if "supervisor" in path}
    assert world.prove().state == "incomplete"


def test_a_record_of_a_shard_that_is_not_planned_is_not_counted() -> None:
    world = World()
    header = ShardLine(world.plan.id, "09", run_id=7, run_attempt=1)
    world.extra = {"x/a.jsonl": encode(header) + encode(passed("a.t::one", outcome="failed"))}
    verdict = world.prove()
    assert verdict.state == "passed"
    assert [finding.kind for finding in verdict.findings] == ["unknown_shard"]


def test_two_variants_are_two_units() -> None:
    plan = make_plan({"01": ("a.t::one",)})
    world = World(plan=plan)
    world.legs["01"].inner.append(passed("a.t::one", variant="x", outcome="failed"))
    world.end("01", counts={"passed": 1, "failed": 1}, exit_code=10)
    verdict = world.prove()
    assert [failure.result.variant for failure in verdict.failures] == ["x"]


@settings(max_examples=25, deadline=None)
@given(st.permutations(sorted(World().files())))
def test_the_order_of_files_does_not_matter(order: list[str]) -> None:
    world = World()
    _failed_and_a_record_removed(world)
    files = world.files()
    records = read_records((path, files[path]) for path in order if path in files)
    assert prove(world.plan, reversed(records)) == world.prove()


@st.composite
def damages(draw: st.DrawFn) -> dict[str, bytes]:
    """The files of a green run after one to three of: drop, cut, swap, double, overwrite."""
    files = World().files()
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(sorted(files))) if files else ""
        if not path:
            break
        lines = files[path].splitlines(keepends=True)
        at = draw(st.integers(0, max(0, len(lines) - 1)))
        kind = draw(st.sampled_from(["file", "line", "cut", "swap", "double", "byte"]))
        if kind == "file" or not lines:
            del files[path]
        elif kind == "line":
            files[path] = b"".join(lines[:at] + lines[at + 1 :])
        elif kind == "cut":
            files[path] = files[path][: draw(st.integers(0, len(files[path])))]
        elif kind == "swap":
            other = draw(st.sampled_from(sorted(files)))
            files[path], files[other] = files[other], files[path]
        elif kind == "double":
            files[path + ".2.jsonl"] = files[path]
        else:
            place = draw(st.integers(0, len(files[path]) - 1))
            new = bytes([draw(st.integers(0, 255))])
            files[path] = files[path][:place] + new + files[path][place + 1 :]
    return files


@settings(max_examples=150, deadline=None)
@given(damages())
def test_no_damage_passes_unless_every_unit_still_has_its_result(files: dict[str, bytes]) -> None:
    world = World()
    records = read_records(files.items())
    verdict = prove(world.plan, records)
    units = {result.unit for record in records for result in record.results}
    if verdict.state == "passed":
        assert units >= {unit for planned in SHARDS.values() for unit in planned}
    assert verdict.exit_code in (0, 10, 13)
