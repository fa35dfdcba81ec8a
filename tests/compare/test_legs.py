"""Legs of two runs, units that went with a leg, predictions, resharding and trends."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce
from typing import Any

import pytest
from compare.compare_factories import MIB, case, died, files_of, leg_lines, run_of
from guard.fixtures import make_plan
from markdown_it import MarkdownIt

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.comparison import Comparison, Note
from ciguard.compare.json import json_text, read_comparison
from ciguard.compare.run_columns import Run, runs_from_records
from ciguard.compare.wording import (
    headline,
    incomplete_text,
    leg_times_text,
    lost_text,
    measure_text,
    note_text,
)
from ciguard.history.file import empty
from ciguard.history.merge import merge
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import Result, SampleLine
from ciguard.model.machine_use import NOT_MEASURED, MemoryMoment

PLANNED = {"01": ("a", "b"), "02": tuple(f"m{n:02}" for n in range(29)), "03": ("c", "d")}
# The base had all units of today's shard 02 in its shard 03.
BASE: dict[str, list[Result]] = {
    "01": [case("a"), case("b")],
    "02": [case("c"), case("d"), case("gone")],
    "03": [case(unit) for unit in PLANNED["02"]],
}


def head(**changed: list[Result]) -> dict[str, list[Result]]:
    complete = {key: [case(unit) for unit in units] for key, units in PLANNED.items()}
    return {key: results for key, results in {**complete, **changed}.items() if results}


def compared(legs: dict[str, list[Result]], *, planned: bool = True, **facts: str) -> Comparison:
    plan = make_plan(PLANNED) if planned else None
    candidate = run_of(legs, "head", run_id=2, shards=3, **facts)
    return compare_run(candidate, None, [run_of(BASE)], plan=plan)


def lost_texts(found: Comparison) -> list[str]:
    return [f"{one.kind} {one.key.unit} {one.shard}".strip() for one in found.transitions]


def incomplete_texts(found: Comparison) -> list[str]:
    return list(map(incomplete_text, found.incomplete_reasons))


def test_units_of_a_lost_leg_are_one_line_without_transitions() -> None:
    found = compared(head(**{"02": []}))
    (lost,) = found.lost_units
    assert lost_text(lost) == "29 tests lost with shard 02"
    assert [key.unit for key in lost.units] == list(PLANNED["02"])
    assert lost_texts(found) == ["removed gone"]
    assert headline(found).startswith("INCOMPLETE: no record of shard 02; 29 tests lost with it")
    text = FORMATS["text"](found)
    assert text.count("m00") == 1
    assert "m28" not in text
    for shape in ("json", "markdown", "html"):
        assert "m28" in FORMATS[shape](found)


def test_lost_and_removed_units_are_one_group_without_a_plan() -> None:
    found = compared(head(**{"02": []}), planned=False)
    (lost,) = found.lost_units
    words = "30 tests of the base without a result: removed, or lost with shard 02"
    assert lost_text(lost) == words
    assert lost_texts(found) == []
    for shape in ("text", "markdown"):
        assert words in FORMATS[shape](found)


def test_stopped_leg_loses_started_and_unstarted_units() -> None:
    legs = head(**{"02": [case("m00"), died("m01", "deadline"), died("m02", "timeout")]})
    found = compared({"02": legs["02"]}, ending="deadline")
    losses = {lost.shards: len(lost.units) for lost in found.lost_units}
    assert losses == {("01",): 2, ("02",): 27, ("03",): 2}
    assert "31 tests lost with 3 shards" in headline(found)
    assert lost_texts(found) == ["newly_timed_out m02 02", "removed gone"]
    folds = re.findall("<summary>(.* lost .*)</summary>", FORMATS["markdown"](found))
    assert folds == [
        "2 tests lost with shard 01",
        "27 tests lost with shard 02",
        "2 tests lost with shard 03",
    ]


def test_legs_with_the_same_ending_share_one_reason() -> None:
    legs = {f"{n:02}": [case(f"t{n}")] for n in range(1, 111)}
    found = compare_run(run_of(legs, run_id=2, ending="cancelled"), None, [run_of(legs)])
    assert incomplete_texts(found) == ["shards 01, 02, 03 and 107 more: cancelled"]
    one = compare_run(run_of({"01": [case("a")]}, run_id=2, ending="out_of_memory"))
    assert incomplete_texts(one) == ["shard 01: out of memory"]
    cut = compare_run(run_of({"01": [case("a")]}, run_id=2, ending=None))
    assert incomplete_texts(cut) == ["shard 01: results truncated"]


def test_unit_without_result_in_a_complete_leg_is_listed_by_name() -> None:
    found = compared(head(**{"01": [case("a")]}))
    assert found.lost_units == ()
    assert lost_texts(found) == ["no_longer_run b 01", "removed gone"]
    assert incomplete_texts(found) == ["1 planned test of complete shards without a result"]


def test_incomplete_base_gets_a_note() -> None:
    candidate = run_of({"01": [case("a")], "02": [case("b")]}, "head", run_id=2)
    complete = compare_run(candidate, None, [run_of({"01": [case("a")]})])
    cut = compare_run(candidate, None, [run_of({"01": [case("a")]}, shards=2)])
    assert Note("incomplete_base") not in complete.notes
    assert Note("incomplete_base") in cut.notes


def test_what_the_base_lost_and_other_runs_have_is_not_added() -> None:
    legs = {"01": [case("a")], "02": [case("b")]}
    candidate = run_of({**legs, "03": [case("new")]}, "head", run_id=3)
    cut = run_of({"01": [case("a")]}, run_id=2, shards=2)
    found = compare_run(candidate, None, [run_of(legs, run_id=1), cut])
    assert lost_texts(found) == ["added new 03"]
    assert Note("incomplete_base") in found.notes


def test_markdown_tables_have_no_blank_lines() -> None:
    markdown = FORMATS["markdown"](compared(head(**{"02": []})))
    assert "\n\n\n" not in markdown
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    assert html.count("<table>") == 2


def test_legs_with_reassigned_cases_get_a_note() -> None:
    names = [f"t{n}" for n in range(40)]
    base = run_of({"01": [*map(case, names[:20])], "02": [*map(case, names[20:])]})
    text = "wall time and peak memory of a shard belong to different tests"
    for moved, output in ((0, False), (4, False), (5, True), (20, True)):
        legs = {"01": names[moved:20], "02": [*names[:moved], *names[20:]]}
        results = {key: [*map(case, units)] for key, units in legs.items() if units}
        found = compare_run(run_of(results, run_id=2), None, [base])
        assert ("resharded" in [one.kind for one in found.notes]) == output, moved
        if output:
            (note,) = found.notes
            assert note_text(note) == (
                f"{moved} of 40 tests ran in another shard than in the base: {text}."
            )


def lasting(run_id: int, wall_s: float, **facts: Any) -> Run:
    return run_of({"01": [case("a")], "02": [case("b")]}, run_id=run_id, wall_s=wall_s, **facts)


def test_run_totals_are_compared_with_the_baseline_median() -> None:
    runs = [lasting(n, wall) for n, wall in enumerate((21.58, 23.64, 34.04, 34.48), 1)]
    slowest, total = compare_run(lasting(20, 28.0), None, runs).totals[:2]
    assert slowest.before == pytest.approx(28.84)
    assert (slowest.name, round(slowest.before), slowest.after, slowest.n) == (
        "makespan_s",
        29,
        28,
        4,
    )
    assert (total.name, round(total.before), total.after, total.n) == ("sum_s", 58, 56, 4)


def test_totals_use_complete_runs_only() -> None:
    runs = [lasting(1, 100.0), lasting(2, 50.0, ending="deadline"), lasting(3, 102.0)]
    (found, *_) = compare_run(lasting(20, 101.0), None, runs).totals
    assert found.n == 2
    cut = compare_run(lasting(20, 10.0, ending="deadline"), None, runs).totals
    assert [one.name for one in cut if one.after is not None] == ["tests_s"]


def test_incomplete_run_shows_no_improvement() -> None:
    legs = {"01": [case("a", 1.0, 100)], "02": [case("b", 1.0, 100)]}
    small = {"01": [case("a", 1.0, 40)], "02": [case("b", 1.0, 100)]}
    bases = [run_of(legs, run_id=n) for n in range(1, 13)]
    heads = [run_of(small, run_id=n) for n in (20, 21)]
    assert compare_run(heads[1], None, bases, previous=heads[0]).memory.verdict == "improved"
    cut = run_of({"01": small["01"]}, run_id=22)
    found = compare_run(cut, None, bases, previous=heads[0], context=Context())
    assert found.memory.verdict == "incomplete"
    assert (
        measure_text(found.memory) == "peak memory: no improvement is shown for an incomplete run"
    )
    assert [change.tier for change in found.memory.gains] == ["confirmed"]


GIB = 1024 * MIB
SWAPPING = (
    SampleLine(1.0, swap_used_bytes=100 * MIB, stalled_s=0.0),
    SampleLine(2.0, swap_used_bytes=1324 * MIB, stalled_s=4.0, gpu_bytes={"0": 3 * GIB}),
)


def with_samples(content: bytes, samples: tuple[SampleLine, ...]) -> bytes:
    """A record with these samples behind its first line."""
    header, rest = content.split(b"\n", 1)
    return b"\n".join((header, b"".join(map(encode, samples)) + rest))


def sampled(samples: tuple[SampleLine, ...], run_id: int) -> Run:
    """Two shards of 10 s, of which 02 has these samples."""
    files = files_of({"01": [case("a")], "02": [case("b")]}, run_id=run_id)
    path = f"{run_id}-1/02/supervisor.jsonl"
    files[path] = with_samples(files[path], samples)
    return runs_from_records(read_records(files.items()), "run")[-1]


def test_a_leg_that_swapped_says_so_beside_its_time() -> None:
    found = compare_run(sampled(SWAPPING, 2), None, [sampled((), 1)])
    first, second = found.legs
    assert first.machine_after == second.machine_before == NOT_MEASURED
    assert second.machine_after.swap_growth == MemoryMoment(1224 * MIB, 2.0)
    assert leg_times_text(first) == "10 s -> 10 s"
    assert leg_times_text(second) == "10 s -> 10 s (swapped 1.20 GiB, stalled 4.00 s)"
    note = "In the candidate, shard 02 swapped or waited for memory, which lengthens times."
    for shape in ("text", "markdown", "html"):
        text = " ".join(FORMATS[shape](found).split())
        assert "swapped 1.20 GiB, stalled 4.00 s" in text, shape
        assert note in text, shape
    assert "| GPU memory " in FORMATS["markdown"](found)
    assert "| - &#8594; 3.00 GiB " in FORMATS["markdown"](found)
    assert "GPU memory" not in FORMATS["markdown"](
        compare_run(sampled((), 2), None, [sampled((), 1)])
    )
    back = compare_run(sampled((), 2), None, [sampled(SWAPPING, 1)])
    assert leg_times_text(back.legs[1]) == "10 s (swapped 1.20 GiB, stalled 4.00 s) -> 10 s"
    assert "In the base, shard 02 swapped" in FORMATS["text"](back)


def test_many_legs_that_swapped_are_one_sentence() -> None:
    names = [f"{number:03}" for number in range(128)]
    files = files_of({name: [case(name)] for name in names})
    files = {path: with_samples(content, SWAPPING) for path, content in files.items()}
    run = runs_from_records(read_records(files.items()), "run")[-1]
    text = FORMATS["text"](compare_run(run, None, [run]))
    assert "In the candidate, shards 000, 001, 002 and 125 more swapped" in " ".join(text.split())


def test_a_run_of_the_json_keeps_the_machines() -> None:
    found = compare_run(sampled(SWAPPING, 2), None, [sampled((), 1)])
    assert read_comparison(json_text(found).encode(), "x").legs == found.legs


def on_gpu(run_id: int, **more: Any) -> Run:
    """A run of two shards, on two GPUs, of which the second shard uses both."""
    facts = {"gpu_mib": {"0": 1000 + run_id, "1": 5000}, "swap_mib": 0, **more}
    small = leg_lines("01", [case("a")], run_id=run_id, gpu_mib={"0": 500}, swap_mib=0)
    files = {
        f"{shard}/supervisor.jsonl": b"".join(map(encode, lines))
        for shard, lines in (
            ("01", small), ("02", leg_lines("02", [case("b")], run_id=run_id, **facts)),
        )
    }  # fmt: skip
    return runs_from_records(read_records(files.items()), "run")[-1]


def test_gpu_memory_and_swap_of_a_run_are_judged() -> None:
    bases = [on_gpu(n) for n in range(1, 13)]
    more = {"gpu_mib": {"0": 1000, "1": 53_248}, "swap_mib": 13_005}
    once = compare_run(on_gpu(20, **more), None, bases)
    assert once.state == "suspect"
    grown = "memory of GPU 1: {} (4.88 GiB -> 52.0 GiB, n=12); swap growth: {} (0 B -> 12.7 GiB"
    assert grown.format("suspect", "suspect") in headline(once)
    assert once.can_be_confirmed
    twice = compare_run(on_gpu(20, **more), None, bases, previous=on_gpu(19, **more))
    assert twice.state == "worse"
    assert grown.format(*["confirmed regression"] * 2) in headline(twice)
    few = compare_run(on_gpu(20, **more), None, bases[:9], previous=on_gpu(19, **more))
    assert few.state == "suspect"
    same = compare_run(on_gpu(20, swap_mib=60), None, bases, previous=on_gpu(19, swap_mib=60))
    assert same.state == "same"
    assert not same.growths
    moved = compare_run(on_gpu(20, gpu_mib={"0": 1000, "2": 5000}), None, bases)
    assert not moved.growths, "the same memory on another device"
    new = compare_run(on_gpu(20, gpu_mib={"0": 1000, "1": 5000, "2": 900}), None, bases)
    assert "memory of GPU 2: suspect (0 B -> 900 MiB, n=12)" in headline(new)


def test_gpu_memory_and_swap_of_the_history_are_the_baseline() -> None:
    legs = [
        HistoryLeg(
            "01", ending="completed", complete=True, gpu_bytes={"0": n * MIB}, swap_growth_bytes=0
        )
        for n in range(1000, 1012)
    ]
    runs = [HistoryRun(n, branch="main", legs=(leg,)) for n, leg in enumerate(legs, 1)]
    history = reduce(merge, (replace(empty(), runs=(run,)) for run in runs))
    results = {"01": [case("a")]}
    found = compare_run(run_of(results, run_id=20, gpu_mib={"0": 2000}, swap_mib=999), history)
    assert found.growths == {("gpu_bytes", "suspect"), ("swap_growth_bytes", "suspect")}
    assert [total.n for total in found.totals if total.tier] == [12, 12]
