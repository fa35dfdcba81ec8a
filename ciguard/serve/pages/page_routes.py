"""The address of each page, its two formats, and the threads that answer it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Final

from prometheus_client import Histogram
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ciguard.errors import UsageError
from ciguard.render.pages import View
from ciguard.serve.pages import cookies, sign_in, static_files
from ciguard.serve.pages.costs_page import costs_page
from ciguard.serve.pages.page_formats import error_page, render_page
from ciguard.serve.pages.repository_page import (
    movers_page,
    repositories_page,
    repository_page,
    shards_page,
)
from ciguard.serve.pages.run_page import comparison_page, run_page
from ciguard.serve.pages.slowest_and_flaky_pages import flaky_page, slowest_page
from ciguard.serve.pages.unit_page import unit_page
from ciguard.serve.pages.viewers import find_viewer
from ciguard.serve.pages.visit import Format, PageNotFound, Visit, make_visit
from ciguard.serve.pages.work_page import try_again, work_page
from ciguard.serve.request_threads import answer_in

Build = Callable[[Visit], View]
Respond = Callable[[Visit], Response]

WORK: Final = "/work"
REPOSITORY: Final = "/{owner}/{name}"
RUN: Final = REPOSITORY + "/runs/{run_id:number}/{attempt:number}"
PAGES: Final[Mapping[str, Build]] = {
    "/index": repositories_page,
    WORK: work_page,
    f"{REPOSITORY}/offenders": slowest_page,
    f"{REPOSITORY}/flaky": flaky_page,
    f"{REPOSITORY}/shards": shards_page,
    f"{REPOSITORY}/costs": costs_page,
    f"{REPOSITORY}/movers": movers_page,
    f"{REPOSITORY}/tests": unit_page,
    RUN: run_page,
    f"{RUN}/comparison": comparison_page,
    REPOSITORY: repository_page,
}
# The others need results.
OF_DATABASE: Final = (repositories_page, work_page, repository_page, shards_page, costs_page)
PAGE_S: Final = Histogram("ciguard_page_seconds", "Time to answer a page.", ["page"])
# The longer path comes first, because names of repositories may have dots.
SUFFIXES: Final[Mapping[Format, str]] = {"json": ".json", "html": ""}


class NumberConvertor(IntegerConvertor):
    """A number of GitHub, at most 16 digits: Python refuses integers of thousands of digits."""

    regex = "[0-9]{1,16}"


register_url_convertor("number", NumberConvertor())


def respond(request: Request, form: Format, action: Respond) -> Response:
    """Find the viewer, and answer with the page, or with an error page."""
    service = request.app.state.service
    viewer = find_viewer(request, service)
    is_bound = bool(viewer.bound_to) or not viewer.may_act
    if not is_bound:
        viewer = replace(viewer, bound_to=cookies.new_secret())
    try:
        response = action(make_visit(request, service, viewer, form))
    except PageNotFound:
        return error_page(request, HTTPStatus.NOT_FOUND, viewer=viewer)
    except UsageError as error:
        return error_page(request, HTTPStatus.BAD_REQUEST, str(error), viewer)
    if not is_bound:
        cookies.write(request, response, cookies.FORMS, viewer.bound_to)
    return response


def page_endpoint(build: Build, form: Format) -> Callable[[Request], Awaitable[Response]]:

    def answer(visit: Visit) -> Response:
        return render_page(visit, build(visit))

    threads = "pages" if build in OF_DATABASE else "result pages"
    name = build.__name__.removesuffix("_page")
    return partial(_in_thread, form=form, action=answer, threads=threads, name=name)


async def _in_thread(
    request: Request, form: Format, action: Respond, threads: str = "pages", name: str = "other"
) -> Response:
    with PAGE_S.labels(name).time():
        return await answer_in(request, threads, respond, request, form, action)


async def try_again_endpoint(request: Request) -> Response:
    """Put a run attempt that was given up back on the work list."""
    form = await sign_in.read_form(request)
    return await _in_thread(request, "html", partial(try_again, form=form))


def no_page(_: Visit) -> Response:
    raise PageNotFound


async def no_page_endpoint(request: Request) -> Response:
    """Answer an unknown address."""
    return await _in_thread(request, "html", no_page)


def _routes() -> list[Route]:
    routes = [*static_files.ROUTES, *sign_in.ROUTES]
    routes.append(Route("/", page_endpoint(repositories_page, "html")))
    routes.append(Route(WORK, try_again_endpoint, methods=["POST"]))
    for path, build in PAGES.items():
        for form, suffix in SUFFIXES.items():
            if path != "/index" or suffix:
                routes.append(Route(path + suffix, page_endpoint(build, form)))
    routes.append(Route("/{path:path}", no_page_endpoint))
    return routes


ROUTES: Final = tuple(_routes())
