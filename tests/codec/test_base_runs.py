"""What the history knows of the base: which runs are its, how many units, what fails there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ciguard.history.file import CODE_NAMES, History, of_columns
from ciguard.history.query import (
    BaseQuery,
    KnownFailure,
    base_runs,
    cases_of_run,
    known_failures,
    units_planned,
)
from ciguard.history.runs import HistoryLeg, HistoryRun
from ciguard.model import CaseKey

UP = HistoryLeg("01", complete=True, units_planned=3)
DOWN = HistoryLeg("02", complete=False, units_planned=4)
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
    counted = units_planned(found, ME)
    assert counted is not None
    assert (counted.planned, counted.source) == (7, "run 2 of main"), "a dead leg was planned too"
    assert units_planned(history({}, (imported,)), ME) is None


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
