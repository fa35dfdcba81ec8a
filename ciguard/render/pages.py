"""Pages by templates/serve: the filters of their values, their addresses, and their JSON. Pure."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol
from urllib.parse import quote, urlencode

from ciguard import text
from ciguard.model import UnitKey
from ciguard.render import templates
from ciguard.render.formats import block_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Environment

SCHEMA: Final = 1
ROWS: Final = 20  # of a table of a document, in HTML; JSON has all
FOLDER: Final = "serve/"
NAMES: Final = ("suite", "variant")  # "" is a valid value: of a plan without suites
NONE: Final = "–"
_AGES: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


class View(Protocol):
    """The value of a page: a frozen dataclass, with units in the names of its fields.

    JSON has the fields and properties of a value and of the values in it; methods are for HTML.

    Attributes:
        TEMPLATE: name of the template in templates/serve.
    """

    TEMPLATE: ClassVar[str]


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
    "owners": text.owner_text,
    "number": _measured("{:,}".format),
    "path": quote,
    "place": place,
    "price": _measured(text.price),
    "size": _measured(text.size),
    "test_name": lambda of: text.whole_name(UnitKey(of.suite, of.variant, of.unit)),
    "verdict_words": lambda verdict: verdict.replace("_", " "),
}


def page_environment(static: Callable[[str], str]) -> Environment:
    """Return the environment of the pages; `static` gives the address of a stylesheet or script."""
    environment = templates.environment().overlay()
    environment.filters = {**environment.filters, **FILTERS, "static": static}
    environment.globals = {
        **environment.globals,
        "share": share,
        "ratio": ratio,
        "address_of_test": address_of_test,
        "page_address": page_address,
    }
    return environment


def render_view(environment: Environment, view: View, frame: Mapping[str, Any]) -> str:
    """Render a page; `frame` has the variables of `layout.html.j2`."""
    template = environment.get_template(f"{FOLDER}{view.TEMPLATE}.html.j2")
    return template.render(view=view, most_rows=None, **block_values(ROWS), **frame)


def page_address(path: str, query: Mapping[str, str | int | None]) -> str:
    """Join a path and a query, without values None, and without "" except for NAMES."""
    known = {
        name: value
        for name, value in query.items()
        if value is not None and (value != "" or name in NAMES)
    }
    return f"{path}?{urlencode(known, errors='replace', quote_via=quote)}" if known else path


def repository_path(full_name: str) -> str:
    """Return the address of a repository's page."""
    return "/" + quote(full_name)
