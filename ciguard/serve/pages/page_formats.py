"""A page, or an error, in its two formats: HTML by a Jinja template, and JSON of all values.

The environment of the templates is that of the reports, with more filters for values.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol
from urllib.parse import quote

from starlette.responses import Response

from ciguard import text
from ciguard.guard.view import owner_text
from ciguard.model import UnitKey
from ciguard.render import templates
from ciguard.render.formats import block_values
from ciguard.serve.pages import cookies
from ciguard.serve.pages.static_files import static_address
from ciguard.serve.pages.viewers import Viewer
from ciguard.serve.pages.visit import (
    PART_HEADER,
    Format,
    Visit,
    make_visit,
    page_address,
    repository_path,
    sign_in_address,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Environment
    from starlette.requests import Request


SCHEMA: Final = 1
ROWS: Final = 20  # of a table of a document, in HTML; JSON has all
MEDIA_TYPES: Final[Mapping[Format, str]] = {
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
# The answer for a private repository is the same as for an unknown one.
WORDS: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is no such page, or you may not see it.",
    HTTPStatus.FORBIDDEN: "This form is not from a page of ours, or that page is too old.",
}
NO_VIEWER: Final = Viewer()
FOLDER: Final = "serve/"
NONE: Final = "–"
_AGES: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


class View(Protocol):
    """The value of a page: a frozen dataclass, with units in the names of its fields.

    JSON has the fields and properties of a value and of the values in it; methods are for HTML.

    Attributes:
        TEMPLATE: name of the template in templates/serve.
    """

    TEMPLATE: ClassVar[str]


def render_page(visit: Visit, view: View) -> Response:
    """Return the page; browsers ask each time, because rights of viewers can change."""
    page = as_html(visit, view) if visit.format == "html" else as_json(view)
    headers = {"Cache-Control": "private, no-cache", "Vary": f"Cookie, {PART_HEADER}"}
    return _response(page, HTTPStatus.OK, visit.format, headers)


def as_html(visit: Visit, view: View) -> str:
    values = {**block_values(ROWS), "most_rows": None, **frame_values(visit)}
    return render_template(view.TEMPLATE, view=view, **values)


def frame_values(visit: Visit) -> dict[str, Any]:
    return {
        "visit": visit,
        "viewer": visit.viewer,
        "now_ms": visit.now_ms,
        "github": visit.service.settings.server_url,
        "form_token": cookies.form_token(visit.viewer.bound_to),
        "sign_in": sign_in_address(visit.request) if visit.service.settings.oauth else "",
    }


def as_json(view: View) -> str:
    """Return every value of the view as JSON; unknown values are null."""
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
    words = words or WORDS[status]
    suffix = request.url.path.rpartition(".")[2]
    if suffix == "json":
        content = json.dumps({"schema": SCHEMA, "status": int(status), "error": words}) + "\n"
        return _response(content, status, "json", {"Cache-Control": "no-store"})
    visit = make_visit(request, request.app.state.service, viewer, "html")
    content = render_template("error", status=status, words=words, **frame_values(visit))
    return _response(content, status, "html", {"Cache-Control": "no-store"})


def _response(page: str, status: HTTPStatus, form: Format, headers: dict[str, str]) -> Response:
    content = page.encode("utf-8", "backslashreplace")
    return Response(content, status, headers, media_type=MEDIA_TYPES[form])


class OfTest(Protocol):
    """A row of a table about a test."""

    @property
    def suite(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def unit(self) -> str: ...


def age(from_ms: int | None, now_ms: int) -> str:
    """Format an age as "3 d", "2 h", "5 min" or "now", also for a clock that is ahead."""
    if from_ms is None:
        return NONE
    age_s = (now_ms - from_ms) / 1000
    for unit, seconds in _AGES:
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit}"
    return "now"


def moment(at_ms: float) -> str:
    """Format date and time: "2026-11-26 19:08 UTC"."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def machine_time(at_ms: int) -> str:
    """Format a time for HTML's `datetime`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def share(part: float | None, whole: float | None) -> str:
    """Format a share as "61 %"; an en dash where a value is unknown."""
    return f"{100 * part / whole:.0f} %" if part is not None and whole else NONE


def ratio(part: float | None, whole: float | None) -> str:
    """Format a ratio as "1.04"; an en dash where a value is unknown."""
    return f"{part / whole:.2f}" if part is not None and whole else NONE


def duration(value_s: float) -> str:
    """Format a duration; below 5 ms, as for most unit tests, "< 0.01 s" instead of "0.00 s"."""
    return "< 0.01 s" if 0 < value_s < 0.005 else text.duration(value_s)  # noqa: PLR2004


def place(of: OfTest) -> str:
    """Format suite and variant as "unit, py311"; an en dash where a plan has neither."""
    return ", ".join(text.one_line(name, 40) for name in (of.suite, of.variant) if name) or NONE


def address_of_test(full_name: str, of: OfTest, case: str | None = None) -> str:
    """Return the address of the page of a test, or of one of its cases."""
    named = {"suite": of.suite, "variant": of.variant, "unit": of.unit, "case": case}
    return page_address(f"{repository_path(full_name)}/tests", named)


def _measured(show: Callable[[float], str]) -> Callable[[float | None], str]:
    # An en dash where a value is unknown.
    return lambda value: NONE if value is None else show(value)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "age": age,
    "duration": _measured(duration),
    "machine_time": machine_time,
    "moment": _measured(moment),
    "owners": owner_text,
    "number": _measured("{:,}".format),
    "path": quote,
    "place": place,
    "price": _measured(text.price),
    "size": _measured(text.size),
    "static": static_address,
    "test_name": lambda of: text.whole_name(UnitKey(of.suite, of.variant, of.unit)),
    "verdict_words": lambda verdict: verdict.replace("_", " "),
}


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    environment = templates.environment().overlay()
    environment.filters = {**environment.filters, **FILTERS}
    environment.globals = {
        **environment.globals,
        "share": share,
        "ratio": ratio,
        "address_of_test": address_of_test,
        "page_address": page_address,
    }
    return environment


def render_template(name: str, **values: Any) -> str:
    return page_environment().get_template(f"{FOLDER}{name}.html.j2").render(**values)
