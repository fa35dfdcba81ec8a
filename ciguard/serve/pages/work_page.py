"""`/work`: the run attempts that wait for their verdict, and those that were given up."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final

from starlette.responses import RedirectResponse

from ciguard.serve.pages import cookies
from ciguard.serve.pages.error_pages import error_page
from ciguard.serve.pages.visit import PageNotFound
from ciguard.serve.state import repositories, work_list
from ciguard.serve.state.run_key import RunKey
from ciguard.serve.state.work_overview import count_by_state, work_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from ciguard.serve.pages.visit import Visit

PAGE_SIZE: Final = 100
STATES: Final[Mapping[str, str]] = {
    "dead": "given up",
    "waiting": "waiting",
    "running": "being judged",
    "done": "done",
}


@dataclass(frozen=True, slots=True)
class WorkLine:
    """A run attempt of the work list; `problem` is that of its last try, "" for none."""

    repository: str
    run_id: int
    run_attempt: int
    state: str
    source: str
    tries: int
    lane: str
    due_at_ms: int
    added_at_ms: int
    finished_at_ms: int | None
    problem: str
    repository_id: int


@dataclass(frozen=True, slots=True)
class WorkPage:
    """A page of rows in one state; `counts` has the rows of every state."""

    TEMPLATE: ClassVar[str] = "work"
    ROW: ClassVar[type] = WorkLine

    state: str
    page: int
    pages: int
    counts: dict[str, int]
    work: tuple[WorkLine, ...]

    @property
    def rows(self) -> tuple[WorkLine, ...]:
        """The rows of the work list."""
        return self.work

    @property
    def states(self) -> Mapping[str, str]:
        """The words of each state."""
        return STATES


def work_page(visit: Visit) -> WorkPage:
    """Find rows of repositories that the viewer may see, the newest first.

    Raises:
        PageNotFound: nobody signed in.
        UsageError: the query has no sense.
    """
    if not visit.viewer.may_act:
        raise PageNotFound
    state = visit.choice("state", STATES, "dead")
    page = visit.number("page", 1, least=1, most=10_000)
    with visit.service.database.read() as connection:
        names = {
            one.id: one.full_name
            for one in repositories.active(connection)
            if visit.viewer.may_see(one)
        }
        counts = count_by_state(connection, names)
        offset = (page - 1) * PAGE_SIZE
        found = work_rows(connection, names, state, limit=PAGE_SIZE, offset=offset)
    lines = tuple(
        WorkLine(
            names[row.repository_id],
            row.run_id,
            row.run_attempt,
            row.state,
            row.source,
            row.tries,
            row.lane,
            row.due_at_ms,
            row.added_at_ms,
            row.finished_at_ms,
            row.problem,
            row.repository_id,
        )
        for row in found
    )
    pages = max(1, -(-counts.get(state, 0) // PAGE_SIZE))
    shown = {name: counts.get(name, 0) for name in STATES}
    return WorkPage(state, page, pages, shown, lines)


def try_again(visit: Visit, form: Mapping[str, str]) -> Response:
    """Have a run attempt judged again that was given up.

    Raises:
        PageNotFound: nobody signed in, or there is no such row for the viewer.
    """
    if not visit.viewer.may_act:
        raise PageNotFound
    if not cookies.is_own_form(visit.request, form.get("token", ""), visit.viewer.bound_to):
        return error_page(visit.request, HTTPStatus.FORBIDDEN, viewer=visit.viewer)
    numbers = [form.get(name, "") for name in ("repository_id", "run_id", "run_attempt")]
    if not all(one.isascii() and one.isdecimal() and len(one) < 16 for one in numbers):  # noqa: PLR2004
        raise PageNotFound
    key = RunKey(*map(int, numbers))
    with visit.service.database.write() as connection:
        repository = repositories.get(connection, key.repository_id)
        if repository is None or not visit.viewer.may_see(repository):
            raise PageNotFound
        is_retried = work_list.retry(connection, key)
    if is_retried:
        visit.service.has_work.set()
    return RedirectResponse("/work", HTTPStatus.SEE_OTHER)
