"""The folder of the templates, and the Jinja environment that renders them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape

from ciguard import text


def lines(message: str) -> str:
    """Return a text of several lines, each without invisible characters."""
    return "\n".join(text.one_line(line, 400) for line in message.splitlines()[:60])


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "address": text.safe_url,
    "counted": text.count_of,
    "lines": lines,
    "one_line": text.one_line,
}


@lru_cache(maxsize=1)
def page_script() -> dict[str, str]:
    """Return the one script of a page, and its hash: the page's policy permits no other script."""
    script = (template_folder() / "tables.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": script, "script_hash": f"sha256-{digest}"}


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Return the environment: an undefined name is an error, and `*.html.j2` escapes texts."""
    folder = template_folder()

    def load(name: str) -> str | None:
        template = folder / name
        return template.read_text("utf-8") if template.is_file() else None

    result = Environment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    result.filters.update(FILTERS)
    return result


def template_folder() -> Traversable:
    """Return `templates/`, inside of an installed package or beside the package in a checkout.

    An editable install cannot map a top-level folder into the package, so both paths are tried.
    """
    packaged = files("ciguard") / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "templates"
