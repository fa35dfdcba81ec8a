"""`/OWNER/NAME`: its runs, the newest first, each with what it was for every suite and variant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.errors import UsageError
from ciguard.model import BAD_OUTCOMES
from ciguard.serve.pages.last_greens import LastGreen, is_green, last_greens
from ciguard.serve.state import run_rows
from ciguard.serve.state.run_key import RunKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.state.run_rows import RunRow, RunSuiteRow

PAGE_SIZE: Final = 30
_BEFORE: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Cell:
    """A suite and variant in a run: `missing` tests have no result, `bad` cases a bad one."""

    suite: str
    variant: str
    is_green: bool
    planned: int
    missing: int
    bad: int
    counts: Mapping[str, int]
    wall_s: float | None
    peak_bytes: int | None
    budget_bytes: int | None


@dataclass(frozen=True, slots=True)
class GridRun:
    """A run, and its cells by suite and variant."""

    run_id: int
    run_attempt: int
    head_sha: str
    branch: str
    pull_request: int | None
    event: str
    workflow: str
    is_complete: bool
    verdict: str
    comparison: str
    headline: str
    completed_at_ms: int
    planned: int
    missing: int
    makespan_s: float | None
    bound_s: float | None
    price_usd: float | None
    cells: tuple[Cell, ...]

    def cells_of(self, suite: str) -> tuple[Cell, ...]:
        """The variants of a suite."""
        return tuple(one for one in self.cells if one.suite == suite)


@dataclass(frozen=True, slots=True)
class RepositoryPage:
    """A page of runs; `next` is the value of `before` of the next page, "" of the last one."""

    TEMPLATE: ClassVar[str] = "repository"

    repository: str
    is_private: bool
    default_branch: str
    branch: str
    pull_request: int | None
    suites: tuple[str, ...]
    last_greens: tuple[LastGreen, ...]
    runs: tuple[GridRun, ...]
    next: str


def repository_page(visit: Visit) -> RepositoryPage:
    """Find a page of runs.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: the query has no sense.
    """
    branch = visit.query.get("branch", "")[:256]
    pull_request = visit.number("pull_request", 0, least=0, most=2**31 - 1) or None
    before = _parse_before(visit.query.get("before", ""))
    with visit.service.database.read() as connection:
        repository = visit.find_repository(connection)
        last = None
        if before is not None:
            last = run_rows.get(connection, RunKey(repository.id, *before))
            if last is None:
                raise UsageError(
                    "this run is not here any more", where="before", fix="begin at the first page"
                )
        found = run_rows.newest(
            connection,
            repository.id,
            before=last,
            branch=branch or None,
            pull_request=pull_request,
            limit=PAGE_SIZE + 1,
        )
        shown = found[:PAGE_SIZE]
        suites = run_rows.suites_of(connection, [run.key for run in shown])
        greens = last_greens(connection, repository.id)
    runs = tuple(grid_run(run, suites[run.key]) for run in shown)
    return RepositoryPage(
        repository.full_name,
        repository.is_private,
        repository.default_branch,
        branch,
        pull_request,
        tuple(sorted({cell.suite for run in runs for cell in run.cells})),
        greens,
        runs,
        _place(shown[-1]) if len(found) > PAGE_SIZE else "",
    )


def _parse_before(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = _BEFORE.fullmatch(text)
    if match is None:
        what = f"expected the place of a run, found {text[:80]!r}"
        raise UsageError(what, where="before", fix="begin at the first page")
    return int(match[1]), int(match[2])


def _place(run: RunRow) -> str:
    return f"{run.key.run_id}-{run.key.run_attempt}"


def grid_run(run: RunRow, suites: tuple[RunSuiteRow, ...]) -> GridRun:
    """A run with its suites and variants."""
    return GridRun(
        run.key.run_id,
        run.key.run_attempt,
        run.head_sha,
        run.branch,
        run.pull_request,
        run.event,
        run.workflow,
        is_complete(run),
        run.verdict,
        run.comparison,
        run.headline,
        run.completed_at_ms,
        run.planned,
        run.missing,
        run.makespan_s,
        run.bound_s,
        run.price_usd,
        tuple(
            Cell(
                one.suite,
                one.variant,
                is_green(one),
                one.planned,
                one.missing,
                sum(one.counts.get(outcome, 0) for outcome in BAD_OUTCOMES),
                one.counts,
                one.wall_s,
                one.peak_bytes,
                one.budget_bytes,
            )
            for one in suites
        ),
    )


def is_complete(run: RunRow) -> bool:
    """Say whether it was proved that every planned test ran."""
    return run.verdict in ("passed", "failed")
