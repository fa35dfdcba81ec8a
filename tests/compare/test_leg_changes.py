"""Whole legs and runs: predictions, resharding, trends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compare.compare_factories import MIB, case, files_of, run_of

from ciguard.codec.record.lines import encode
from ciguard.codec.record.reader import read_records
from ciguard.compare.command import FORMATS
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.json import json_text, read_comparison
from ciguard.compare.run_columns import runs_from_records
from ciguard.compare.wording import leg_times_text, measure_text, note_text
from ciguard.model import SampleLine
from ciguard.model.machine_use import NOT_MEASURED, MemoryMoment

if TYPE_CHECKING:
    from ciguard.compare.run_columns import Run


def test_legs_with_reassigned_cases_get_a_note() -> None:
    names = [f"t{n}" for n in range(40)]
    base = run_of({"01": [*map(case, names[:20])], "02": [*map(case, names[20:])]})
    text = "wall time and peak memory of a shard are those of other tests"
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
