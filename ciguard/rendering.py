"""Where the templates are, and the Jinja environment that renders them.

A repository may have some of its own, which stand in the place of ours or extend them block by
block. They are rendered in Jinja's sandbox: nothing but the values that they are given.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from jinja2 import (
    Environment,
    FunctionLoader,
    StrictUndefined,
    TemplateError,
    TemplateSyntaxError,
    select_autoescape,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

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


def lines(message: str) -> str:
    """A text of several lines, each without what cannot be seen."""
    return "\n".join(text.one_line(line, 400) for line in message.splitlines()[:60])


FILTERS: Final[Mapping[str, Callable[..., str]]] = {
    "address": text.address,
    "case_name": text.case_name,
    "code": text.code,
    "counted": text.counted,
    "duration": text.duration,
    "escaped": text.escaped,
    "first_line": first_line,
    "lines": lines,
    "linked": text.linked,
    "one_line": text.one_line,
    "page": text.page,
    "size": text.size,
    "unit_name": text.unit_name,
    "words": words,
}


ROWS: Final = (
    500  # of a page's table where no script runs: a browser lays out more, nobody reads them
)
MOST: Final = 200_000  # of one where scripts run: a fork's records may have any number


@lru_cache(maxsize=1)
def scripted() -> dict[str, str]:
    """The one script of a page, and what the page's policy knows it by: no other text runs."""
    script = (template_folder() / "tables.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": script, "script_hash": f"sha256-{digest}"}


NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
OURS: Final = "ciguard/"  # before a template's name: ours, whatever the repository has
# What a template that a person wrote may raise, apart from Jinja's own errors.
_MISTAKES: Final = (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, OSError)
_MORE_MISTAKES: Final = (AttributeError, RecursionError, MemoryError)


def environment(own: Mapping[str, str] = NOTHING) -> Environment:
    """An environment: an undefined name is an error, `*.html.j2` escapes by itself.

    Args:
        own: the repository's templates by name, instead of ours.
    """
    folder = template_folder()

    def load(name: str) -> str | None:
        if name in own:
            return own[name]
        template = folder / name.removeprefix(OURS)
        return template.read_text("utf-8") if template.is_file() else None

    kind = ImmutableSandboxedEnvironment if own else Environment
    found = kind(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html.j2",)),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(FILTERS)
    found.globals["most_rows"] = MOST
    return found


class Templates:
    """Renders; where the repository's own template cannot be used, ours, and remembers why."""

    def __init__(self, own: Mapping[str, str] = NOTHING) -> None:
        self._own = dict(own)
        self.complaints: dict[str, str] = {}

    def has_own(self, name: str) -> bool:
        """Say whether the next `render` of this name is the repository's."""
        return name in self._own

    def render(self, name: str, **values: Any) -> str:
        """Render a template."""
        if not self._own:
            return _ours().get_template(name).render(**values)
        try:
            return environment(self._own).get_template(name).render(**values)
        except (*_MISTAKES, *_MORE_MISTAKES) as error:
            if name not in self._own:
                raise
            self.refuse(name, _said(error))
            return self.render(name, **values)

    def refuse(self, name: str, why: str) -> None:
        """Use ours from now on."""
        del self._own[name]
        self.complaints[name] = why


@lru_cache(maxsize=1)
def _ours() -> Environment:
    return environment()


def _said(error: Exception) -> str:
    """The mistake with its line, where one of the template's is known."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.endswith("<template>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line}: {said}" if line is not None else said


def template_folder() -> Traversable:
    """`templates/` lies inside an installed package and beside it in a checkout.

    An editable install cannot map a top-level folder into the package, so both are looked at.
    """
    packaged = files("ciguard") / "templates"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "templates"
