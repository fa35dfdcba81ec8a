"""`/`: the repositories that the viewer may see, each with its newest runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.serve.results.queries import query_number
from ciguard.serve.state import repositories, run_rows

if TYPE_CHECKING:
    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.state.repositories import Repository
    from ciguard.serve.state.run_rows import RunRow

PAGE_SIZE: Final = 50
MAX_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class RepositoryLine:
    """A repository; `base_` is of the newest run of its default branch, `run_` of its newest run.

    Values of runs are None where no run was judged.
    """

    repository: str
    is_private: bool
    default_branch: str
    base_run_id: int | None
    base_run_attempt: int | None
    base_verdict: str | None
    base_headline: str | None
    base_completed_at_ms: int | None
    run_id: int | None
    run_attempt: int | None
    run_branch: str | None
    run_verdict: str | None
    run_completed_at_ms: int | None


@dataclass(frozen=True, slots=True)
class RepositoriesPage:
    """A page of repositories by name; `total` is the number of visible ones that match."""

    TEMPLATE: ClassVar[str] = "repositories"

    search: str
    page: int
    pages: int
    total: int
    repositories: tuple[RepositoryLine, ...]


def repositories_page(visit: Visit) -> RepositoriesPage:
    """Find a page of the repositories that the viewer may see.

    Raises:
        UsageError: the query is invalid.
    """
    search = visit.query.get("q", "").strip()[:200]
    page = query_number(visit.query, "page", 1, least=1, most=MAX_PAGE)
    with visit.service.database.read() as connection:
        total, shown = repositories.search(
            connection,
            visit.viewer.are_visible,
            search,
            limit=PAGE_SIZE,
            offset=(page - 1) * PAGE_SIZE,
        )
        lines = tuple(
            _line(
                repository,
                _first(run_rows.newest(connection, repository.id, is_base_branch=True, limit=1)),
                _first(run_rows.newest(connection, repository.id, limit=1)),
            )
            for repository in shown
        )
    pages = max(1, -(-total // PAGE_SIZE))
    return RepositoriesPage(search, page, pages, total, lines)


def _first(runs: tuple[RunRow, ...]) -> RunRow | None:
    return runs[0] if runs else None


def _line(repository: Repository, base: RunRow | None, newest: RunRow | None) -> RepositoryLine:
    return RepositoryLine(
        repository.full_name,
        repository.is_private,
        repository.default_branch,
        base.key.run_id if base else None,
        base.key.run_attempt if base else None,
        base.verdict if base else None,
        base.headline if base else None,
        base.completed_at_ms if base else None,
        newest.key.run_id if newest else None,
        newest.key.run_attempt if newest else None,
        newest.branch if newest else None,
        newest.verdict if newest else None,
        newest.completed_at_ms if newest else None,
    )
