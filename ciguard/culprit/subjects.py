"""The tests whose culprits are searched, and their range, of a comparison or a history. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from ciguard.compare.comparison import Comparison
from ciguard.culprit.search import Measure
from ciguard.errors import NothingToDo, UsageError
from ciguard.history.file import History
from ciguard.history.query import FAILED, SKIPPED, BaseQuery, base_runs
from ciguard.model import UnitKey
from ciguard.render.change_point import find_change


@dataclass(frozen=True, slots=True)
class Subject:
    """A test with a measure; `before` and `since`: its failed and passed runs around the range."""

    key: UnitKey
    measure: Measure
    before: tuple[int, int] = (0, 0)
    since: tuple[int, int] = (1, 0)


@dataclass(frozen=True, slots=True)
class Range:
    """Subjects that are good at one revision and bad at a later one."""

    good: str
    bad: str
    subjects: tuple[Subject, ...]


def subjects_of(comparison: Comparison) -> Iterator[Subject]:
    """Yield what got worse: tests that newly fail, confirmed or large regressions."""
    for case in comparison.newly_failing:
        ended = case.past.ended if case.past is not None else ()
        failed = sum(word == "failed" for word in ended)
        yield Subject(case.key.unit_key, "failure", (failed, len(ended) - failed))
    for change in comparison.clear_losses:
        is_time = change.measure == "wall_s"
        yield Subject(change.key.unit_key, "duration" if is_time else "memory")


def range_of_comparison(comparison: Comparison) -> Range:
    """Return the range between the two runs of a comparison.

    Raises:
        NothingToDo: nothing got worse for certain, or a commit of a run is not known.
    """
    unique = {(one.key, one.measure): one for one in subjects_of(comparison)}
    if not unique:
        raise NothingToDo("no test newly fails, and no regression is confirmed or large")
    good, bad = comparison.base and comparison.base.sha, comparison.candidate.sha
    if not good or not bad:
        raise NothingToDo("the comparison does not know the commits of both runs")
    return Range(good, bad, tuple(unique.values()))


def range_of_history(
    history: History, branch: str | None, keys: Iterable[UnitKey], measure: Measure
) -> Range:
    """Return the range that the base's runs name, the widest of all tests.

    Raises:
        UsageError: a test is not worse than before in them, or they know no commits.
    """
    found = [subject_in_history(history, branch, key, measure) for key in keys]
    fix = "pass --good COMMIT and --bad COMMIT"
    for subject, ends in found:
        if ends is None:
            raise UsageError(f"{subject.key.unit}: no change in the history", fix=fix)
    ends_of_all = [end for _, ends in found if ends is not None for end in ends]
    good, bad = (history.runs[end].sha for end in (min(ends_of_all), max(ends_of_all)))
    if not good or not bad:
        raise UsageError("the history does not know the commits of the runs", fix=fix)
    return Range(good, bad, tuple(subject for subject, _ in found))


def subject_in_history(
    history: History, branch: str | None, key: UnitKey, measure: Measure
) -> tuple[Subject, tuple[int, int] | None]:
    """Return a test with its rates, and the positions of its last good and its first bad run."""
    values, rows = history.values, _rows_by_run(history, key)
    executed = [run for run in base_runs(history, BaseQuery(branch)) if run in rows]
    if measure != "failure":
        is_time, executed = measure == "duration", executed[::-1]
        column, join = (values.wall_s, sum) if is_time else (values.peak_delta_bytes, max)
        change = find_change([join(column[rows[run]].tolist()) for run in executed])
        if change is None or change.ratio <= 0:
            return Subject(key, measure), None
        return Subject(key, measure), (executed[change.before], executed[change.first])
    failed = {
        run: FAILED[values.outcome[own], values.ending[own]].any() for run, own in rows.items()
    }
    red = [*takewhile(failed.__getitem__, executed)]
    before = executed[len(red) :]
    # What passed when it was tried again had failed, too.
    failures = sum(bool(failed[run] or (values.try_number[rows[run]] > 1).any()) for run in before)
    rates = (failures, len(before) - failures), (max(1, len(red)), 0)
    return Subject(key, measure, *rates), (before[0], red[-1]) if red and before else None


def _rows_by_run(history: History, key: UnitKey) -> dict[int, list[int]]:
    """Return the values of a test's cases that were executed, by position of the run."""
    wanted = [at for at, case in enumerate(history.keys) if case.unit_key == key]
    executed = np.isin(history.values.key, wanted) & (history.values.outcome != SKIPPED)
    rows: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(executed).tolist():
        rows[int(history.values.run[row])].append(row)
    return rows
