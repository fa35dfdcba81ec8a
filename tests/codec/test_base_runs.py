"""What the history knows of the base: which runs are its, how many units, what fails there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ciguard.history.file import CODE_NAMES, History, of_columns
from ciguard.history.query import (
    BaseQuery,
    KnownFailure,
    base_runs,
    base_unit_count,
    cases_of_run,
    known_failures,
)
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey, Suite, UnitCount, Variant

UP = HistoryLeg("01", complete=True, planned=(UnitCount(3),))
DOWN = HistoryLeg("02", complete=False, planned=(UnitCount(4),))
LETTERS = {"P": "passed", "F": "failed", "D": "died", "S": "skipped"}
ME = BaseQuery("main", "tests.yml", 99)


def history(outcomes: dict[str, str], runs: tuple[HistoryRun, ...]) -> History:
    """By case one letter a run, "." where it has none."""
    rows = [
        (key, run, CODE_NAMES["outcome"].index(LETTERS[letter]))
        for key, (_, letters) in enumerate(sorted(outcomes.items()))
        for run, letter in enumerate(letters)
        if letter != "."
    ]
    names = ("key", "run", "outcome")
    columns = {
        name: np.array([row[place] for row in rows], np.uint8 if name == "outcome" else np.int32)
        for place, name in enumerate(names)
    }
    more = {name: np.zeros(len(rows), np.uint8) for name in ("ending", "measured_by", "try_number")}
    keys = tuple(CaseKey("", "", name, name) for name in sorted(outcomes))
    values = of_columns({**columns, **more, "leg": np.zeros(len(rows), np.int32)})
    return History(values, runs, keys)


def run(number: int, *legs: HistoryLeg, branch: str | None = "main") -> HistoryRun:
    return HistoryRun(number, branch=branch, event="push", workflow="tests.yml", legs=legs or (UP,))


def test_base_runs_match_branch_workflow_and_event() -> None:
    runs = (
        run(1),
        replace(run(2), event="pull_request"),
        run(3, branch="release"),
        replace(run(4), workflow="nightly.yml"),
        replace(run(5), event="merge_group"),
        run(6, branch=None),
        run(99),
        run(120),
    )
    found = history({}, runs)
    assert [runs[place].run_id for place in base_runs(found, ME)] == [6, 1]
    everything = [runs[place].run_id for place in base_runs(found, BaseQuery())]
    assert everything == [120, 99, 6, 4, 3, 1], "nothing is known of who asks"


def test_unit_count_comes_from_the_newest_run_that_has_one() -> None:
    imported = run(3, HistoryLeg("", complete=True))
    found = history({}, (run(1), run(2, UP, DOWN), imported))
    counted = base_unit_count(found, ME, suites(""))
    assert counted is not None
    assert counted.planned == (UnitCount(7),), "a dead leg was planned too"
    assert counted.source == "run 2 of main"
    assert base_unit_count(history({}, (imported,)), ME, suites("")) is None


def suites(name: str, *variants: str) -> dict[str, Suite]:
    return {name: Suite("pytest", (), variants=dict.fromkeys(variants or ("",), Variant()))}


def of_plan(plan_id: str, *counts: UnitCount, shard: str = "01", attempt: int = 1) -> HistoryLeg:
    return HistoryLeg(
        shard, f"{plan_id} ({shard})", plan_id=plan_id, planned=counts, run_attempt=attempt
    )


def counted(found: tuple[HistoryRun, ...], ours: dict[str, Suite]) -> tuple[UnitCount, ...]:
    base = base_unit_count(history({}, found), ME, ours)
    return base.planned if base is not None else ()


def test_units_of_each_plan_of_a_run_are_counted_by_themselves() -> None:
    """Two jobs of one workflow were moved: each has a plan, and a history action of its own."""
    unit = of_plan("unit", UnitCount(900, "unit", "3.12")), of_plan("unit", shard="02")
    web = of_plan("web", UnitCount(40, "web"))
    both = run(2, *unit, web)
    assert counted((both,), suites("unit", "3.12")) == (UnitCount(900, "unit", "3.12"),)
    assert counted((both,), suites("web")) == (UnitCount(40, "web"),)
    assert counted((both, run(3, *unit)), suites("web")) == (UnitCount(40, "web"),), (
        "run 3 has none"
    )
    unknown = run(4, HistoryLeg("03", plan_id="web", planned=None), web)
    assert counted((both, unknown), suites("web")) == (UnitCount(40, "web"),)
    assert counted((both,), suites("docs")) == ()


def test_of_two_plans_with_one_suite_that_with_the_same_variants_counts() -> None:
    plans = of_plan("a", UnitCount(9, "", "linux")), of_plan("b", UnitCount(8, "", "windows"))
    assert counted((run(2, *plans),), suites("", "windows", "macos")) == (
        UnitCount(8, "", "windows"),
    )


def test_plan_of_the_newest_attempt_counts() -> None:
    """It was run again with one shard less: that of the first attempt stays in the history."""
    stale = of_plan("z", UnitCount(3), shard="02")
    again = run(2, of_plan("a", UnitCount(9), attempt=2), stale)
    assert counted((again,), suites("")) == (UnitCount(9),)


def test_suites_that_the_plan_of_the_base_had_besides_are_counted() -> None:
    legs = (
        of_plan("a", UnitCount(9, "api"), UnitCount(2, "web")),
        of_plan("a", UnitCount(5, "web"), shard="02"),
    )
    assert counted((run(2, *legs),), suites("api")) == (UnitCount(9, "api"), UnitCount(7, "web"))


def test_cases_of_run_lists_the_cases_with_a_result() -> None:
    found = history({"a": "PF", "b": ".P", "c": "S."}, (run(1), run(2)))
    assert [key.case for key in cases_of_run(found, 1)] == ["a", "b"]


def test_known_failures_come_from_newest_complete_run_with_start() -> None:
    runs = (run(1), run(2), run(3), run(4), run(5, UP, DOWN))
    letters = {
        "always": "FFFFF",
        "since three": "PPFDP",
        "mended": "FFFPF",
        "unseen between": "F..FF",
        "not there": "FFF..",
        "skipped": "FFSF.",
    }
    known, newest = known_failures(history(letters, runs), ME)
    assert newest is not None
    assert newest.run_id == 4, "a leg of run 5 did not end by itself"
    assert {key.unit: (one.outcome, one.since_run) for key, one in known.items()} == {
        "always": ("failed", 1),
        "since three": ("died", 3),
        "unseen between": ("failed", 1),
        "skipped": ("failed", 4),
    }
    key = CaseKey("", "", "always", "always")
    assert known[key] == KnownFailure("failed", since_run=1, run=4, branch="main")


def test_failure_streak_ignores_runs_of_other_branches() -> None:
    runs = (run(1), replace(run(2), event="pull_request"), run(3))
    known, _ = known_failures(history({"a": "FPF", "b": "PFF"}, runs), ME)
    assert {key.unit: one.since_run for key, one in known.items()} == {"a": 1, "b": 3}


def test_no_complete_run_means_no_known_failures() -> None:
    assert known_failures(history({"a": "F"}, (run(1, DOWN),)), ME) == ({}, None)
