"""`/`: repositories, red ones first; `/OWNER/NAME`: its runs; and its `/shards` and `/movers`."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from statistics import fmean, stdev
from typing import ClassVar, Final

from ciguard.compare.statistics import student_p
from ciguard.errors import UsageError
from ciguard.github.models import MAX_NUMBER
from ciguard.render.pages import (
    VERDICTS,
    LastGreen,
    RepositoriesPage,
    RepositoryLine,
    RepositoryPage,
    RunRow,
    charted_runs,
    find_trends,
)
from ciguard.serve.pages.slowest_and_flaky_pages import find_period
from ciguard.serve.pages.visit import Visit
from ciguard.serve.results.queries import MOVER_MEASURES, query_choice, query_number
from ciguard.serve.results.read_model import Mover
from ciguard.serve.state import repositories, run_rows
from ciguard.serve.state.run_key import RunKey

ROWS: Final = 20
SEARCHED: Final = 200  # runs, of the default branch for the last green one, of each workflow else
YEARS: Final = range(1970, 9999)  # in any time zone
_BEFORE: Final = re.compile(r"([0-9]{1,15})-([0-9]{1,6})")


def repository_page(visit: Visit) -> RepositoryPage:
    """Find a page of runs.

    Raises:
        PageNotFound: as `Visit.find_repository`.
        UsageError: the query is invalid.
    """
    filters = _parse_filters(visit.query)
    before = _parse_before(visit.query.get("before", ""))
    repository, days, from_ms = find_period(visit)
    with visit.service.database.read() as connection:
        last = None
        if before is not None:
            last = run_rows.get(connection, RunKey(repository.id, *before))
            if last is None:
                raise UsageError(
                    "this run is not here any more", where="before", fix="begin at the first page"
                )
        is_base = filters.get("branch") == repository.default_branch  # a fork may have its name
        of_page = {**filters, "is_base_branch": True} if is_base else filters
        newest = run_rows.newest(connection, repository.id, before=last, limit=ROWS + 1, **of_page)
        runs = run_rows.with_cells(connection, newest[:ROWS])
        base = run_rows.newest(connection, repository.id, is_base_branch=True, limit=SEARCHED)
        base = run_rows.with_cells(connection, base)
    charted, names = chart_workflow(visit, repository.id, from_ms)
    head = (repository.full_name, repository.is_private, repository.default_branch)
    pull_request = int(filters["pull_request"]) if "pull_request" in filters else None
    suites = tuple(sorted({cell.suite for run in runs for cell in run.cells}))
    after = f"{runs[-1].run_id}-{runs[-1].run_attempt}" if len(newest) > ROWS else ""
    branch, greens = str(filters.get("branch", "")), last_greens(base)
    page = RepositoryPage(*head, branch, pull_request, filters, suites, greens, runs, after, days)
    shown = tuple(replace(run, facts=None, cells=()) for run in charted)
    return replace(page, charted=shown, trends=find_trends(charted), workflows=names)


def chart_workflow(
    visit: Visit, repository_id: int, from_ms: int
) -> tuple[tuple[RunRow, ...], tuple[str, ...]]:
    """Return complete runs of the query's or busiest workflow, and the names, of that first."""
    workflow = visit.query.get("workflow")
    with visit.service.database.read() as connection:
        runs = run_rows.newest_by_workflow(connection, repository_id, from_ms, SEARCHED)
        chosen = [run for run in runs if workflow in (None, "", run.workflow)]
        charted = run_rows.with_cells(connection, charted_runs(chosen, from_ms))
    workflow = workflow or (charted[0].workflow if charted else "")
    return charted, (workflow, *sorted({run.workflow for run in runs} - {workflow}))


def _parse_filters(query: Mapping[str, str]) -> dict[str, str | int]:
    """Read the filters of runs from a query, as `run_rows.newest` takes them; "" counts as absent.

    Raises:
        UsageError: the first mistake.
    """
    filters: dict[str, str | int] = {
        name: query.get(name, "")[:256] for name in ("branch", "workflow", "owner")
    }
    filters["verdict"] = query_choice(query, "verdict", VERDICTS, "")
    filters["pull_request"] = query_number(query, "pull_request", 0, least=0, most=2**31 - 1)
    filters["run"] = query_number(query, "run", 0, least=0, most=MAX_NUMBER)
    for name in ("since", "until"):
        filters[f"{name}_ms"] = _parse_time(query.get(name, ""), name)
    return {name: value for name, value in filters.items() if value}


def _parse_time(text: str, name: str) -> int:
    """Return the ms of a date or time in ISO 8601, of UTC if it names no zone; 0 for ""."""
    try:
        moment = datetime.fromisoformat(text or "1970-01-01")
        YEARS.index(moment.year)
    except ValueError:
        what = f"expected a date or time such as 2026-11-30T09:00Z, found {text[:80]!r}"
        raise UsageError(what, where=name, fix=f"leave {name} out of the address") from None
    return round(1000 * (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _parse_before(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    match = _BEFORE.fullmatch(text)
    if match is None:
        what = f"expected the place of a run, found {text[:80]!r}"
        raise UsageError(what, where="before", fix="begin at the first page")
    return int(match[1]), int(match[2])


def last_greens(runs: Iterable[RunRow]) -> tuple[LastGreen, ...]:
    """Find the last green run of each suite and variant of the default branch, by their names."""
    greens: dict[tuple[str, str], RunRow | None] = {}
    for run in runs:
        for cell in run.cells:
            name = cell.suite, cell.variant
            if greens.setdefault(name, None) is None and cell.is_green:
                greens[name] = run
    return tuple(LastGreen(*name, greens[name]) for name in sorted(greens))


MIN_SHARES, RECENT = 5, 10  # of a limit, for a risk: it is that of the current level
MIN_SPREAD: Final = 0.02  # of logarithms of shares, against equal ones
LIMITS: Final = {"wall time": ("wall_s", "limit_s"), "memory": ("peak_bytes", "budget_bytes")}


@dataclass(frozen=True, slots=True)
class ShardUse:
    """The shares of a limit that a shard used in `n` runs; `risk` is that of its next run."""

    workflow: str
    shard: str
    limit: str
    n: int
    last_ratio: float
    largest_ratio: float
    risk: float | None


@dataclass(frozen=True, slots=True)
class ShardsPage:
    """The shards of the last 200 runs of each workflow of the default branch, by their risk."""

    TEMPLATE: ClassVar[str] = "shards"

    repository: str
    days: int
    shards: tuple[ShardUse, ...]


def shards_page(visit: Visit) -> ShardsPage:
    """Find the shards of the last days; raise as `slowest_page`."""
    repository, days, from_ms = find_period(visit)
    with visit.service.database.read() as connection:
        newest = run_rows.newest_by_workflow(connection, repository.id, from_ms, SEARCHED)
    runs = [run for run in newest if run.started_at_ms >= from_ms]
    return ShardsPage(repository.full_name, days, shard_uses(runs))


def shard_uses(runs: Sequence[RunRow]) -> tuple[ShardUse, ...]:
    """Return the shards of the newest run of each workflow, by risk, then largest share."""
    uses: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    current: dict[str, set[str]] = {}
    for run in runs:
        shards = {shard["shard"]: shard for shard in (run.facts or {}).get("shards", ())}
        names = current.setdefault(run.workflow, set(shards)) if shards else set()
        for name, (limit, (used, most)) in product(names & set(shards), LIMITS.items()):
            if shards[name][used] and shards[name][most]:
                uses[run.workflow, name, limit].append(shards[name][used] / shards[name][most])
    rows = [ShardUse(*at, len(u), u[0], max(u), overrun_risk(u[:RECENT])) for at, u in uses.items()]
    return tuple(sorted(rows, key=lambda row: (-(row.risk or 0), -row.largest_ratio, row.shard)))


def overrun_risk(shares: Sequence[float]) -> float | None:
    """Return the chance that the next share exceeds 1, by Student's t of logs; None for < 5."""
    n = len(shares)
    if n < MIN_SHARES:
        return None
    logs = list(map(math.log, shares))
    t = -fmean(logs) / (max(stdev(logs), MIN_SPREAD) * math.sqrt(1 + 1 / n))
    tail = student_p(t, n - 1) / 2
    return tail if t > 0 else 1 - tail


LISTED: Final = 30  # repositories of a page
MAX_PAGE: Final = 10_000


def repositories_page(visit: Visit) -> RepositoriesPage:
    """Find a page of the repositories that the viewer may see.

    Raises:
        UsageError: the query is invalid.
    """
    search = visit.query.get("q", "").strip()[:200]
    page = query_number(visit.query, "page", 1, least=1, most=MAX_PAGE)
    with visit.service.database.read() as connection:
        total, shown = repositories.search(
            connection, visit.viewer.are_visible, search, limit=LISTED, offset=(page - 1) * LISTED
        )
        base_runs = run_rows.base_runs(connection, [repository.id for repository in shown])
    lines = tuple(
        RepositoryLine(row.full_name, row.is_private, row.default_branch, base_runs.get(row.id))
        for row in shown
    )
    pages = max(1, -(-total // LISTED))
    return RepositoriesPage(search, page, pages, total, lines)


SIDE_RUNS: Final = 5  # at each end of the window


@dataclass(frozen=True, slots=True)
class MoversPage:
    """The tests that changed most, of `n` runs at each end of the first workflow's last 200."""

    TEMPLATE: ClassVar[str] = "movers"

    repository: str
    by: str
    days: int
    n: int
    before_sha: str
    after_sha: str
    missing_runs: tuple[str, ...]
    tests: tuple[Mover, ...]
    workflows: tuple[str, ...]


def movers_page(visit: Visit) -> MoversPage:
    """Compare the last complete runs of the window with the first; raise as `slowest_page`."""
    by = query_choice(visit.query, "by", MOVER_MEASURES, "time")
    repository, days, from_ms = find_period(visit)
    runs, workflows = chart_workflow(visit, repository.id, from_ms)
    n = min(SIDE_RUNS, len(runs) // 2)
    early, late = runs[:n], runs[len(runs) - n :]
    early_ids, late_ids = ([run.run_id for run in side] for side in (early, late))
    answer = visit.read_model.movers(repository.id, by, early_ids, late_ids)
    shas = (early[-1].head_sha, late[0].head_sha) if n else ("", "")
    head = (repository.full_name, by, days, n, *shas)
    return MoversPage(*head, answer.missing_names, answer.value, workflows)
