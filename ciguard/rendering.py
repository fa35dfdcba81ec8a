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
    nodes,
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
        own, text = environment(self._own), ""
        try:
            text = own.get_template(name).render(**values)
            why = "" if name not in self._own else _dead(own, name) or _nothing(text)
        except (*_MISTAKES, *_MORE_MISTAKES) as error:
            if name not in self._own:
                raise
            why = _said(error)
        if not why:
            return text
        self.refuse(name, why)
        return self.render(name, **values)

    def refuse(self, name: str, why: str) -> None:
        """Use ours from now on."""
        del self._own[name]
        self.complaints[name] = why


@lru_cache(maxsize=1)
def _ours() -> Environment:
    return environment()


def _nothing(text: str) -> str:
    return "" if text.strip() else "nothing comes of it"


def _dead(found: Environment, name: str) -> str:
    """Which block of a template that extends another one stands in no place of that; "" if none."""
    tree = _parsed(found, name)
    parents = _blocks_of_parents(found, tree)
    if not parents:
        return ""
    for node in tree.body:
        if isinstance(node, nodes.Block) and node.name not in parents:
            known = ", ".join(parents)
            return f"line {node.lineno}: there is no block {node.name!r}; there are {known}"
    return ""


def _blocks_of_parents(found: Environment, tree: nodes.Template) -> tuple[str, ...]:
    """The blocks of all that a template extends, in their order there."""
    blocks: dict[str, None] = {}
    for parent in tree.find_all(nodes.Extends):
        if isinstance(parent.template, nodes.Const):
            above = _parsed(found, str(parent.template.value))
            blocks |= dict.fromkeys(block.name for block in above.find_all(nodes.Block))
            blocks |= dict.fromkeys(_blocks_of_parents(found, above))
    return tuple(blocks)


def _parsed(found: Environment, name: str) -> nodes.Template:
    assert found.loader is not None
    return found.parse(found.loader.get_source(found, name)[0])


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
