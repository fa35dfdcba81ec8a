"""The pages of a repository by its history alone: the base runs, and the tests in them. Pure.

A test of a site is a case. Each function is O(values) in numpy; Python touches the runs, and the
tests that a page lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, takewhile
from statistics import multimode
from typing import Final

import numpy as np

from ciguard.compare.whose import interval_text
from ciguard.history import age
from ciguard.history.file import CODE_NAMES, History, Values
from ciguard.history.query import DIED, FAILED, BaseQuery, base_runs
from ciguard.history.runs import HistoryRun
from ciguard.model import CaseKey, UnitKey
from ciguard.model.attempts import STATUSES
from ciguard.render import pages
from ciguard.render.pages import charted_runs, find_trends
from ciguard.text import case_name, name_some

LISTED: Final = 30  # tests of a list, each with a page of its own
SHOWN: Final = 30  # runs of a table
STATE_DAYS: Final = 32  # of a workflow without runs, which was renamed; a monthly one counts
DAY_MS: Final = 86_400_000


def base_history(history: History) -> History:
    """Return the history of the branch with most runs of merged changes, the newest of equals."""
    branches = (history.runs[at].branch for at in base_runs(history, BaseQuery()))
    branch = next(iter(multimode(filter(None, branches))), None)
    positions = sorted(base_runs(history, BaseQuery(branch)))
    index = np.full(len(history.runs), -1, np.int32)
    index[positions] = np.arange(len(positions))
    rows = index[history.values.run] >= 0
    columns = {name: column[rows] for name, column in history.values.columns().items()}
    values = Values(**{**columns, "run": index[columns["run"]]})
    return History(values, tuple(history.runs[at] for at in positions), history.keys)


def repository_pages(
    name: str, base: History, rows: Sequence[pages.RunRow]
) -> Iterator[tuple[str, pages.View]]:
    """Yield the pages of a repository by address; of tests, those of the lists have one.

    Args:
        rows: the base runs, the newest first; at least one.
    """
    path = pages.repository_path(name)
    heads = (name, False, rows[0].branch)
    dates_ms = [row.started_at_ms for row in rows if row.started_at_ms] or [0]
    days = (dates_ms[0] - dates_ms[-1]) // DAY_MS + 1
    charted = charted_runs(rows, 0)
    trends = tuple(charted), find_trends(charted)
    shown, stale = tuple(rows[:SHOWN]), tuple(_stale_tests(base))
    page_of_runs = pages.RepositoryPage(*heads, "", None, {}, ("",), (), shown, "", days, *trends)
    yield path, replace(page_of_runs, stale=stale)
    runs: dict[int, tuple[pages.UnitRun, ...]] = {}
    for by, tests in ranked_tests(base):
        runs |= {test: tuple(runs_of_test(base, test)) for test in tests}
        sums = tuple(_sums(_named(base.keys[test]), runs[test]) for test in tests)
        page = pages.SlowestPage(name, by, days, (), sums)
        yield f"{path}/offenders?by={by}", page
        if by == "time":
            yield f"{path}/offenders", page
    found = (_flaky_tests(_named(base.keys[test]), own) for test, own in runs.items())
    flaky = [*chain.from_iterable(found)]
    flaky.sort(key=lambda test: (test.is_broken, -test.failures / test.runs))
    yield f"{path}/flaky", pages.FlakyPage(name, days, dates_ms[-1], False, (), (*flaky,), {}, {})
    for test, own in runs.items():
        key = _named(base.keys[test])
        page_of_test = pages.UnitPage(name, *key, None, None, (), "", (), own)
        yield pages.page_address(f"{path}/tests", key._asdict()), page_of_test


def _stale_tests(base: History) -> Iterator[str]:
    """Yield the tests of the newest complete run that have not run for days, the oldest first."""
    newest = next((run for run in reversed(base.runs) if run.complete), None)
    if newest is not None:
        listed = age.listed_on_base(base, newest)
        for group in age.age_of_green(base, newest.branch, listed, newest.at).stale:
            yield f"{group.words}: {name_some(group.tests, case_name, LISTED)}"


def _named(key: CaseKey) -> UnitKey:
    """Return a test's name: of its case, after that of its unit unless the case contains it."""
    return UnitKey(*key[:2], key.case if key.unit in key.case else f"{key.unit} {key.case}")


def ranked_tests(base: History) -> Iterator[tuple[str, list[int]]]:
    """Yield the slowest, largest, most often failed and retried tests, the greatest first."""
    values, keys = base.values, len(base.keys)
    is_bad = FAILED[values.outcome, values.ending]
    growth = np.zeros(keys)
    np.fmax.at(growth, values.key, values.peak_delta_bytes)
    for by, score in (
        ("time", np.bincount(values.key, np.nan_to_num(values.wall_s), keys)),
        ("peak-delta", growth),
        ("failures", np.bincount(values.key, is_bad, keys)),
        ("flaky", np.bincount(values.key, ~is_bad & (values.try_number > 1), keys)),
    ):
        best = np.argsort(-score, kind="stable")[:LISTED]
        yield by, best[score[best] > 0].tolist()


def _flaky_tests(key: UnitKey, runs: Sequence[pages.UnitRun]) -> Iterator[pages.FlakyTest]:
    """Yield the test of these runs, the newest first, if the service calls it flaky or broken."""
    failed = [run for run in runs if run.status == "bad" or run.is_flaky]
    red = list(takewhile(lambda run: run.status == "bad", runs))
    heads = {run.head_sha for run in runs if run.status == "bad"} - {""}
    heads &= {run.head_sha for run in runs if run.status == "good"}
    periods = sum(new in failed and old not in failed for new, old in pairwise((*runs, None)))
    if failed:
        retried, last = sum(run.is_flaky for run in runs), failed[0]
        test = pages.FlakyTest(
            *(*key, retried, len(heads), last.run_id, last.run_attempt, runs[0].branch),
            *(len(failed), len(runs), len(red), red[-1].head_sha if red else ""),
            *(failed[-1].at_ms, last.at_ms, None, interval_text(len(failed), len(runs))),
        )
        if periods > 1 or heads or retried or test.is_broken:
            yield test


def runs_of_test(base: History, test: int) -> Iterator[pages.UnitRun]:
    """Yield the base runs of a test, the newest first."""
    values = base.values
    begin, end = np.searchsorted(values.key, [test, test + 1]).tolist()
    for row in reversed(range(begin, end)):
        run, outcome, ending = base.runs[values.run[row]], values.outcome[row], values.ending[row]
        measures = values.wall_s[row].item(), values.peak_delta_bytes[row].item()
        wall_s, growth = (None if np.isnan(value) else value for value in measures)
        head = run.run_id, run.run_attempt, _ms(run), 1
        words = CODE_NAMES["outcome"][outcome], CODE_NAMES["ending"][ending] or "unknown"
        status = STATUSES[1 if FAILED[outcome, ending] else 2 * (outcome == DIED)]
        measured = wall_s, None, growth, None
        of = run.branch or "", run.sha or ""
        yield pages.UnitRun(*head, *words, status, int(values.try_number[row]), *measured, *of)


def _sums(key: UnitKey, runs: Sequence[pages.UnitRun]) -> pages.UnitSums:
    walls_s = [run.wall_s for run in runs if run.wall_s is not None]
    growths = [run.peak_delta_bytes for run in runs if run.peak_delta_bytes is not None]
    failed = sum(run.status == "bad" for run in runs)
    counts = len(runs), len(runs), failed, sum(run.is_flaky for run in runs)
    times = sum(walls_s) if walls_s else None, len(walls_s)
    return pages.UnitSums(*key, *counts, *times, None, max(growths, default=None))


def run_rows(base: History) -> Iterator[pages.RunRow]:
    """Yield the base runs, the newest first, each with one cell for all suites."""
    words, values = CODE_NAMES["outcome"], base.values
    counts = np.zeros((len(base.runs), len(words)), np.int64)
    np.add.at(counts, (values.run, values.outcome), 1)
    walls_s = np.bincount(values.run, np.nan_to_num(values.wall_s), len(counts)).tolist()
    for run, numbers, wall_s in [*zip(base.runs, counts.tolist(), walls_s, strict=True)][::-1]:
        missing = sum(len(leg.lost_units) for leg in run.legs)
        planned, counted = sum(numbers) + missing, dict(zip(words, numbers, strict=True))
        peak_bytes = max((leg.peak_bytes for leg in run.legs if leg.peak_bytes), default=None)
        cell = pages.RunSuiteRow("", "", planned, missing, counted, wall_s, peak_bytes, None)
        verdict: pages.RunVerdict = "failed" if cell.bad else "passed"
        yield pages.RunRow(
            pages.RunKey(0, run.run_id, run.run_attempt),
            *(run.workflow or "", run.event or "", run.branch or "", run.sha or ""),
            pull_request=None,
            is_base_branch=True,
            started_at_ms=_ms(run),
            completed_at_ms=_ms(run),
            verdict="incomplete" if missing or not run.complete else verdict,
            makespan_s=max((leg.wall_s for leg in run.legs if leg.wall_s), default=None),
            cells=(cell,),
        )


def base_state(rows: Sequence[pages.RunRow]) -> pages.RunRow:
    """Return the newest red run that is the newest of its workflow; if none is, the newest run.

    Its facts have the first of the red runs.
    """
    since_ms = rows[0].started_at_ms - STATE_DAYS * DAY_MS
    newest = {row.workflow: row for row in reversed(rows) if row.started_at_ms >= since_ms}
    state = next((row for row in rows if row.is_red and row in newest.values()), rows[0])
    runs = [row for row in rows if row.workflow == state.workflow]
    reds = list(takewhile(lambda row: row.is_red, runs))
    if not reds:
        return state
    green_sha = runs[len(reds)].head_sha if len(reds) < len(runs) else None
    red = {"sha": reds[-1].head_sha, "green_sha": green_sha, "commits": None}
    return replace(state, facts={"red_since": red})


def _ms(run: HistoryRun) -> int:
    """Return the start of a run in milliseconds; the epoch for a run without a date."""
    return max(0, int(run.at.timestamp() * 1000))
