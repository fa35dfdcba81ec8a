"""`/OWNER/NAME/runs/ID/ATTEMPT`: verdict, shards, findings and results; and `/comparison`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ciguard.compare import view as compare_view
from ciguard.compare.json import read_comparison
from ciguard.document import Block, visible
from ciguard.errors import InputError
from ciguard.render.links import Links
from ciguard.serve import stored_answers
from ciguard.serve.objects import NoSuchObject
from ciguard.serve.pages.leg_lines import LegLine, Problem, leg_lines, problems
from ciguard.serve.pages.visit import NAMES, PageNotFound, Visit
from ciguard.serve.results.queries import MAX_PAGE, parse_filters
from ciguard.serve.results.rows import OUTCOMES
from ciguard.serve.state import run_rows

if TYPE_CHECKING:
    from ciguard.serve.results.read_model import CaseRow, CaseSums
    from ciguard.serve.service import Service
    from ciguard.serve.state.run_rows import RunRow
    from ciguard.serve.stored_answers import StoredAnswer

RESULTS: Final = "results"  # the part that scripts replace
DAMAGED: Final = (
    "The verdict of this run cannot be read. Its shards and findings are not shown until "
    "`ciguard serve check --repair` has made it again."
)
PRUNED: Final = "The results of this run were deleted by `ciguard serve prune`."


@dataclass(frozen=True, slots=True)
class RunPage:
    """A run.

    Attributes:
        problem: why there are no shards; "" where there are.
        sort: as in the query: "-wall" has the longest first.
        missing_runs: runs of which no result can be read; this one, or none.
    """

    TEMPLATE: ClassVar[str] = "run"

    repository: str
    run: RunRow
    headlines: tuple[str, ...]
    problem: str
    legs: tuple[LegLine, ...]
    findings: tuple[Problem, ...]
    has_comparison: bool
    sort: str
    page: int
    pages: int
    sums: CaseSums
    results: tuple[CaseRow, ...]
    missing_runs: tuple[str, ...]

    def outcomes(self) -> tuple[str, ...]:
        """Return the outcomes by which results can be filtered."""
        return OUTCOMES


def run_page(visit: Visit) -> RunPage:
    """Find a run and a page of its results.

    Raises:
        PageNotFound: as `Visit.find_run`.
        UsageError: the query has no sense.
        RemoteError: results cannot be read.
    """
    # A form sends its empty fields too.
    asked = {name: value for name, value in visit.query.items() if value or name in NAMES}
    filters = parse_filters(asked)
    with visit.service.database.read() as connection:
        repository, run = visit.find_run(connection)
        (run,) = run_rows.with_cells(connection, [run])
    # Whoever sorts, searches or turns a page sees the shards already.
    answer, problem = read_answer(visit.service, "" if visit.part == RESULTS else run.answer)
    if not run.answer and run.verdict != "foreign":
        problem = PRUNED
    results = visit.read_model.run_page(run.key, filters)
    verdict = answer.verdict if answer else None
    pages = min(MAX_PAGE, max(1, -(-results.found.sums.total // filters.page_size)))
    return RunPage(
        repository.full_name,
        run,
        answer.headlines if answer and answer.headlines else (run.headline,),
        problem,
        leg_lines(verdict, run) if verdict else (),
        problems(verdict) if verdict else (),
        answer is not None and answer.comparison is not None,
        f"{'-' if filters.is_descending else ''}{filters.sort}",
        filters.page,
        pages,
        results.found.sums,
        results.found.rows,
        results.missing_names,
    )


def read_answer(service: Service, name: str) -> tuple[StoredAnswer | None, str]:
    """Read the answer of a run, or say why it cannot be read.

    Args:
        name: of the object; "" where there is none.

    Raises:
        RemoteError: the store cannot be reached.
    """
    if not name:
        return None, ""
    try:
        return stored_answers.decode(service.objects.read(name), name), ""
    except (InputError, NoSuchObject):
        return None, DAMAGED


@dataclass(frozen=True, slots=True)
class ComparisonPage:
    """A comparison: `comparison` is the JSON of `ciguard compare`; `address` of the repository."""

    TEMPLATE: ClassVar[str] = "comparison"

    repository: str
    run_id: int
    run_attempt: int
    headline: str
    address: str
    comparison: dict[str, Any]

    def blocks(self) -> tuple[Block, ...]:
        """Return the comparison as a document, without its headline."""
        comparison = read_comparison(json.dumps(self.comparison).encode(), "comparison")
        links = Links(self.address, self.run_id, self.run_attempt, comparison.candidate.sha)
        return visible(compare_view.sections(comparison, links), "html")


def comparison_page(visit: Visit) -> ComparisonPage:
    """Find the comparison of a run.

    Raises:
        PageNotFound: as `Visit.find_run`, or the run was compared with none.
    """
    with visit.service.database.read() as connection:
        repository, run = visit.find_run(connection)
    answer, _ = read_answer(visit.service, run.answer)
    if answer is None or answer.comparison is None:
        raise PageNotFound
    return ComparisonPage(
        repository.full_name,
        run.key.run_id,
        run.key.run_attempt,
        answer.comparison["headline"],
        f"{visit.service.settings.server_url}/{repository.full_name}",
        answer.comparison,
    )
