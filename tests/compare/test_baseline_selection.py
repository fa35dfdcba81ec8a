"""DESIGN's table of baselines, row by row, and what is said of the runs that are none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from compare.compare_factories import case, column_run, run_of

from ciguard.compare.baseline_selection import (
    Ancestry,
    Selection,
    base_commit,
    select_baseline,
    with_parents,
)
from ciguard.compare.compare_runs import Context, compare_run
from ciguard.compare.run_columns import Run
from ciguard.compare.wording import baseline_text, excluded_text
from ciguard.history.file import History, empty
from ciguard.history.runs import HistoryLeg, HistoryRun

BEGIN = datetime(2026, 11, 1, 10, tzinfo=UTC)


def sha(number: int) -> str:
    return f"{number:040x}"


def past(number: int, **facts: Any) -> HistoryRun:
    values: dict[str, Any] = {
        "run_id": number,
        "at": BEGIN + timedelta(days=number),
        "sha": sha(number),
        "branch": "main",
        "event": "push",
        "workflow": "tests.yml",
        "repository": "o/r",
        "legs": (HistoryLeg("01", complete=True, ending="completed"),),
    }
    return HistoryRun(**{**values, **facts})


def history(*runs: HistoryRun) -> History:
    return replace(empty(), runs=tuple(sorted(runs, key=lambda run: run.order)))


def candidate(**facts: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": 99,
        "at": BEGIN + timedelta(days=60),
        "event": "pull_request",
        "branch": "topic",
        "workflow": "tests.yml",
        "repository": "o/r",
        "sha": sha(500),
        "head_sha": sha(400),
        "parents": (sha(3), sha(400)),
    }
    return replace(column_run([0.1]), **{**values, **facts})


def used(choice: Selection, of: History) -> list[int]:
    return [of.runs[position].run_id for position in choice.used]


def reasons(choice: Selection) -> dict[int, str]:
    return {one.run_id: one.reason for one in choice.excluded}


BASES: list[tuple[dict[str, Any], str | None]] = [
    ({}, sha(3)),
    ({"parents": (sha(400), sha(3))}, sha(3)),
    ({"parents": ()}, None),  # a merge of which nobody recorded the parents
    ({"sha": sha(400), "parents": (sha(3),)}, sha(400)),  # the head itself was checked out
    ({"event": "push", "parents": (sha(9),)}, sha(500)),
    ({"event": "merge_group", "parents": (sha(3), sha(400))}, sha(3)),
    ({"event": "merge_group", "head_sha": sha(500), "parents": (sha(3),)}, sha(500)),
    ({"event": "schedule"}, sha(500)),
    ({"event": None, "sha": None}, None),
]


@pytest.mark.parametrize(("facts", "commit"), BASES)
def test_base_commit_of_the_candidate(facts: dict[str, Any], commit: str | None) -> None:
    assert base_commit(candidate(**facts)) == commit


OBJECTIONS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"run_id": 99}, {}, "candidate"),
    ({"event": "pull_request"}, {}, "pull_request"),
    ({"event": "merge_group"}, {}, "merge_group"),
    ({"workflow": "nightly.yml"}, {}, "other_workflow"),
    ({"repository": "o/fork"}, {}, "other_repository"),
    ({"branch": "release"}, {}, "other_branch"),
    ({"at": BEGIN + timedelta(days=61)}, {}, "not_before"),
    ({"event": "schedule"}, {}, "other_event"),
    ({"event": "push"}, {"event": "schedule"}, ""),
    ({"branch": "topic", "sha": sha(400)}, {}, "other_branch"),
    ({"branch": None, "sha": sha(400)}, {}, "own_push"),
]


@pytest.mark.parametrize(("facts", "of", "reason"), OBJECTIONS)
def test_excluded_baseline_run_has_a_reason(
    facts: dict[str, Any], of: dict[str, Any], reason: str
) -> None:
    known = history(past(1), past(7, **facts))
    found = select_baseline(known, candidate(**of), "main")
    number = facts.get("run_id", 7)
    assert reasons(found).get(number, "") == reason
    assert used(found, known) == ([1] if reason else [1, 7])


def test_push_to_pull_request_branch_is_excluded_without_known_base() -> None:
    known = history(past(1), past(2, branch="topic"))
    found = select_baseline(known, candidate())
    assert reasons(found) == {2: "own_push"}
    forked = select_baseline(
        known, candidate(branch="main"), "main"
    )  # a fork's branch may be called so
    assert used(forked, known) == [1]


@pytest.mark.parametrize(
    ("event", "there", "wanted"),
    [
        ("schedule", ("push", "schedule"), "schedule"),
        ("pull_request", ("merged_group", "schedule"), "merged_group"),
        ("schedule", ("push", "workflow_dispatch"), "push"),
        ("workflow_dispatch", ("schedule", "workflow_dispatch"), "workflow_dispatch"),
        ("pull_request", ("schedule", "push"), "push"),
        ("pull_request", ("schedule",), "schedule"),
        ("merge_group", ("workflow_dispatch", "push"), "push"),
        ("push", ("push", None), "push"),
        (None, (None,), None),
    ],
)
def test_baseline_pools_only_runs_of_one_event(
    event: str | None, there: tuple[str | None, ...], wanted: str | None
) -> None:
    known = history(*(past(n, event=one) for n, one in enumerate(there, 1)))
    found = select_baseline(known, candidate(event=event), "main")
    assert {known.runs[at].event for at in found.used} <= {wanted, None}
    assert len(found.used) + len(found.excluded) == len(there)


def test_baseline_runs_are_ancestors_of_the_base_commit() -> None:
    known = history(*(past(n) for n in range(1, 6)))
    lineage = Ancestry(sha(3), frozenset({sha(1), sha(2), sha(3)}), frozenset({sha(5)}), "git")
    found = select_baseline(known, candidate(), "main", lineage)
    assert used(found, known) == [1, 2, 3, 4]  # nobody knows of 4
    assert reasons(found) == {5: "no_ancestor"}
    assert found.ordered_by_date == 1
    baseline = compare_run(candidate(), known, context=Context("main", lineage)).baseline
    assert baseline_text(baseline) == (
        "4 runs: 3 on ancestors of 0000000, by git; 1 before the candidate, by date"
    )
    assert excluded_text(baseline) == "1 run: of a commit that is not an ancestor"


def test_recorded_parents_extend_the_known_ancestry() -> None:
    runs = [past(n, parents=(sha(n - 1),)) for n in (1, 2, 4, 5)]
    lineage = with_parents(Ancestry(), runs, sha(5))
    assert {number for number in range(8) if lineage.is_ancestor(sha(number))} == {5, 4, 3}
    assert lineage.is_ancestor(sha(2)) is None
    assert (lineage.of, lineage.source) == (sha(5), "runs")
    assert with_parents(Ancestry(), runs, None) == Ancestry()
    assert Ancestry().is_ancestor(None) is None


def test_baseline_is_the_newest_twenty_runs() -> None:
    known = history(*(past(n) for n in range(1, 25)))
    found = select_baseline(known, candidate(), "main")
    assert used(found, known) == list(range(5, 25))
    assert reasons(found) == dict.fromkeys(range(1, 5), "too_old")


def test_used_and_excluded_values_are_counted_by_reason() -> None:
    good = [case("a", 1.0, 100), case("b", 1.0, 100), case("c", 1.0, 100, measured_by="sample")]
    bases = [
        run_of({"01": good, "02": [case("d")]}, run_id=1),
        run_of({"01": [*good[:2], case("c", outcome="failed")]}, run_id=2),
        run_of({"01": good}, run_id=3, ending="deadline"),
    ]
    head = run_of({"01": [case("a", 1.0, 100), case("b", 1.0, 100), case("c", 1.0, 100)]}, run_id=4)
    found = compare_run(head, None, bases).baseline
    assert [run.values for run in found.runs] == [3, 2, 0]
    assert found.values == 5
    assert {one.reason: one.values for one in found.excluded_values} == {
        "not_passed": 1,
        "incomplete_leg": 3,
        "other_method": 1,
    }


def test_earlier_pull_request_run_is_no_baseline_given_a_history() -> None:
    known = history(*(past(n) for n in range(1, 4)))
    earlier = run_of({"01": [case("a")]}, run_id=50, event="pull_request", branch="topic")
    found = compare_run(candidate(), known, [earlier], context=Context(branch="main"))
    assert [run.run_id for run in found.baseline.runs] == [1, 2, 3]
    assert found.base is not None
    assert found.base.run_id == 50
    alone = compare_run(candidate(), None, [earlier])
    assert [run.run_id for run in alone.baseline.runs] == [50]
    assert np.isnan(candidate().peak_delta_bytes).all()
