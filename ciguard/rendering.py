"""Where the templates are, and the one Jinja environment that renders them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

from ciguard import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.resources.abc import Traversable


def words(name: str) -> str:
    """ "out of memory" for "out_of_memory"."""
    return name.replace("_", " ")


def first_line(message: str) -> str:
    """What stands before the trace."""
    return message.strip().partition("\n")[0]


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "case_name": text.case_name,
    "code": text.code,
    "counted": text.counted,
    "duration": text.duration,
    "escaped": text.escaped,
    "first_line": first_line,
    "page": text.page,
    "size": text.size,
    "unit_name": text.unit_name,
    "words": words,
}


def environment() -> Environment:
    """The shared environment: an undefined name is an error, `*.html.j2` escapes by itself."""
    folder = template_folder()

    def load(name: str) -> str | None:
        template = folder / name
        return template.read_text("utf-8") if template.is_file() else None

    found = Environment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(FILTERS)
    return found


def template_folder() -> Traversable:
    """`templates/` lies inside an installed package and beside it in a checkout.

    An editable install cannot map a top-level folder into the package, so both are looked at.
    """
    packaged = files("ciguard") / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "templates"
