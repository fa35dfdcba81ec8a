"""`/OWNER/NAME/movers`: tests that changed most between the first and last runs of a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ciguard.render.trends import charted_runs
from ciguard.serve.pages.repository_page import SEARCHED
from ciguard.serve.pages.slowest_and_flaky_pages import find_period
from ciguard.serve.pages.visit import Visit
from ciguard.serve.results.queries import MOVER_MEASURES, query_choice
from ciguard.serve.results.read_model import Mover
from ciguard.serve.state import run_rows

SIDE_RUNS: Final = 5  # at each end of the window


@dataclass(frozen=True, slots=True)
class MoversPage:
    """The tests that changed most, of `n` runs at each end, between the commits of the two ends."""

    TEMPLATE: ClassVar[str] = "movers"

    repository: str
    by: str
    days: int
    n: int
    before_sha: str
    after_sha: str
    missing_runs: tuple[str, ...]
    tests: tuple[Mover, ...]


def movers_page(visit: Visit) -> MoversPage:
    """Compare the last complete runs of the window with the first; raise as `slowest_page`."""
    by = query_choice(visit.query, "by", MOVER_MEASURES, "time")
    repository, days, from_ms = find_period(visit)
    with visit.service.database.read() as connection:
        newest = run_rows.newest(connection, repository.id, is_base_branch=True, limit=SEARCHED)
    runs = charted_runs(newest, from_ms)
    n = min(SIDE_RUNS, len(runs) // 2)
    early, late = runs[:n], runs[len(runs) - n :]
    answer = visit.read_model.movers(
        repository.id, by, [run.run_id for run in early], [run.run_id for run in late]
    )
    before_sha, after_sha = (early[-1].head_sha, late[0].head_sha) if n else ("", "")
    return MoversPage(
        repository.full_name,
        by,
        days,
        n,
        before_sha,
        after_sha,
        answer.missing_names,
        answer.value,
    )
