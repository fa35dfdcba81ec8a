"""A page, or an error in its place, in its two formats: HTML by a template, JSON of all values."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from starlette.responses import Response

from ciguard.render.html import block_values
from ciguard.serve.pages import cookies
from ciguard.serve.pages.page_templates import render_template
from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.pages.visit import PART_HEADER, Format, Visit, make_visit, sign_in_address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request


SCHEMA: Final = 1
ROWS: Final = 200  # of a table of a document, in HTML
MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
# Of a private repository the same as of none.
WORDS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is no such page, or you may not see it.",
    HTTPStatus.FORBIDDEN: "This form is not from a page of ours, or that page is too old.",
}
NO_VIEWER: Final = Viewer()


class View(Protocol):
    """The value of a page: a frozen dataclass whose names hold the units.

    JSON has its fields and properties, and those of the values in it; its methods are for HTML.

    Attributes:
        TEMPLATE: of templates/serve.
    """

    TEMPLATE: ClassVar[str]


def render_page(visit: Visit, view: View) -> Response:
    """Return the page, or 304 for a browser that has the same bytes."""
    text = as_html(visit, view) if visit.format == "html" else as_json(view)
    content = text.encode("utf-8", "backslashreplace")
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
    # Asked for again each time: who may see what can change.
    vary = f"Cookie, {PART_HEADER}"
    headers = {"Cache-Control": "private, no-cache", "ETag": tag, "Vary": vary}
    if tag in visit.request.headers.get("if-none-match", ""):
        response = Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    else:
        response = Response(content, headers=headers, media_type=MEDIA_TYPES[visit.format])
    return response


def as_html(visit: Visit, view: View) -> str:
    """Render the template of the view."""
    values = {**block_values(ROWS), "most_rows": None, **frame_values(visit)}
    return render_template(view.TEMPLATE, view=view, **values)


def frame_values(visit: Visit) -> dict[str, Any]:
    """Return the values that the frame of every page needs."""
    return {
        "visit": visit,
        "viewer": visit.viewer,
        "now_ms": visit.now_ms,
        "github": visit.service.settings.server_url,
        "form_token": cookies.form_token(visit.viewer.bound_to),
        "sign_in": sign_in_address(visit.request) if visit.service.settings.oauth else "",
    }


def as_json(view: View) -> str:
    """Return every value of the view as JSON; null is what is not known."""
    return json.dumps({"schema": SCHEMA, **_members(view)}, default=_members, indent=1) + "\n"


def _members(value: object) -> dict[str, Any]:
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    members = [item for base in reversed(kind.__mro__) for item in vars(base).items()]
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is no value of a page")
    properties = (name for name, member in members if isinstance(member, property))
    return *(field.name for field in fields(kind)), *properties


def error_page(
    request: Request, status: HTTPStatus, words: str = "", viewer: Viewer = NO_VIEWER
) -> Response:
    """Return an error in words, in the format that was asked for."""
    words = words or WORDS[status]
    ending = request.url.path.rpartition(".")[2]
    if ending == "json":
        text = json.dumps({"schema": SCHEMA, "status": int(status), "error": words}) + "\n"
        return _response(text, status, MEDIA_TYPES["json"])
    visit = make_visit(request, request.app.state.service, viewer, "html")
    text = render_template("error", status=status, words=words, **frame_values(visit))
    return _response(text, status, MEDIA_TYPES["html"])


def _response(text: str, status: HTTPStatus, media_type: str) -> Response:
    content = text.encode("utf-8", "backslashreplace")
    headers = {"Cache-Control": "no-store"}
    return Response(content, status, headers, media_type=media_type)
