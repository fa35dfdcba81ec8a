"""The Jinja environment of the pages: that of the reports, with filters for values."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote

from ciguard import text
from ciguard.render import templates
from ciguard.serve.pages.static_files import static_address
from ciguard.serve.pages.visit import page_address, repository_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jinja2 import Environment

FOLDER: Final = "serve/"
NONE: Final = "–"
_AGES: Final = (("d", 86_400), ("h", 3_600), ("min", 60))


class OfTest(Protocol):
    """A line of a table that is about a test."""

    @property
    def suite(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def unit(self) -> str: ...


def age(from_ms: int | None, now_ms: int) -> str:
    """Return an age as "3 d", "2 h", "5 min" or "now"; a clock may be ahead of another."""
    if from_ms is None:
        return NONE
    age_s = (now_ms - from_ms) / 1000
    for unit, seconds in _AGES:
        if age_s >= seconds:
            return f"{age_s // seconds:.0f} {unit}"
    return "now"


def moment(at_ms: int | None) -> str:
    """Format date and time: "2026-11-26 19:08 UTC"."""
    if at_ms is None:
        return NONE
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def machine_time(at_ms: int) -> str:
    """Format a time for HTML's `datetime`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def share(part: float | None, whole: float | None) -> str:
    """Format a share as "61 %"; an en dash where either is not known."""
    return f"{100 * part / whole:.0f} %" if part is not None and whole else NONE


def ratio(part: float | None, whole: float | None) -> str:
    """Format a ratio as "1.04"; an en dash where either is not known."""
    return f"{part / whole:.2f}" if part is not None and whole else NONE


def number(value: float | None) -> str:
    """Format a number as "1,040"; an en dash where it is not known."""
    return NONE if value is None else f"{value:,}"


def duration(value_s: float) -> str:
    """Format a duration, below 5 ms as "< 0.01 s" and not 0.00: most unit tests take less."""
    return "< 0.01 s" if 0 < value_s < 0.005 else text.duration(value_s)  # noqa: PLR2004


def place(of: OfTest) -> str:
    """Name suite and variant as "unit, py311"; an en dash where a plan has neither."""
    return ", ".join(text.one_line(name, 40) for name in (of.suite, of.variant) if name) or NONE


def address_of_test(full_name: str, of: OfTest, case: str | None = None) -> str:
    """Return the address of the page of a test, or of one of its cases."""
    named = {"suite": of.suite, "variant": of.variant, "unit": of.unit, "case": case}
    return page_address(f"{repository_path(full_name)}/tests", named)


def _measured(show: Callable[[float], str]) -> Callable[[float | None], str]:
    return lambda value: NONE if value is None else show(value)


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "age": age,
    "duration": _measured(duration),
    "machine_time": machine_time,
    "moment": moment,
    "number": number,
    "path": quote,
    "place": place,
    "price": _measured(text.price),
    "size": _measured(text.size),
    "static": static_address,
    "verdict_words": lambda verdict: verdict.replace("_", " "),
}


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """Return the environment in which pages' templates are found by the name of the page."""
    environment = templates.environment().overlay()
    environment.filters = {**environment.filters, **FILTERS}
    environment.globals = {
        **environment.globals,
        "share": share,
        "ratio": ratio,
        "address_of_test": address_of_test,
    }
    return environment


def render_template(name: str, **values: Any) -> str:
    """Render a page in HTML."""
    return page_environment().get_template(f"{FOLDER}{name}.html.j2").render(**values)
