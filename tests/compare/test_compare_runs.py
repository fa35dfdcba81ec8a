"""Whole comparisons: a run against itself, incomplete runs, the state, the history."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from compare.compare_factories import case, died, files_of, run_of
from compare.past_runs import Past, factor, names
from hypothesis import given
from hypothesis import strategies as st

from ciguard.codec.record.reader import read_records
from ciguard.compare.compare_runs import compare_run
from ciguard.compare.comparison import Comparison
from ciguard.compare.legs import IncompleteReason, Total
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import headline
from ciguard.history.file import CODE, History
from ciguard.history.ingest import RunMetadata, history_of
from ciguard.history.merge import merge


def test_a_run_against_itself_is_never_a_finding() -> None:
    past = Past(12)
    run = past.run(99, wall=factor(50, 3.0), peak=factor(50, 3.0))
    found = compare_run(run, None, [*past.bases, run], previous=run)
    for measure_verdict in (found.durations, found.memory):
        assert not measure_verdict.listed
        assert not measure_verdict.of_tier("confirmed")
    copy = replace(run, name="copy")
    found = compare_run(run, None, [copy])
    assert found.unjudged_reason == "same run"
    assert not found.memory.losses
    assert not found.durations.losses


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e4) | st.none(),
            st.floats(0, 1e6) | st.none(),
            st.sampled_from(["passed", "failed", "skipped", "died"]),
        ),
        max_size=40,
    )
)
def test_any_run_against_itself_is_never_a_finding(
    values: list[tuple[float | None, float | None, str]],
) -> None:
    results = [
        case(f"t{n}", wall, mib, outcome=outcome, retained_bytes=None if mib is None else int(mib))
        for n, (wall, mib, outcome) in enumerate(values)
    ]
    run = run_of({"01": results})
    rerun = run_of({"01": results})
    for found in (
        compare_run(run, None, [rerun]),
        compare_run(replace(run, run_id=99), None, [replace(rerun, run_id=n) for n in range(12)]),
        compare_run(run, None, [rerun] * 12, previous=replace(rerun, run_id=98)),
    ):
        _nothing_is_found(found)


def _nothing_is_found(found: Comparison) -> None:
    assert not found.jobs
    assert not [leak for leak in found.leaks if leak.tier != "unjudged"]
    assert found.suite_speed.verdict in (
        "no significant difference",
        "not enough data",
        "not measured",
    )
    assert not (*found.durations.losses, *found.durations.gains)
    assert not (*found.memory.losses, *found.memory.gains)
    assert {one.kind for one in found.transitions} <= {"failing_on_both"}
    assert found.state in ("same", "inconclusive")


LOST_LEG = {"02": [case("c"), case("d")]}


def test_an_incomplete_run_is_never_better() -> None:
    base = run_of({"01": [case("a", outcome="failed"), case("b")], **LOST_LEG})
    for legs, facts in (
        ({"01": [case("a"), case("b")], **LOST_LEG}, {"ending": "deadline"}),
        ({"01": [case("a"), case("b")], **LOST_LEG}, {"ending": None}),
        ({"02": [case("a"), case("b"), case("c"), case("d")]}, {}),
    ):
        found = compare_run(run_of(legs, run_id=2, **facts), None, [base])
        assert found.state == "incomplete", facts
        assert headline(found).startswith("INCOMPLETE: ")
        assert [one.key.unit for one in found.of_kind("fixed")] == ["a"]


def test_vanished_failures_are_no_improvement() -> None:
    base = run_of({"01": [case("a", outcome="failed"), case("b", outcome="failed")]})
    found = compare_run(run_of({"01": [case("a")]}, run_id=2), None, [base])
    assert found.state == "inconclusive"
    assert "1 gone; 1 fixed" in headline(found)


def test_missing_shard_is_found_by_its_number() -> None:
    base = run_of({key: [case(key)] for key in ("01", "02", "03", "04")})
    head = run_of({key: [case(key)] for key in ("01", "03", "04")}, run_id=2)
    found = compare_run(head, None, [base])
    assert found.incomplete_reasons == (IncompleteReason("no_record", ("02",)),)
    (leg,) = [leg for leg in found.legs if leg.shard == "02"]
    assert (leg.before, leg.after) == ("completed", None)


def test_totals_include_only_tests_present_in_both_runs() -> None:
    base = run_of({"01": [case("a", 1.0)], "02": [case("b", 100.0)]})
    head = run_of({"01": [case("a", 1.0)]}, run_id=2, ending="deadline")
    found = compare_run(head, None, [base])
    assert Total("tests_s", 1.0, 1.0, 1) in found.totals
    assert [one.name for one in found.totals if one.after is not None] == ["tests_s"]


STATES: list[tuple[list[Any], list[Any], str]] = [
    ([case("a")], [case("a", outcome="failed")], "worse"),
    ([case("a")], [died("a", "timeout")], "worse"),
    ([case("a", outcome="failed")], [case("a")], "better"),
    ([case("a", outcome="failed"), case("b")], [case("a"), died("b", "crash")], "mixed"),
    ([case("a")], [case("a"), case("b")], "inconclusive"),
    ([case("a"), case("b")], [case("a"), case("b", outcome="skipped")], "inconclusive"),
]


@pytest.mark.parametrize(("before", "after", "state"), STATES)
def test_state_follows_from_transitions(before: list[Any], after: list[Any], state: str) -> None:
    found = compare_run(run_of({"01": after}, run_id=2), None, [run_of({"01": before})])
    assert found.state == state


def test_no_significant_difference_is_reported() -> None:
    past = Past(12)
    found = compare_run(past.bases[5], None, past.bases[:5] + past.bases[6:])
    assert found.memory.verdict == "no significant difference"
    evaluated = "(60 tests judged, n=11)"
    assert headline(found).startswith(
        f"NO SIGNIFICANT DIFFERENCE: peak memory {evaluated}; duration"
    )


def test_newly_skipped_test_is_inconclusive() -> None:
    past = Past(12)
    head = past.bases[5]
    skipped = np.array(head.outcome)
    skipped[7] = CODE["outcome"]["skipped"]
    found = compare_run(
        replace(head, outcome=skipped), None, past.bases[:5] + past.bases[6:], previous=None
    )
    assert found.state == "inconclusive"
    assert headline(found).startswith("INCONCLUSIVE: 1 newly skipped; peak memory: no significant")


def test_no_base_run_means_no_transitions() -> None:
    found = compare_run(run_of({"01": [case("a")]}))
    assert found.base is None
    assert found.state == "inconclusive"
    assert not found.transitions


def history_runs(count: int, mib: float = 100.0, **facts: Any) -> History:
    """Runs 1..count on main, one a day from 2026-11-01."""
    found: History | None = None
    for n in range(1, count + 1):
        values = {"run_id": n, "started_at": f"2026-11-{n:02}T10:00:00Z", "event": "push", **facts}
        files = files_of({"01": [case("a", 1.0 + n / 1000, mib)]}, **values)
        one = history_of(read_records(files.items()), RunMetadata())
        found = one if found is None else merge(found, one)
    assert found is not None
    return found


def head(mib: float = 160.0, day: int = 25, **facts: Any) -> Run:
    values = {"run_id": 99, "started_at": f"2026-11-{day:02}T10:00:00Z", "branch": "topic"}
    return run_of({"01": [case("a", 1.0, mib)]}, "head", **{**values, **facts})


def test_run_compared_with_history() -> None:
    found = compare_run(head(), history_runs(12))
    assert names(found.memory.losses) == ["suspect a"]
    assert found.memory.losses[0].n == 12
    assert found.base is not None
    assert found.base.run_id == 12
    assert [run.run_id for run in found.baseline.runs] == list(range(1, 13))


def test_at_most_twenty_runs_are_a_baseline() -> None:
    found = compare_run(head(), history_runs(24))
    assert len(found.baseline.runs) == 20
    assert found.memory.losses[0].n == 20


def left_out(found: Comparison) -> dict[int, str]:
    return {one.run_id: one.reason for one in found.baseline.excluded_runs}


def test_excluded_history_runs_have_a_reason() -> None:
    history = history_runs(3)
    assert left_out(compare_run(head(run_id=2), history)) == {2: "candidate"}
    early = compare_run(head(day=2), history)
    assert left_out(early) == {2: "not_before", 3: "not_before"}
    pulls = history_runs(3, event="pull_request")
    assert set(left_out(compare_run(head(), pulls)).values()) == {"pull_request"}
    rest = history_runs(3, workflow="nightly.yml")
    found = compare_run(head(workflow="tests.yml"), rest)
    assert set(left_out(found).values()) == {"other_workflow"}
    base = run_of({"01": [case("a", 1.0, 100)]}, run_id=50, branch="release")
    found = compare_run(head(), history, [base])
    assert set(left_out(found).values()) == {"other_branch"}
    assert [run.run_id for run in found.baseline.runs] == [50]


def test_base_adds_no_run_to_the_baseline_of_the_history() -> None:
    history = history_runs(5)
    base = run_of({"01": [case("a", 1.0, 100)]}, run_id=5, started_at="2026-11-05T10:00:00Z")
    found = compare_run(head(), history, [base])
    assert found.memory.losses[0].n == 5
    extra = run_of({"01": [case("a", 1.0, 100)]}, run_id=6, started_at="2026-11-06T10:00:00Z")
    found = compare_run(head(), history, [extra])
    assert found.memory.losses[0].n == 5
    assert found.base is not None
    assert found.base.run_id == 6


def test_undated_run_uses_the_whole_history() -> None:
    undated = head(started_at=None)
    assert undated.at is None
    assert len(compare_run(undated, history_runs(4)).baseline.runs) == 4
    assert head().at == datetime(2026, 11, 25, 10, tzinfo=UTC)
