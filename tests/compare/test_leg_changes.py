"""Whole legs and runs: predictions, resharding, trends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from compare.compare_factories import case, run_of

from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.wording import measure_text, note_text

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
