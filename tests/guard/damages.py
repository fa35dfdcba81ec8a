"""What can happen to a green run on its way to the guard: one damage a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from guard.fixtures import SHARDS, World, make_leg, make_plan, passed

from ciguard.codec.record.lines import encode
from ciguard.model import (
    DefaultsLine,
    Ending,
    EndLine,
    EventLine,
    Exclusion,
    InventorySummary,
    LegPolicy,
    Line,
    ProcessEndLine,
    ProcessLine,
    Result,
    Runner,
    SampleLine,
    ShardLine,
    StartLine,
    UnitCount,
)

GIB = 1 << 30
BROKEN = "conftest.py: ImportError: No module named 'shop'"


def record_removed(world: World) -> None:
    del world.legs["03"]


def all_removed(world: World) -> None:
    world.legs.clear()
    world.extra = {"nothing/here.jsonl": b""}


def empty_files(world: World) -> None:
    del world.legs["02"]
    world.extra = {"record-02-1/supervisor.jsonl": b"", "record-02-1/process-001.jsonl": b""}


def dies_in_its_last_test(world: World) -> None:
    world.drop("03", EndLine, ProcessEndLine)
    world.drop("03", Result, unit="d.t::eight")


def short_of_memory(world: World) -> None:
    """It dies in its last test, and its samples say of what."""
    dies_in_its_last_test(world)
    dying = world.legs["03"]
    dying.header = replace(dying.header, runner=Runner(memory_bytes=16 * GIB))
    for at_s, left in ((1.0, 9 * GIB), (2.0, 3 * GIB), (2.5, GIB // 8)):
        dying.own.append(SampleLine(at_s, headroom_bytes=left))


def metric_without_number(world: World) -> None:
    """A program that divides nothing by nothing."""
    line = b'{"type":"metric","name":"hit_rate","value":NaN}\n'
    path = "record-02-1/process-001.jsonl"
    world.extra = {path: world.files()[path] + line}


def legs_of_one_unit(world: World, count: int) -> None:
    world.plan = make_plan(
        {f"{number:02}": (f"u{number}",) for number in range(1, count + 1)}, job_minutes=15
    )
    world.legs = {shard.key: make_leg(world.plan, shard.key) for shard in world.plan.shards}


def four_empty_records(world: World) -> None:
    legs_of_one_unit(world, 4)
    world.extra = {f"record-{key}-1/supervisor.jsonl": b"" for key in world.legs}
    world.legs.clear()


def half_of_the_matrix(world: World) -> None:
    legs_of_one_unit(world, 8)
    for number in range(5, 9):
        del world.legs[f"{number:02}"]


def one_of_116(world: World) -> None:
    legs_of_one_unit(world, 116)
    del world.legs["77"]


def shard_03_in_attempt_2(world: World) -> None:
    """Its job ran in attempt 2 as well, and uploaded a record."""
    world.legs["03 again"] = make_leg(world.plan, "03", attempt=2)


def emptied_file(world: World) -> None:
    replanned(world, InventorySummary(8, {"a.t": 8, "b.t": 0}, "0", files_without_units=("b.t",)))


def a_second_plan(world: World) -> None:
    """Its records lie in the same folder, and the plan's own are all there."""
    other = make_plan(head_sha="f" * 40)
    for key in SHARDS:
        files = make_leg(other, key, attempt=2).files()
        world.extra.update({f"other/{path}": content for path, content in files.items()})


def only_a_header(world: World) -> None:
    world.legs["02"].own = []
    world.legs["02"].inner = []


def no_header(world: World) -> None:
    leg = world.legs["02"]
    del world.legs["02"]
    world.extra = {"record-02-1/supervisor.jsonl": b"".join(map(encode, leg.own))}


def no_end(world: World) -> None:
    world.drop("02", EndLine)


def cut_line(world: World) -> None:
    content = world.legs["02"].files()["record-02-1/process-001.jsonl"]
    world.extra = {"record-02-1/process-001.jsonl": content[:-20]}


def start_without_result(world: World) -> None:
    world.drop("01", Result, unit="a.t::two")


def neither_start_nor_result(world: World) -> None:
    world.drop("01", Result, StartLine, unit="a.t::two")
    world.end("01", counts={"passed": 2})


def process_file_lost(world: World) -> None:
    world.extra = {"record-01-1/process-001.jsonl": b"\n"}


def failed(world: World) -> None:
    world.result("01", "a.t::two", outcome="failed", message="AssertionError: 1 != 2")


def died(ending: Ending) -> Callable[[World], None]:
    """A unit of leg 01."""
    return lambda world: world.result("01", "a.t::two", outcome="died", ending=ending)


def ended(**changes: Any) -> Callable[[World], None]:
    """Leg 01, with another last line."""
    return lambda world: world.end("01", **changes)


def process_ended(ending: Ending, exit_code: int) -> Callable[[World], None]:
    return lambda world: replaced(world, ProcessEndLine(1, ending, exit_code, 3.0))


def skipped(world: World) -> None:
    world.result("01", "a.t::two", outcome="skipped")


def flaky(world: World) -> None:
    first = passed("a.t::two", outcome="failed", try_number=1)
    world.result("01", "a.t::two", try_number=2)
    world.legs["01"].inner.insert(1, first)


def other_plan(world: World) -> None:
    world.legs["03"] = make_leg(make_plan(head_sha="f" * 40), "03")


def other_commit(world: World) -> None:
    world.plan = make_plan(head_sha="a" * 40)
    world.legs = {key: make_leg(world.plan, key) for key in SHARDS}
    header = world.legs["02"].header
    world.legs["02"].header = ShardLine(header.plan_id, "02", run_id=7, head_sha="b" * 40)


def of_no_commit(world: World) -> None:
    """The plan is kept, and so of no commit; the legs say that of the run, but for the last."""
    for shard, leg in world.legs.items():
        leg.header = replace(leg.header, head_sha=("b" if shard == "03" else "a") * 40)


def other_run(world: World) -> None:
    world.legs["03"] = make_leg(world.plan, "03", run=6)


def unplanned(world: World) -> None:
    world.legs["01"].inner.append(passed("new.t::nine"))
    world.end("01", counts={"passed": 4})


def unplanned_and_failed(world: World) -> None:
    world.legs["01"].inner.append(passed("new.t::nine", outcome="failed"))
    world.end("01", counts={"passed": 3, "failed": 1}, exit_code=10)


def doubled(world: World) -> None:
    world.legs["02"].inner.append(passed("a.t::two"))
    world.end("02", counts={"passed": 3})


def doubled_and_differing(world: World) -> None:
    world.legs["02"].inner.append(passed("a.t::two", outcome="failed"))
    world.end("02", counts={"passed": 2, "failed": 1}, exit_code=10)


def passed_after_a_failure_of_the_same_try(world: World) -> None:
    world.legs["01"].inner.append(passed("a.t::two", outcome="failed"))


def collection_error(world: World) -> None:
    replanned(world, InventorySummary(8, {}, "0", errors=(BROKEN,)))


def not_all_planned(world: World) -> None:
    replanned(world, InventorySummary(9, {}, "0"))


def excluded(world: World) -> None:
    replanned(world, InventorySummary(9, {}, "0", excluded=(Exclusion("z.t", "exclude: z*"),)))


def fewer_than_the_base(world: World) -> None:
    replanned(world, InventorySummary(8, {}, "0", base_units=(UnitCount(10),)))


def one_percent_fewer(world: World) -> None:
    units = {"01": tuple(f"u{n:03}" for n in range(99))}
    base = (UnitCount(100),)
    world.plan = make_plan(units, inventory=InventorySummary(99, {}, "0", base_units=base))
    world.legs = {"01": make_leg(world.plan, "01")}


def file_without_units(world: World) -> None:
    replanned(world, InventorySummary(8, {"a.t": 8, "b.t": 0}, "0"))


def nothing_planned(world: World) -> None:
    world.plan = make_plan({})
    world.legs = {}


def replanned(world: World, inventory: InventorySummary) -> None:
    world.plan = make_plan(inventory=inventory, job_minutes=15)
    world.legs = {key: make_leg(world.plan, key) for key in SHARDS}


def copied(world: World) -> None:
    files = world.legs["01"].files()
    world.extra = {f"copy/{path.rpartition('/')[2]}": content for path, content in files.items()}


def copied_and_changed(world: World) -> None:
    copied(world)
    path = "copy/process-001.jsonl"
    lines = world.extra[path].splitlines(keepends=True)
    changed = [
        line.replace(b'"passed"', b'"failed"') if b"a.t::two" in line else line for line in lines
    ]
    world.extra[path] = b"".join(changed)


def red_process(world: World) -> None:
    detail = "exit code 1\n3 style errors"
    world.legs["01"].own.insert(-1, EventLine("unexplained_exit", 3.0, 1, detail=detail))
    process_ended("completed", 1)(world)
    world.end("01", exit_code=10)


def red_process_and_a_failure(world: World) -> None:
    red_process(world)
    world.result("02", "c.t::four", outcome="failed")


def written(*lines: Line) -> bytes:
    return b"".join(map(encode, lines))


def lines_after_the_end(world: World) -> None:
    world.legs["01"].own += [ProcessLine(2, 1, at_s=3.3), SampleLine(3.4)]


def resumed_after_the_end(world: World) -> None:
    world.legs["01"].own.append(EventLine("resumed", 3.2, 1))


def a_worse_end_before(world: World) -> None:
    world.extra["record-01-1/more.jsonl"] = written(
        defaults_of(world, "01"), EndLine("deadline", 2.0, 13)
    )


def continued_and_lost(world: World) -> None:
    """A second step went on from the first, which had ended, and died."""
    lines: list[Line] = [EventLine("resumed", 3.1, 1), ProcessLine(2, 1, at_s=3.4), SampleLine(3.9)]
    world.extra["second/supervisor.jsonl"] = written(world.legs["01"].header, *lines)


def continued_and_ended(world: World) -> None:
    """So did this one, which did all that was left, and ended."""
    world.end("01", ending="deadline", exit_code=13)
    world.drop("01", ProcessEndLine)  # lost with its runner
    lines: list[Line] = [
        *(EventLine("resumed", 3.1, 1), ProcessLine(2, 1, at_s=3.4)),
        *(passed("a.t::two", process=2, at_s=3.6), ProcessEndLine(2, "completed", 0, 3.7)),
        EndLine("completed", 3.8, 0, {"passed": 3}),
    ]
    world.extra["second/supervisor.jsonl"] = written(world.legs["01"].header, *lines)


def copied_with_another_end(world: World) -> None:
    copied(world)
    end = encode(EndLine("deadline", 2.0, 13))
    path = "copy/supervisor.jsonl"
    world.extra[path] = b"".join([*world.extra[path].splitlines(keepends=True)[:-1], end])


def defaults_of(world: World, shard: str, process: int | None = None) -> DefaultsLine:
    header = world.legs[shard].header
    return DefaultsLine(header.plan_id, shard, header.run_id, header.run_attempt, process=process)


def passing_as_process_2(world: World) -> None:
    """A unit failed; a file with its pass claims to be of another process; the end is edited."""
    failed(world)
    pass_ = passed("a.t::two", process=2, at_s=1.9)
    content = written(defaults_of(world, "01", 2), pass_)
    world.extra["record-01-1/process-002.jsonl"] = content
    world.end("01", exit_code=0, counts={"passed": 3})


def process_2_at(world: World, begin_s: float) -> None:
    passing_as_process_2(world)
    more: list[Line] = [
        ProcessLine(2, 3, at_s=begin_s),
        ProcessEndLine(2, "completed", 0, begin_s + 0.01),
    ]
    world.legs["01"].own[-1:-1] = more


def with_tries(world: World) -> None:
    world.plan = make_plan(job_minutes=15, policy=LegPolicy(max_tries=2))
    world.legs = {shard.key: make_leg(world.plan, shard.key) for shard in world.plan.shards}


def process_2_concurrent(world: World) -> None:
    with_tries(world)
    process_2_at(world, 0.5)


def process_2_after_it(world: World) -> None:
    process_2_at(world, 3.01)


def retried(world: World) -> None:
    with_tries(world)
    process_2_at(world, 3.01)


def restarted_after_result(world: World) -> None:
    leg = world.legs["01"]
    leg.inner.insert(5, StartLine("a.t::two", process=1, at_s=1.95))


def crash_with_a_last_word(world: World) -> None:
    process_ended("crash", -9)(world)
    world.legs["01"].own.insert(0, EventLine("last_output", 3.0, 1, detail="killed by SIGKILL"))


def replaced(world: World, end: ProcessEndLine) -> None:
    leg = world.legs["01"]
    leg.own = [end if isinstance(line, ProcessEndLine) else line for line in leg.own]


def two_ends_of_a_process(world: World) -> None:
    end: list[Line] = [EventLine("last_output", 2.0, 1), ProcessEndLine(1, "crash", -9, 2.0)]
    world.legs["01"].own[1:1] = end


def process_without_an_end(world: World) -> None:
    world.drop("01", ProcessEndLine)


def a_second_process_without_an_end(world: World) -> None:
    world.legs["01"].own.insert(1, ProcessLine(2, 1, at_s=1.0))


def unannounced_process(world: World) -> None:
    world.drop("01", ProcessLine)


def a_result_file_lost(world: World) -> None:
    """And with it all lines that tell a leg of ours from the files of others."""
    world.legs["01"].own.insert(1, EventLine("result_file", 2.0, 1, detail="r.xml"))
    world.drop("01", ProcessLine, StartLine)


def a_pass_edited_to_a_skip(world: World) -> None:
    world.result("01", "a.t::two", outcome="skipped")
    world.end("01", counts={"passed": 3})
