"""A request for a page: viewer, format, path and query; and the addresses of pages."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal
from urllib.parse import quote

from sqlalchemy.engine import Connection
from starlette.requests import Request

from ciguard.github.models import MAX_ATTEMPT, MAX_NUMBER
from ciguard.render.pages import RunRow, page_address
from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.results.read_model import ReadModel
from ciguard.serve.service import Service
from ciguard.serve.state import repositories, run_rows
from ciguard.serve.state.repositories import Repository
from ciguard.serve.state.run_key import RunKey

Format = Literal["html", "json"]
PART_HEADER: Final = "HX-Target"
SIGN_IN: Final = "/-/sign-in"
SIGN_IN_RETURN: Final = "/-/sign-in/return"
SIGN_OUT: Final = "/-/sign-out"
# Browsers resolve "//", "/\" and text after a control character to another site.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")


class PageNotFound(Exception):
    """The page does not exist, or not for this viewer: both have the same answer."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request with its viewer.

    Attributes:
        path: without the suffix of a format; "/" for the first page.
        query: query of the address; the last value of a repeated name.
        part: id of the element that a script replaces by the answer; "" for a whole page.
        now_ms: by this machine's clock, for ages.
    """

    is_live: ClassVar[bool] = True  # a page of the service, whose forms work

    request: Request
    service: Service
    viewer: Viewer
    format: Format
    path: str
    query: Mapping[str, str]
    part: str
    now_ms: int

    def address(self, **changes: str | int | None) -> str:
        """Return the address of this page with changes of its query; None removes a name."""
        return page_address(self.path, {**self.query, **changes})

    def format_address(self, form: Format) -> str:
        base = "/index" if self.path == "/" and form != "html" else self.path
        return page_address(base if form == "html" else f"{base}.{form}", self.query)

    @property
    def read_model(self) -> ReadModel:
        """Return the read model, which answers questions about results."""
        read_model: ReadModel = self.request.app.state.read_model
        return read_model

    def find_repository(self, connection: Connection) -> Repository:
        """Find the repository that the path names.

        Raises:
            PageNotFound: the repository is unknown, or not for this viewer.
        """
        names = self.request.path_params
        repository = repositories.find(connection, f"{names['owner']}/{names['name']}")
        if repository is None or not self.viewer.may_see(repository):
            raise PageNotFound
        return repository

    def find_run(self, connection: Connection) -> tuple[Repository, RunRow]:
        """Find the repository and the judged run that the path names.

        Raises:
            PageNotFound: either is unknown, or not for this viewer.
        """
        repository = self.find_repository(connection)
        run_id, attempt = (self.request.path_params[name] for name in ("run_id", "attempt"))
        if run_id > MAX_NUMBER or attempt > MAX_ATTEMPT:
            raise PageNotFound
        run = run_rows.get(connection, RunKey(repository.id, run_id, attempt))
        if run is None:
            raise PageNotFound
        return repository, run


def make_visit(request: Request, service: Service, viewer: Viewer, form: Format) -> Visit:
    """Make the visit of a request; the path of a format other than HTML has its suffix."""
    path = request.url.path
    if form != "html":
        path = path.removesuffix(f".{form}")
    # htmx sends "section#results".
    target = request.headers.get(PART_HEADER, "") if form == "html" else ""
    return Visit(
        request,
        service,
        viewer,
        form,
        path="/" if path == "/index" else path,
        query=dict(request.query_params),
        part=target.partition("#")[2],
        now_ms=round(time.time() * 1000),
    )


def own_path(text: str) -> str:
    """Return a path and query of this site to which a sign-in may return; otherwise "/"."""
    return text if _OWN_PATH.fullmatch(text) else "/"


def sign_in_address(request: Request) -> str:
    parts = request.url
    page = parts.path + (f"?{parts.query}" if parts.query else "")
    return f"{SIGN_IN}?return_to={quote(own_path(page))}"
