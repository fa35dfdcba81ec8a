"""Which tests passed and failed at one commit: within a run by retries, or in two runs. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ciguard.model import UnitKey
from ciguard.serve.results.rows import STATUS_CODES
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    RunHeads = Mapping[tuple[int, int], str]  # by run id and attempt, the head commit

MOST_TROUBLED: Final = 20_000  # rows of failures and retries
MOST_RUNS: Final = 200  # beside failed ones, in which passes are looked for
MOST_UNITS: Final = 2000


@dataclass(frozen=True, slots=True)
class FlakyTest:
    """A test that passed and failed at one commit.

    Attributes:
        retried: runs in which it passed after a failure.
        contradicted: commits at which it passed in one run and failed in another.
        last: the latest of these runs.
    """

    key: UnitKey
    retried: int
    contradicted: int
    last: RunKey


@dataclass(frozen=True, slots=True)
class FlakyTests:
    """The most flaky tests of all runs that started since a time.

    Attributes:
        from_ms: the time, milliseconds since 1970: later than asked for where `is_partial`.
        is_partial: more went wrong in the time asked for than is looked at.
    """

    tests: tuple[FlakyTest, ...]
    from_ms: int
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Candidates:
    """Where passes are looked for of tests that failed at the same commit.

    Attributes:
        before_ms: only runs that started later are wholly looked at; None where all are.
    """

    run_ids: Sequence[int]
    units: Sequence[str]
    before_ms: int | None


def find_candidates(
    troubled: Sequence[tuple[Any, ...]], heads: RunHeads, most: int = MOST_TROUBLED
) -> Candidates:
    """Runs in which a test may have passed that failed at the same commit, and these tests' units.

    Args:
        troubled: rows of `queries.TROUBLED`, the newest first; one more than `most` if there are
            more.
    """
    by_head: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run, head in heads.items():
        by_head[head].append(run)
    run_ids: dict[int, None] = {}
    units: dict[str, None] = {}
    before_ms = troubled[most][-1] if len(troubled) > most else None
    for _, _, unit, run_id, attempt, status, _, started_ms in troubled:
        same = by_head.get(heads.get((run_id, attempt), ""), [])
        if status == STATUS_CODES["bad"] and len(same) > 1:
            if len(run_ids) >= MOST_RUNS or len(units) >= MOST_UNITS:
                before_ms = started_ms
            if started_ms == before_ms:
                break
            run_ids.update(dict.fromkeys(run for run, _ in same))
            units[unit] = None
    return Candidates(list(run_ids), list(units), before_ms)


def find_flaky_tests(
    repository_id: int,
    troubled: Iterable[tuple[Any, ...]],
    good: Iterable[tuple[Any, ...]],
    heads: RunHeads,
) -> tuple[FlakyTest, ...]:
    """The flaky tests, the most often flaky first, then the latest.

    Args:
        troubled: rows of `queries.TROUBLED`.
        good: rows of `queries.GOOD`.
    """
    retried: dict[UnitKey, set[RunKey]] = defaultdict(set)
    failed: dict[UnitKey, dict[str, RunKey]] = defaultdict(dict)
    for suite, variant, unit, run_id, attempt, status, *_ in troubled:
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
        key, head = UnitKey(suite, variant, unit), heads.get((run_id, attempt))
        if head is not None and head in failed.get(key, ()):
            run = RunKey(repository_id, run_id, attempt)
            contradicted[key][head] = max(run, failed[key][head])
    found = [
        FlakyTest(
            key,
            len(retried.get(key, ())),
            len(contradicted.get(key, ())),
            max([*retried.get(key, ()), *contradicted.get(key, {}).values()]),
        )
        for key in {*retried, *contradicted}
    ]
    return tuple(sorted(found, key=_rank))


def _rank(test: FlakyTest) -> tuple[int, int, int, UnitKey]:
    last = test.last
    return -(test.retried + test.contradicted), -last.run_id, -last.run_attempt, test.key
