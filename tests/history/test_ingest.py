from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from history.stored_values import values_of

from ciguard.codec.record.lines import encode as encode_line
from ciguard.codec.record.reader import read_records
from ciguard.codec.results.base import ExternalName
from ciguard.codec.results.durations import Duration
from ciguard.compare.run_columns import from_history
from ciguard.document import Table
from ciguard.errors import InputError
from ciguard.history.command import document
from ciguard.history.file import decode, encode
from ciguard.history.ingest import (
    RunMetadata,
    check_is_merged,
    history_of,
    history_of_durations,
    leg_end_s,
    leg_start_s,
    parse_time,
    suite_overheads,
)
from ciguard.history.runs import UNDATED, SuiteOverhead
from ciguard.model import (
    CaseKey,
    DefaultsLine,
    EndLine,
    EventLine,
    InventorySummary,
    LegPolicy,
    Plan,
    PlannedUnit,
    Prediction,
    ProcessEndLine,
    ProcessLine,
    Record,
    Result,
    Runner,
    SampleLine,
    Shard,
    ShardLine,
    StartLine,
    UnitCount,
    UnitKey,
)

HEADER = ShardLine(
    plan_id="9f2c",
    shard="03",
    repository="o/r",
    workflow="tests.yml",
    run_id=101,
    run_attempt=1,
    job="tests (03)",
    event="push",
    branch="main",
    head_sha="head",
    tested_sha="tested",
    tested_parents=("p1", "p2"),
    started_at="2026-11-21T12:00:00+02:00",
    runner=Runner(pool="linux", cpus=4),
)
MACHINE = (
    SampleLine(1.0, swap_used_bytes=5, stalled_s=0.0, gpu_bytes={"0": 70}),
    SampleLine(2.0, swap_used_bytes=5, stalled_s=0.25, gpu_bytes={"1": 50, "0": 10}),
    SampleLine(3.0, swap_used_bytes=30, stalled_s=0.5, gpu_bytes={"0": 10}),
)
SIMULATED = Prediction(1.0, 1.0, 1000, 900)
DONE = EndLine("completed", at_s=9.8)
RESULT = Result(
    "a.py::t1",
    "passed",
    suite="unit",
    case="a.py::t1",
    wall_s=0.41,
    cpu_s=0.4,
    setup_s=0.01,
    rss_before_bytes=104857600,
    peak_bytes=209715200,
    peak_delta_bytes=104857600,
    retained_bytes=-4096,
    measured_by="mark",
    process=1,
)


def stored(*records: Record, **output: Any) -> list[dict[str, Any]]:
    return values_of(history_of(records, RunMetadata(**output)))


def test_stored_value_has_all_fields_of_the_record() -> None:
    (line,) = stored(Record("r", HEADER, results=(RESULT,), end=DONE))
    assert line == {
        "run_id": 101,
        "run_attempt": 1,
        "at": datetime(2026, 11, 21, 10, tzinfo=UTC),
        "sha": "tested",
        "branch": "main",
        "event": "push",
        "job": "tests (03)",
        "shard": "03",
        "shard_ending": "completed",
        "suite": "unit",
        "variant": "",
        "unit": "a.py::t1",
        "case": "a.py::t1",
        "outcome": "passed",
        "ending": "completed",
        "measured_by": "mark",
        "try": 1,
        "wall_s": 0.41,
        "cpu_s": 0.4,
        "setup_s": 0.01,
        "peak_delta_bytes": 104857600,
        "retained_bytes": -4096,
    }


def test_history_leg_has_overheads_runner_and_lost_units() -> None:
    record = Record(
        "r",
        HEADER,
        processes=(
            ProcessLine(1, 2, suite="unit", at_s=0.5),
            ProcessLine(2, 1, suite="unit", at_s=1.0),
            ProcessLine(3, 1, suite="unit", at_s=2.0),
        ),
        starts=(
            StartLine("a", suite="unit", process=1, at_s=1.5),
            StartLine("b", suite="unit", process=1, at_s=3.0),
            StartLine("c", suite="unit", process=2, at_s=1.25),
        ),
        results=(
            Result("a", "passed", suite="unit", process=1, rss_before_bytes=70),
            Result("b", "passed", suite="unit", process=1, rss_before_bytes=10),
            Result("c", "died", suite="unit", process=2, ending="crash", rss_before_bytes=60),
        ),
        samples=(SampleLine(1.0, tree_bytes=500), SampleLine(2.0, tree_bytes=900)),
        events=(EventLine("recycled", at_s=30.0),),
        process_ends=(
            ProcessEndLine(1, "completed", at_s=2.0, peak_bytes=300, cpu_s=1.5),
            ProcessEndLine(2, "crash", at_s=5.0, peak_bytes=400, cpu_s=2.25),
        ),
    )
    (leg,) = history_of([record]).runs[0].legs
    assert (leg.ending, leg.complete, leg.wall_s) == ("unknown", False, 30.0)
    assert (leg.peak_bytes, leg.process_peak_bytes) == (900, 400)
    assert leg.overheads == (SuiteOverhead("unit", "", 60, 0.625),)
    assert (leg.start_s, leg.end_s) == (0.5, None)
    assert (leg.runner.pool, leg.job, leg.shard) == ("linux", "tests (03)", "03")
    assert leg.lost_units == ()
    assert leg.cpu_s is None, "process 3 has no known end"
    ended = (*record.process_ends, ProcessEndLine(3, "completed", at_s=6.0, cpu_s=0.25))
    (leg,) = history_of([replace(record, process_ends=ended)]).runs[0].legs
    assert leg.cpu_s == 4.0


def test_history_leg_has_what_its_machine_used() -> None:
    record = Record("r", HEADER, samples=MACHINE)
    (leg,) = history_of([record]).runs[0].legs
    assert leg.gpu_bytes == {"0": 70, "1": 50}
    assert (leg.swap_growth_bytes, leg.stalled_s) == (25, 0.5)
    (bare,) = history_of([replace(record, samples=())]).runs[0].legs
    assert (bare.gpu_bytes, bare.swap_growth_bytes, bare.stalled_s) == (None, None, None)
    assert (leg.used_bytes, bare.used_bytes) == (None, None)
    for samples, used_bytes in (
        ((SampleLine(1.0, headroom_bytes=700, available_bytes=600),), 400),
        # In a container the machine has more than the limit: 1,000 bytes.
        ((SampleLine(1.0, headroom_bytes=300, available_bytes=9000),), 700),
        ((SampleLine(1.0, available_bytes=800), SampleLine(2.0, available_bytes=900)), 200),
        ((SampleLine(1.0, available_bytes=9000),), 0),
    ):
        header = replace(HEADER, runner=replace(HEADER.runner, memory_bytes=1000))
        (leg,) = history_of([replace(record, header=header, samples=samples)]).runs[0].legs
        assert leg.used_bytes == used_bytes


def test_two_parts_of_a_leg_have_the_larger_use_of_the_machine() -> None:
    parts = (
        Record("r", HEADER, samples=MACHINE[:2]),
        Record("s", HEADER, samples=MACHINE[1:], results=(RESULT,), end=DONE),
    )
    both = history_of(parts)
    assert encode(both) == encode(history_of(reversed(parts)))
    (leg,) = decode(encode(both), "x").runs[0].legs
    assert (leg.gpu_bytes, leg.swap_growth_bytes, leg.stalled_s) == ({"0": 70, "1": 50}, 25, 0.5)


def test_zero_sample_gives_no_peak() -> None:
    for seen, ends, peak, measured_by in (
        ((0,), (), None, None),
        ((None,), (ProcessEndLine(1, "completed", peak_bytes=0),), None, None),
        ((0, 500), (), 500, "sample"),
    ):
        samples = tuple(SampleLine(1.0, tree_bytes=size) for size in seen)
        record = Record("r", HEADER, samples=samples, process_ends=ends)
        assert (record.peak_bytes, record.peak_measured_by) == (peak, measured_by)
        (leg,) = history_of([record]).runs[0].legs
        assert (leg.peak_bytes, leg.process_peak_bytes) == (peak, None)


def test_leg_not_completed_is_incomplete_and_its_values_are_stored() -> None:
    record = Record("r", HEADER, results=(RESULT,), end=EndLine("deadline", at_s=5.0))
    history = history_of([record])
    assert (history.runs[0].legs[0].ending, history.runs[0].complete) == ("deadline", False)
    assert len(history.values) == 1


def test_dry_run_gives_the_history_no_value() -> None:
    passed = Result(unit="a", outcome="passed", case="a", wall_s=0.0)
    dry = EventLine("execution", process=1, reason="not_executed", detail=".rspec: --dry-run")
    ended = Record("01", HEADER, results=(passed,), events=(dry,), end=EndLine("completed"))
    found = history_of([ended])
    assert len(found.values) == 0
    assert not found.runs[0].complete


def test_options_fill_missing_record_fields() -> None:
    bare = Record("r", None, results=(Result("a", "passed"),), starts=(StartLine("a"),))
    output: dict[str, Any] = {
        "run_id": 5,
        "run_attempt": 2,
        "sha": "s",
        "branch": "b",
        "event": "push",
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "suite": "unit",
        "variant": "py311",
    }
    (line,) = stored(bare, **output)
    assert {name: line[name] for name in output} == output
    assert history_of([bare], RunMetadata(**output)).runs[0].legs[0].lost_units == ()


@pytest.mark.parametrize(
    ("option", "value", "recorded"),
    [
        ("run_id", 7, "101"),
        ("run_attempt", 3, "1"),
        ("sha", "other", "tested"),
        ("branch", "next", "main"),
        ("event", "schedule", "push"),
        ("suite", "other", "unit"),
    ],
)
def test_contradicting_option_error_names_both_values_and_the_file(
    option: str, value: Any, recorded: str
) -> None:
    with pytest.raises(InputError) as caught:
        stored(Record("rec/x.jsonl", HEADER, results=(RESULT,)), **{option: value})
    assert str(value) in caught.value.what
    assert recorded in caught.value.what
    assert f"--{option.replace('_', '-')}" in caught.value.what
    assert caught.value.where == "rec/x.jsonl"


def test_sha_option_equal_to_the_head_sha_is_no_contradiction() -> None:
    (line,) = stored(Record("r", HEADER, results=(RESULT,)), sha="head")
    assert line["sha"] == "tested"


def test_record_without_a_run_id_is_an_error_with_a_fix() -> None:
    with pytest.raises(InputError, match="no run id") as caught:
        history_of([Record("r", None)])
    assert "--run-id N" in caught.value.fix


def test_empty_file_does_not_affect_other_records() -> None:
    nobodys = Record("gone/process-001.jsonl", None, damage=("gone/process-001.jsonl: empty",))
    record = Record("r", HEADER, results=(Result("a.py::t", "passed"),))
    assert stored(nobodys, record) == stored(record)
    with pytest.raises(InputError, match="no run id"):
        history_of([nobodys])


def test_leg_without_shard_line_is_stored_as_a_dead_leg() -> None:
    """Its other files say whose it is: its values are those of a leg that died."""
    other = replace(RESULT, unit="a.py::t2", case="a.py::t2")
    claims = ShardLine("9f2c", "04", run_id=101, run_attempt=1, job="tests (04)")
    headless = Record("04", None, results=(other,), partial_header=claims)
    entire = Record("r", HEADER, results=(RESULT,), end=DONE)
    (run,) = history_of([entire, headless]).runs
    assert (run.event, run.sha) == ("push", "tested")
    legs = [(leg.job, leg.shard, leg.ending) for leg in run.legs]
    assert legs == [("tests (03)", "03", "completed"), ("tests (04)", "04", "unknown")]
    later = replace(HEADER, shard="04", job="tests (04)", run_attempt=2)
    rerun = Record("04 again", later, end=DONE)
    (run,) = history_of([entire, headless, rerun]).runs
    assert [leg.run_attempt for leg in run.legs] == [1, 2]


def test_repeated_pass_is_stored_as_first_try() -> None:
    """A test that kept a failed one company ran twice as well, and so did one without memory."""
    found = []
    for unit, outcome, ending in (
        ("company", "passed", "completed"),
        ("flaky", "failed", "completed"),
        ("starved", "died", "out_of_memory"),
    ):
        one = Result(unit, outcome, case=unit, ending=ending, process=1, wall_s=1.0)  # type: ignore[arg-type]
        rerun = replace(one, outcome="passed", ending="completed", process=2, try_number=2)
        found += [one, replace(rerun, wall_s=2.0)]
    record = Record("r", HEADER, results=tuple(found), end=DONE)
    reported = [(one["unit"], one["outcome"], one["try"], one["wall_s"]) for one in stored(record)]
    assert reported == [
        ("company", "passed", 1, 2.0),
        ("flaky", "passed", 2, 2.0),
        ("starved", "passed", 1, 2.0),
    ]
    run = from_history(history_of([record]), 0)
    assert [key.unit for key in run.flaky] == ["flaky"]


def test_a_later_attempt_replaces_a_leg_whose_shard_line_is_lost() -> None:
    def files(shard: str, attempt: int) -> dict[str, bytes]:
        named = f"tests ({shard})"
        header = replace(HEADER, shard=shard, job=named, run_attempt=attempt)
        own = DefaultsLine("9f2c", shard, 101, attempt, process=1)
        folder = f"{shard}-{attempt}"
        return {
            f"{folder}/supervisor.jsonl": encode_line(header) + encode_line(DONE),
            f"{folder}/process-001.jsonl": encode_line(own) + encode_line(Result(shard, "passed")),
        }

    found = {**files("03", 1), **files("04", 1), **files("04", 2)}
    del found["04-1/supervisor.jsonl"]
    (run,) = history_of(read_records(found.items()), RunMetadata()).runs
    assert [(leg.shard, leg.run_attempt) for leg in run.legs] == [("03", 1), ("04", 2)]
    assert run.complete


def test_records_of_several_runs_and_attempts() -> None:
    def leg(run_id: int, attempt: int, wall_s: float) -> Record:
        header = ShardLine(run_id=run_id, run_attempt=attempt, shard="01", plan_id="p")
        return Record("r", header, results=(Result("a", "passed", wall_s=wall_s),))

    found = stored(leg(2, 1, 1.0), leg(1, 2, 2.0), leg(1, 1, 3.0), leg(2, 2, 4.0))
    assert [(line["run_id"], line["run_attempt"], line["wall_s"]) for line in found] == [
        (1, 2, 2.0),
        (2, 2, 4.0),
    ]


@pytest.mark.parametrize("field", ["wall_s", "cpu_s", "setup_s", "peak_delta_bytes"])
def test_impossible_value_is_an_error_that_names_the_test(field: str) -> None:
    invalid: dict[str, Any] = {field: 2**61}
    with pytest.raises(InputError, match=field) as caught:
        history_of([Record("r", HEADER, results=(Result("a.py::huge", "passed", **invalid),))])
    assert "a.py::huge" in str(caught.value)


def planned(*units: str, key: str) -> Shard:
    return Shard(key, "linux", tuple(PlannedUnit(unit) for unit in units), SIMULATED)


def test_units_that_never_started_are_lost_given_the_plan() -> None:
    plan = Plan(
        id="9f2c",
        suites={},
        pools={},
        policy=LegPolicy(),
        shards=(planned("a", "b", "c", key="03"), planned("d", "e", key="04")),
        lower_bound_s=1.0,
        gap=0.0,
        inventory=InventorySummary(5, {}, "h"),
    )
    dead = Record("r", HEADER, results=(Result("a", "passed"),), starts=(StartLine("b"),))
    third, fourth = history_of([dead], plan=plan).runs[0].legs
    assert third.lost_units == (UnitKey("", "", "b"), UnitKey("", "", "c"))
    assert (third.plan_id, third.planned) == ("9f2c", (UnitCount(3),))
    assert third.simulated_peak_bytes == 900
    assert (fourth.plan_id, fourth.planned) == ("9f2c", (UnitCount(2),))
    assert (fourth.shard, fourth.job, fourth.complete) == ("04", "tests (04)", False)
    assert fourth.lost_units == (UnitKey("", "", "d"), UnitKey("", "", "e"))
    other = history_of([dead]).runs[0].legs
    assert [leg.lost_units for leg in other] == [(UnitKey("", "", "b"),)]
    # A leg that was killed before its first line says nothing of a plan: no contradiction.
    assert history_of([dead, Record("gone", None, damage=("x",))], plan=plan).runs[0].legs[1:] == (
        fourth,
    )
    foreign = replace(dead, header=replace(HEADER, plan_id="other"))
    with pytest.raises(InputError, match="of plan 'other', not 9f2c"):
        history_of([dead, foreign], plan=plan)


def test_durations_have_no_outcome_and_totals_retain_their_name() -> None:
    found = [Duration("a.py::t", 0.5), Duration("spec/a.rb", 3.0, is_file_total=True)]
    history = history_of_durations(found, "d.json", RunMetadata(run_id=1, suite="s"))
    assert history.runs[0].at == UNDATED
    total = CaseKey("s", "", "spec/a.rb", "spec/a.rb")
    assert history.external_names == {total: ExternalName(None, None, "spec/a.rb")}
    assert [value.get("outcome") for value in values_of(history)] == [None, None]
    rerun = history_of_durations(reversed(found), "d.json", RunMetadata(run_id=1, suite="s"))
    assert encode(rerun) == encode(history)
    nothing = history_of_durations([], "d.json", RunMetadata(run_id=1))
    assert (len(nothing.values), len(nothing.runs)) == (0, 1)


def test_time_formats_are_parsed() -> None:
    expected = datetime(2026, 11, 21, 10, tzinfo=UTC)
    for text in ("2026-11-21T10:00:00Z", "2026-11-21T12:00+02:00", "2026-11-21 10:00"):
        assert parse_time(text, "--at") == expected
    for text in ("yesterday", "", "0001-01-01T00:00+14:00"):
        with pytest.raises(InputError, match="no time"):
            parse_time(text, "--at")


def test_table_of_runs() -> None:
    dead = Record("r", HEADER, results=(RESULT,), starts=(StartLine("b"),))
    table, _ = document(history_of([dead]), 1000)
    assert isinstance(table, Table)
    assert table.rows == (("101", "2026-11-21 10:00", "main", "push", "tested", "0/1", "1", "1"),)


def test_bounds_of_a_peak_become_bounds_of_its_delta() -> None:
    more: dict[str, Any] = {"peak_lower_bytes": 500, "peak_upper_bytes": 900}
    results = [
        replace(RESULT, unit="a", case="a", rss_before_bytes=100, concurrent=1, **more),
        replace(RESULT, unit="b", case="b", rss_before_bytes=100, concurrent=3, **more),
        replace(RESULT, unit="c", case="c", rss_before_bytes=None, **more),
        replace(RESULT, unit="d", case="d", rss_before_bytes=1000, concurrent=1, **more),
    ]
    values = history_of([Record("r", HEADER, results=tuple(results), end=DONE)]).values
    assert values.peak_lower_bytes.tolist()[::3] == [400.0, 0.0]
    assert np.isnan(values.peak_lower_bytes[1:3]).all(), "of three in one heap, who had it?"
    assert values.peak_upper_bytes.tolist()[:2] == [800.0, 800.0]
    assert np.isnan(values.peak_upper_bytes[2])


def test_names_that_hold_a_nul_stay_apart() -> None:
    results = tuple(
        Result(unit, "passed", case=case) for unit, case in [("b", "\0c"), ("b\0", "c")]
    )
    found = history_of([Record("r", HEADER, results=(*results, Result("a", "passed")))])
    assert [key[2:] for key in found.keys] == [("a", "a"), ("b", "\0c"), ("b\0", "c")]


def result(unit: str, process: int, at_s: float | None, wall_s: float | None = 1.0) -> Result:
    return Result(unit, "passed", process=process, at_s=at_s, wall_s=wall_s)


def test_overheads_of_a_leg_with_one_process() -> None:
    """Start of the leg 0.5 s, of the process 2 s; gaps 0.1 and 0.3 s; behind them 3 s and 0.2 s."""
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 3, at_s=0.5),),
        starts=(StartLine("a", process=1, at_s=2.5), StartLine("b", process=1, at_s=4.6)),
        results=(
            Result("a", "passed", process=1, at_s=4.5, wall_s=1.5, setup_s=0.5),
            *(Result("b", "passed", case=c, process=1, at_s=5.9, wall_s=0.5) for c in "xy"),
        ),
        process_ends=(ProcessEndLine(1, "completed", at_s=8.9),),
        end=EndLine("completed", at_s=9.1),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 2.0, 3.0, 0.2),)
    assert (leg_start_s(record), leg_end_s(record)) == (0.5, 0.2)


def test_overheads_exclude_kills_crashes_and_retries() -> None:
    """Process 1 is killed over a hanging test; 2 runs it again, and 3 what was left."""
    record = Record(
        "r",
        None,
        processes=tuple(ProcessLine(number, 1, at_s=10.0 * number) for number in (1, 2, 3)),
        starts=tuple(
            StartLine(unit, process=number, at_s=10.0 * number + 1) for number, unit in ENDED
        ),
        results=(
            Result("a", "died", process=1, at_s=19.0, wall_s=5.0, ending="timeout"),
            Result("a", "died", process=2, at_s=29.0, wall_s=5.0, ending="crash", try_number=2),
            result("b", 3, 32.0),
        ),
        process_ends=(
            ProcessEndLine(1, "timeout", at_s=19.5),
            ProcessEndLine(2, "crash", at_s=29.5),
            ProcessEndLine(3, "completed", at_s=32.5),
        ),
        end=EndLine("completed", at_s=33.0),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 1.0, 0.5, 0.0),)
    assert leg_end_s(record) == 0.5


ENDED = ((1, "a"), (2, "a"), (3, "b"))


def test_results_without_times_give_only_the_remaining_overhead() -> None:
    """A program whose results are read when it has ended: 9 s of it for 6 s of tests."""
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 2, at_s=1.0),),
        results=(result("a", 1, None, 2.0), result("b", 1, None, 4.0)),
        process_ends=(ProcessEndLine(1, "completed", at_s=10.0),),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, None, 3.0, None),)
    assert leg_end_s(record) is None, "it was cut"


def test_concurrent_tests_in_one_process_have_no_gaps() -> None:
    record = Record(
        "r",
        None,
        processes=(ProcessLine(1, 2, at_s=0.0),),
        starts=(StartLine("a", process=1, at_s=1.0), StartLine("b", process=1, at_s=1.0)),
        results=(result("a", 1, 6.0, 5.0), result("b", 1, 5.0, 4.0)),
        process_ends=(ProcessEndLine(1, "completed", at_s=6.5),),
    )
    assert suite_overheads(record) == (SuiteOverhead("", "", None, 1.0, 0.5, 0.0),)


def test_no_measurement_gives_no_overhead() -> None:
    record = Record("r", None, processes=(ProcessLine(1, 1),), results=(result("a", 1, None),))
    assert suite_overheads(record) == ()
    assert (leg_start_s(record), leg_end_s(record)) == (None, None)


def test_base_memory_ignores_a_zero_first_sample() -> None:
    """What it holds behind its first unit is the least that is known."""
    sizes = (0, 10_000, 30_000)
    results = tuple(
        replace(result(f"t{place}", 1, None), rss_before_bytes=size)
        for place, size in enumerate(sizes)
    )
    (cost,) = suite_overheads(
        Record("r", None, processes=(ProcessLine(1, 3, at_s=0.5),), results=results)
    )
    assert cost.base_bytes == 10_000
    (cost,) = suite_overheads(
        Record(
            "r",
            None,
            processes=(ProcessLine(1, 3, at_s=0.5),),
            starts=(StartLine("t0", process=1, at_s=0.7),),
            results=results[:1],
        )
    )
    assert cost.base_bytes is None


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch", "workflow_run", None])
def test_runs_of_a_branch_may_write_history(event: str | None) -> None:
    check_is_merged(event, "run 7", "here")


@pytest.mark.parametrize("event", ["pull_request", "pull_request_target", "merge_group"])
def test_unmerged_runs_may_not_write_history(event: str) -> None:
    with pytest.raises(InputError, match=f"run 7 is a run of {event}") as caught:
        check_is_merged(event, "run 7", "here")
    assert (caught.value.where, "base branch" in caught.value.fix) == ("here", True)
