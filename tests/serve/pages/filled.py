"""A service with something on every page: three repositories, runs of every verdict, dead work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import sqlalchemy as sa

from ciguard.serve.state import judged_runs, repositories, schema, statements, work_list
from ciguard.serve.state.judged_runs import RunRow, RunSuiteRow
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_list import NewWork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.serve.service import Service
    from ciguard.serve.state.judged_runs import RunVerdict

SHOP: Final = Repository(11, "octo-org/shop", is_private=False, default_branch="main")
VAULT: Final = Repository(12, "octo-org/vault", is_private=True, default_branch="trunk")
EMPTY: Final = Repository(13, "octo-org/empty", is_private=False)
HOSTILE: Final = "</td><script>alert(1)</script><img src=x onerror=alert(1)>"
MIB: Final = 1 << 20
MINUTE_MS: Final = 60_000
VERDICTS: Final[Sequence[RunVerdict]] = ("passed", "failed", "incomplete", "not_evaluated")
HEADLINES: Final = {
    "passed": "PASSED: 1,284 tests in 8 shards, all with a result",
    "failed": "FAILED: 2 of 1,284 tests failed",
    "incomplete": "INCOMPLETE: shard 03 of 8 has no record; 161 of 1,284 tests have no result",
    "not_evaluated": "INCOMPLETE: the plan of this run could not be read",
}


def make_run(repository: Repository, number: int, now_ms: int, answer: str = "") -> RunRow:
    """A run of one of four verdicts, an hour and 17 minutes before the one of the number before."""
    verdict = VERDICTS[(0, 1, 0, 2, 0, 0, 3)[number % 7]]
    is_base = number % 3 != 1
    missing = 161 if verdict == "incomplete" else 0
    completed_at_ms = now_ms - (3 + 77 * number) * MINUTE_MS
    return RunRow(
        key=RunKey(repository.id, 19_500_000_000 - number * 1013, 1 + number % 5 // 4),
        workflow="tests.yml",
        event="push" if is_base else "pull_request",
        branch=repository.default_branch if is_base else f"feature/{HOSTILE}"[: 40 + number],
        head_sha=f"{number * 7919 + 3:040x}"[::-1],
        pull_request=None if is_base else 400 + number,
        is_base_branch=is_base,
        started_at_ms=completed_at_ms - 9 * MINUTE_MS,
        completed_at_ms=completed_at_ms,
        verdict=verdict,
        comparison="" if is_base else "worse" if verdict == "failed" else "same",
        headline=HEADLINES[verdict],
        exit_code=0,
        planned=1284,
        missing=missing,
        makespan_s=None if verdict == "not_evaluated" else 412.5 + 7 * number % 60,
        bound_s=None if verdict == "not_evaluated" else 398.0,
        price_usd=None if verdict == "not_evaluated" else 0.43,
        answer=answer,
    )


def make_suites(run: RunRow, number: int) -> list[RunSuiteRow]:
    """Of two suites, one with three variants."""
    if run.verdict == "not_evaluated":
        return []
    failed = 2 if run.verdict == "failed" else 0
    places = [("unit", "linux"), ("unit", "macos"), ("unit", "windows"), ("e2e", "chromium")]
    return [
        RunSuiteRow(
            suite,
            variant,
            planned=321,
            missing=run.missing if at == 1 else 0,
            counts={"passed": 319, "failed": failed if at == 0 else 0, "skipped": 2},
            wall_s=180.0 + 53 * at + number,
            peak_bytes=(900 + 260 * at + 10 * number) * MIB if at != 2 else None,
            budget_bytes=1700 * MIB if at != 2 else None,
        )
        for at, (suite, variant) in enumerate(places)
    ]


def fill(service: Service, now_ms: int, runs: int = 34) -> None:
    """Put in what the pages show."""
    with service.database.write() as connection:
        repositories.upsert(connection, [SHOP, VAULT, EMPTY])
        for repository in (SHOP, VAULT):
            for number in range(runs):
                run = make_run(repository, number, now_ms)
                judged_runs.record_run(connection, run, make_suites(run, number))
        for repository, lane in ((SHOP, "a"), (VAULT, "b")):
            dead, waiting = RunKey(repository.id, 19_600_000_000, 1), RunKey(repository.id, 7, 2)
            entries = [NewWork(dead, lane, "webhook"), NewWork(waiting, lane * 2, "reconcile")]
            work_list.add(connection, entries)
            connection.execute(
                sa.update(schema.work)
                .where(statements.is_run(schema.work, dead))
                .values(state="dead", tries=8, problem=f"artifact {HOSTILE}: expired (HTTP 410)")
            )
