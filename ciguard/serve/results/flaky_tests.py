"""Flaky tests: they passed and failed at one commit, or come and go on the default branch. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from ciguard.compare.whose import interval_text
from ciguard.render.pages import FlakyTest
from ciguard.serve.results.rows import STATUS_CODES
from ciguard.serve.state.run_rows import CommitRun

Test = tuple[str, str, str]
_Troubled = tuple[CommitRun, int, int | None]  # run, status, time of failed tries

MAX_TROUBLED: Final = 20_000  # rows of failures and retries
MAX_RESULTS: Final = 500_000  # of runs that are searched for passes


@dataclass(frozen=True, slots=True)
class FlakyTests:
    """The most flaky tests of all runs that started since a time, then the broken ones.

    Attributes:
        from_ms: the time, milliseconds since 1970; later than requested if `is_partial`.
        is_partial: the requested period has too many failures and retries.
    """

    tests: tuple[FlakyTest, ...]
    from_ms: int
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Coverage:
    """The runs that are evaluated.

    Attributes:
        from_ms: all runs that started since then are evaluated.
        run_ids: runs that may have a pass of a test that failed at the same commit.
        is_partial: `from_ms` is later than requested, or more runs may have such a pass.
    """

    from_ms: int
    run_ids: Sequence[int]
    is_partial: bool


def choose_runs(
    troubled: Iterable[tuple[int, int, int, int]],
    runs: Iterable[CommitRun],
    from_ms: int,
    max_troubled: int = MAX_TROUBLED,
) -> Coverage:
    """Choose the runs since a time, or since a later time if failures exceed the limit.

    Args:
        troubled: rows of `queries.TROUBLED_RUNS`, the newest first.
        max_troubled: limit of rows with a failure or retry.
    """
    heads: dict[tuple[int, int], str] = {}
    by_head: dict[str, list[CommitRun]] = defaultdict(list)
    for run in runs:
        heads[run.run_id, run.run_attempt] = run.head_sha
        by_head[run.head_sha].append(run)
    run_ids: dict[int, None] = {}
    rows = results = 0
    for run_id, attempt, started_ms, number in troubled:
        same = by_head.get(heads.get((run_id, attempt), ""), [])
        added = [run for run in same if run.run_id not in run_ids] if len(same) > 1 else []
        rows += number
        results += sum(run.planned for run in added)
        if rows > max_troubled:
            return Coverage(started_ms + 1, list(run_ids), is_partial=True)
        if results <= MAX_RESULTS:
            run_ids.update(dict.fromkeys(run.run_id for run in added))
    return Coverage(from_ms, list(run_ids), is_partial=results > MAX_RESULTS)


def find_flaky_tests(
    troubled: Iterable[tuple[Any, ...]],
    good: Iterable[tuple[Any, ...]],
    runs: Iterable[tuple[str | None, str | None, CommitRun]],
    first_times: Mapping[Test, int] = {},  # never changed
) -> tuple[FlakyTest, ...]:
    """Find the flaky tests, the most often flaky first, then the latest; then the broken ones.

    Args:
        troubled: rows of `queries.TROUBLED`.
        good: rows of `queries.GOOD`.
        runs: as `run_rows.commit_runs`.
        first_times: since which the runs of the default branch count, for tests that are new.
    """
    known: dict[tuple[int, int], CommitRun] = {}
    ran: dict[tuple[str | None, str | None], set[CommitRun]] = defaultdict(set)
    for of_suite, of_variant, run in runs:
        known[run.run_id, run.run_attempt] = run
        ran[of_suite, of_variant].add(run)
    tests: dict[Test, list[_Troubled]] = defaultdict(list)
    passed: dict[Test, list[CommitRun]] = defaultdict(list)
    for suite, variant, unit, run_id, attempt, status, _, lost_us in troubled:
        if (run_id, attempt) in known:
            row = known[run_id, attempt], status, lost_us
            tests[suite, variant, unit].append(row)
    for suite, variant, unit, run_id, attempt in good:
        good_run, rows = known.get((run_id, attempt)), tests.get((suite, variant, unit), ())
        if good_run is not None and any(row[0].head_sha == good_run.head_sha for row in rows):
            passed[suite, variant, unit].append(good_run)
    orders = {name: {run: at for at, run in enumerate(sorted(of))} for name, of in ran.items()}
    newest = {name: max(of) for name, of in ran.items()}
    judged = []
    for key, rows in tests.items():
        is_one_failure = len(rows) == 1 and rows[0][1] == STATUS_CODES["bad"]
        if is_one_failure and key not in passed and rows[0][0] != newest.get(key[:2]):
            continue  # the usual case, neither flaky nor broken
        order, first_ms = orders.get(key[:2], {}), first_times.get(key, 0)
        if order and first_ms > next(iter(order)).started_at_ms:
            later = (run for run in order if run.started_at_ms >= first_ms)
            order = {run: at for at, run in enumerate(later)}
        judged.append(_judge(key, rows, passed[key], order))
    return tuple(sorted(filter(None, judged), key=_rank))


def _judge(
    key: Test, troubled: list[_Troubled], passed: list[CommitRun], order: dict[CommitRun, int]
) -> FlakyTest | None:
    """Return a flaky or broken test; None after one period of failures. `order`: oldest is 0."""
    retried = [run for run, status, _ in troubled if status == STATUS_CODES["good"]]
    bad = [run for run, status, _ in troubled if status == STATUS_CODES["bad"]]
    heads = {run.head_sha for run in bad} & {run.head_sha for run in (*retried, *passed)}
    failed = {order[run] for run in (*retried, *bad) if run in order}
    red = {order[run]: run for run in bad if run in order}
    red_runs = next(number for number in count() if len(order) - 1 - number not in red)
    is_flaky = retried or heads or sum(at - 1 not in failed for at in failed) > 1
    if not (is_flaky or red_runs):
        return None
    evidence = {*retried, *red.values()}
    evidence |= {run for run in (*bad, *passed) if run.head_sha in heads}
    lost = [us for run, _, us in troubled if us is not None and run in evidence]
    first, last = min(evidence), max(evidence)
    test = FlakyTest(
        *(*key, len(retried), len(heads), last.run_id, last.run_attempt),
        next(reversed(order)).branch if order else "",
        *(len(failed), len(order), red_runs),
        red[len(order) - red_runs].head_sha if red_runs else "",
        *(first.started_at_ms, last.started_at_ms, sum(lost) / 1e6 if lost else None),
        interval=interval_text(len(failed), len(order)) if order else "",
    )
    return test if is_flaky or test.is_broken else None


def _rank(test: FlakyTest) -> tuple[bool, int, int, int, str, str, str]:
    number = test.retried + test.contradicted + test.failures
    last = -test.last_run_id, -test.last_run_attempt
    return test.is_broken, -number, *last, test.suite, test.variant, test.unit
