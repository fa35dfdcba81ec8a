"""`/OWNER/NAME/runs/ID/ATTEMPT`: the verdict, the shards, what went wrong, and every result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ciguard.errors import InputError
from ciguard.serve import stored_answers
from ciguard.serve.objects import NoSuchObject
from ciguard.serve.pages.leg_lines import LegLine, Problem, leg_lines, problems
from ciguard.serve.pages.repository_page import GridRun, grid_run
from ciguard.serve.pages.result_lines import (
    ResultLine,
    ResultSums,
    damage_notices,
    result_line,
    result_sums,
    run_names,
)
from ciguard.serve.pages.visit import NAMES
from ciguard.serve.results.result_filters import MAX_PAGE, parse_filters
from ciguard.serve.results.rows import OUTCOME_CODES
from ciguard.serve.state import run_rows

if TYPE_CHECKING:
    from ciguard.serve.pages.visit import Visit
    from ciguard.serve.service import Service
    from ciguard.serve.stored_answers import StoredAnswer

RESULTS: Final = "results"  # the part that scripts replace
OUTCOMES: Final = tuple(OUTCOME_CODES)
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
    run: GridRun
    headlines: tuple[str, ...]
    problem: str
    legs: tuple[LegLine, ...]
    findings: tuple[Problem, ...]
    has_comparison: bool
    sort: str
    page: int
    pages: int
    sums: ResultSums
    results: tuple[ResultLine, ...]
    missing_runs: tuple[str, ...]

    @property
    def notices(self) -> tuple[str, ...]:
        """What the numbers are not of."""
        return damage_notices(self.missing_runs)

    @property
    def outcomes(self) -> tuple[str, ...]:
        """What results can be filtered by."""
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
        suites = run_rows.suites_of(connection, [run.key])[run.key]
    # Whoever sorts, searches or turns a page sees the shards already.
    answer, problem = read_answer(visit.service, "" if visit.part == RESULTS else run.answer)
    if not run.answer and run.verdict != "foreign":
        problem = PRUNED
    found = visit.read_model.run_page(run.key, filters)
    verdict = answer.verdict if answer else None
    pages = min(MAX_PAGE, max(1, -(-found.found.total // filters.page_size)))
    return RunPage(
        repository.full_name,
        grid_run(run, suites),
        answer.headlines if answer and answer.headlines else (run.headline,),
        problem,
        leg_lines(verdict, run) if verdict else (),
        problems(verdict) if verdict else (),
        answer is not None and answer.comparison is not None,
        f"{'-' if filters.is_descending else ''}{filters.sort}",
        filters.page,
        pages,
        result_sums(found.found),
        tuple(map(result_line, found.found.rows)),
        run_names(found.missing_runs),
    )


def read_answer(service: Service, name: str) -> tuple[StoredAnswer | None, str]:
    """What a run came to, or why that cannot be read.

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
