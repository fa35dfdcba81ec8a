"""A page, or an error, in its two formats: HTML by a Jinja template, and JSON of all values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ciguard.guard.view import owner_text
from ciguard.render.pages import SCHEMA, View, as_json, page_environment, render
from ciguard.serve.pages import cookies
from ciguard.serve.pages.static_files import static_address
from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.pages.visit import PART_HEADER, Format, Visit, make_visit, sign_in_address

MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
# The answer for a private repository is the same as for an unknown one.
WORDS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is no such page, or you may not see it.",
    HTTPStatus.FORBIDDEN: "This form is too old, or of another service: load the page again.",
}
NO_VIEWER: Final = Viewer()


def render_page(visit: Visit, view: View) -> Response:
    """Return the page; browsers ask each time, because rights of viewers can change."""
    is_html = visit.format == "html"
    page = _render(visit, view.TEMPLATE, view=view) if is_html else as_json(view)
    headers = {"Cache-Control": "private, no-cache", "Vary": f"Cookie, {PART_HEADER}"}
    return _response(page, HTTPStatus.OK, visit.format, headers)


def error_page(
    request: Request, status: HTTPStatus, words: str = "", viewer: Viewer = NO_VIEWER
) -> Response:
    words = words or WORDS[status]
    suffix = request.url.path.rpartition(".")[2]
    if suffix == "json":
        content = json.dumps({"schema": SCHEMA, "status": int(status), "error": words}) + "\n"
        return _response(content, status, "json", {"Cache-Control": "no-store"})
    visit = make_visit(request, request.app.state.service, viewer, "html")
    content = _render(visit, "error", status=status, words=words)
    return _response(content, status, "html", {"Cache-Control": "no-store"})


def _response(page: str, status: HTTPStatus, form: Format, headers: dict[str, str]) -> Response:
    content = page.encode("utf-8", "backslashreplace")
    return Response(content, status, headers, media_type=MEDIA_TYPES[form])


def _render(visit: Visit, template: str, **values: Any) -> str:
    settings = visit.service.settings
    return render(
        page_environment(owners=owner_text, static=static_address),
        template,
        **values,
        visit=visit,
        viewer=visit.viewer,
        now_ms=visit.now_ms,
        github=settings.server_url,
        form_token=cookies.form_token(visit.viewer.bound_to),
        sign_in=sign_in_address(visit.request) if settings.oauth else "",
    )
