"""`/`: the repositories that the viewer may see, each with its newest runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.serve.results.queries import query_number
from ciguard.serve.state import repositories, run_rows

if TYPE_CHECKING:
    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.state.run_rows import RunRow

PAGE_SIZE: Final = 50
MAX_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class RepositoryLine:
    """A repository with the newest run of its default branch (`base`), and of any branch.

    A run is None where none was judged.
    """

    repository: str
    is_private: bool
    default_branch: str
    base: RunRow | None
    newest: RunRow | None


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
        newest = [
            run_rows.newest(connection, repository.id, is_base_branch=is_base, limit=1)
            for repository in shown
            for is_base in (True, False)
        ]
        rows = iter(run_rows.with_cells(connection, list(chain.from_iterable(newest))))
    runs = iter([next(rows) if found else None for found in newest])
    lines = tuple(
        RepositoryLine(row.full_name, row.is_private, row.default_branch, next(runs), next(runs))
        for row in shown
    )
    pages = max(1, -(-total // PAGE_SIZE))
    return RepositoriesPage(search, page, pages, total, lines)
