"""Flaky tests: tests that passed and failed at one commit, by retries or in two runs. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ciguard.model import UnitKey
from ciguard.serve.results.rows import STATUS_CODES
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    RunHeads = Mapping[tuple[int, int], str]  # by run id and attempt, the head commit

MAX_TROUBLED: Final = 20_000  # rows of failures and retries
MAX_RESULTS: Final = 1_000_000  # of runs that are searched for passes


@dataclass(frozen=True, slots=True)
class FlakyTest:
    """A test that passed and failed at one commit.

    Attributes:
        retried: runs in which it passed after a failure.
        contradicted: commits at which it passed in one run and failed in another.
        last_run_id, last_run_attempt: the latest of these runs.
    """

    suite: str
    variant: str
    unit: str
    retried: int
    contradicted: int
    last_run_id: int
    last_run_attempt: int


@dataclass(frozen=True, slots=True)
class FlakyTests:
    """The most flaky tests of all runs that started since a time.

    Attributes:
        from_ms: the time, milliseconds since 1970; later than requested if `is_partial`.
        is_partial: the requested period has too many failures and retries.
    """

    tests: tuple[FlakyTest, ...]
    from_ms: int
    is_partial: bool


class CommitRun(NamedTuple):
    """A judged run; `planned`, the number of its tests, is near that of its results."""

    run_id: int
    run_attempt: int
    head_sha: str
    started_at_ms: int
    planned: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The runs that are evaluated.

    Attributes:
        from_ms: all runs that started since then are evaluated.
        run_ids: runs that may have a pass of a test that failed at the same commit.
        is_partial: `from_ms` is later than requested.
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
        if rows > max_troubled or results > MAX_RESULTS:
            return Coverage(started_ms + 1, list(run_ids), is_partial=True)
        run_ids.update(dict.fromkeys(run.run_id for run in added))
    return Coverage(from_ms, list(run_ids), is_partial=False)


def find_flaky_tests(
    repository_id: int,
    troubled: Iterable[tuple[Any, ...]],
    good: Iterable[tuple[Any, ...]],
    heads: RunHeads,
) -> tuple[FlakyTest, ...]:
    """Find the flaky tests, the most often flaky first, then the latest.

    Args:
        troubled: rows of `queries.TROUBLED`.
        good: rows of `queries.GOOD`.
    """
    retried: dict[UnitKey, set[RunKey]] = defaultdict(set)
    failed: dict[tuple[str, str, str], dict[str, RunKey]] = defaultdict(dict)
    for suite, variant, unit, run_id, attempt, status, _ in troubled:
        run = RunKey(repository_id, run_id, attempt)
        key, head = UnitKey(suite, variant, unit), heads.get((run_id, attempt))
        if status == STATUS_CODES["good"]:
            retried[key].add(run)
        elif status == STATUS_CODES["bad"] and head is not None:
            failed[key].setdefault(head, run)
    contradicted: dict[UnitKey, dict[str, RunKey]] = defaultdict(dict)
    passed = [
        *good,
        *((*key, run.run_id, run.run_attempt) for key in retried for run in retried[key]),
    ]
    for suite, variant, unit, run_id, attempt in passed:
        # A tuple equals a UnitKey: most of these rows need no UnitKey.
        head, of_key = heads.get((run_id, attempt)), failed.get((suite, variant, unit))
        if head is not None and of_key is not None and head in of_key:
            run = RunKey(repository_id, run_id, attempt)
            contradicted[UnitKey(suite, variant, unit)][head] = max(run, of_key[head])
    tests = []
    for key in {*retried, *contradicted}:
        last = max([*retried.get(key, ()), *contradicted.get(key, {}).values()])
        counts = len(retried.get(key, ())), len(contradicted.get(key, ()))
        tests.append(FlakyTest(*key, *counts, last.run_id, last.run_attempt))
    return tuple(sorted(tests, key=_rank))


def _rank(test: FlakyTest) -> tuple[int, int, int, str, str, str]:
    count = test.retried + test.contradicted
    last = -test.last_run_id, -test.last_run_attempt
    return -count, *last, test.suite, test.variant, test.unit
