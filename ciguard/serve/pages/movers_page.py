"""`/OWNER/NAME/movers`: tests that changed most between the first and last runs of a window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ciguard.serve.pages.repository_page import chart_workflow
from ciguard.serve.pages.slowest_and_flaky_pages import find_period
from ciguard.serve.pages.visit import Visit
from ciguard.serve.results.queries import MOVER_MEASURES, query_choice
from ciguard.serve.results.read_model import Mover

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
    answer = visit.read_model.movers(
        repository.id, by, [run.run_id for run in early], [run.run_id for run in late]
    )
    shas = (early[-1].head_sha, late[0].head_sha) if n else ("", "")
    head = (repository.full_name, by, days, n, *shas)
    return MoversPage(*head, answer.missing_names, answer.value, workflows)
