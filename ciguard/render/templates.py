"""Where the templates are, and the Jinja environment that renders them."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

from ciguard import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from importlib.resources.abc import Traversable


def lines(message: str) -> str:
    """A text of several lines, each without what cannot be seen."""
    return "\n".join(text.one_line(line, 400) for line in message.splitlines()[:60])


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "address": text.safe_url,
    "counted": text.count_of,
    "lines": lines,
    "one_line": text.one_line,
}


@lru_cache(maxsize=1)
def page_script() -> dict[str, str]:
    """The one script of a page, and what the page's policy knows it by: no other text runs."""
    script = (template_folder() / "tables.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": script, "script_hash": f"sha256-{digest}"}


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The environment: an undefined name is an error, `*.html.j2` escapes by itself."""
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
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "templates"
