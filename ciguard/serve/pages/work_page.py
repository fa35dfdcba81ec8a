"""`/work`: what GitHub refuses, the run attempts that were given up, and those that wait."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

import sqlalchemy as sa
from starlette.responses import RedirectResponse, Response

from ciguard.serve.pages import cookies
from ciguard.serve.pages.page_formats import error_page
from ciguard.serve.pages.visit import PageNotFound, Visit
from ciguard.serve.state import pauses, repositories, schema, work_list
from ciguard.serve.state.pauses import Pause
from ciguard.serve.state.run_key import RUN_COLUMNS, RunKey
from ciguard.serve.state.work_list import WorkRow, WorkState


@dataclass(frozen=True, slots=True)
class WorkPage:
    """At most `limit` rows that were given up, and as many that wait or run."""

    TEMPLATE: ClassVar[str] = "work"

    limit: int
    paused: tuple[Pause, ...]
    dead: tuple[WorkRow, ...]
    unfinished: tuple[WorkRow, ...]


def work_page(visit: Visit) -> WorkPage:
    """Find the rows of repositories that the viewer may see.

    Raises:
        PageNotFound: the viewer has not signed in.
    """
    if not visit.viewer.may_act:
        raise PageNotFound
    with visit.service.database.read() as connection:
        ids = sa.select(schema.repository.c.id).where(visit.viewer.are_visible)
        paused = pauses.current(connection, visit.viewer.are_visible)
        dead = work_list.dead_letters(connection, ids)
        unfinished = work_list.unfinished(connection, ids)
    return WorkPage(work_list.LIMIT, paused, dead, unfinished)


def try_again(visit: Visit, form: Mapping[str, str]) -> Response:
    """Put a run attempt that was given up back on the work list, or all, and end their pauses.

    Raises:
        PageNotFound: the viewer has not signed in, or may not see the repository.
    """
    if not visit.viewer.may_act:
        raise PageNotFound
    if not cookies.is_own_form(visit.request, form.get("token", ""), visit.viewer.bound_to):
        return error_page(visit.request, HTTPStatus.FORBIDDEN, viewer=visit.viewer)
    if "all" in form:
        with visit.service.database.write() as connection:
            work_list.retry_all(connection, visit.viewer.are_visible)
        return RedirectResponse("/work", HTTPStatus.SEE_OTHER)
    numbers = [form.get(name, "") for name in RUN_COLUMNS]
    if not all(text.isascii() and text.isdecimal() and len(text) < 16 for text in numbers):  # noqa: PLR2004
        raise PageNotFound
    key = RunKey(*map(int, numbers))
    with visit.service.database.write() as connection:
        repository = repositories.get(connection, key.repository_id)
        if repository is None or not visit.viewer.may_see(repository):
            raise PageNotFound
        # Not a row that is done: without its deleted artifacts, the run would get a worse verdict,
        # and any account of GitHub can sign in.
        work_list.retry(connection, key, [WorkState.DEAD])
    return RedirectResponse("/work", HTTPStatus.SEE_OTHER)
