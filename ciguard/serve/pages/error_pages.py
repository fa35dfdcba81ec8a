"""What is answered where there is no page, in the format that was asked for."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ciguard.serve.pages.page_formats import MEDIA_TYPES, SCHEMA, frame_values
from ciguard.serve.pages.page_templates import render_template
from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.pages.visit import make_visit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

# Of a private repository the same as of none.
WORDS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is no such page, or you may not see it.",
    HTTPStatus.FORBIDDEN: "This form is not from a page of ours, or that page is too old.",
}
NO_VIEWER: Final = Viewer()


def error_page(
    request: Request, status: HTTPStatus, words: str = "", viewer: Viewer = NO_VIEWER
) -> Response:
    """An error in words."""
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
