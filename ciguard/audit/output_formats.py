"""The formats of an audit: its blocks as text, Markdown or a page, or its values as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ciguard.document import Block

    Blocks = Callable[[], tuple[Block, ...]]
    Values = Callable[[], dict[str, Any]]


def _html(blocks: Blocks, _: Values) -> str:
    # Imported here: text and JSON need not pay for Jinja.
    from ciguard.render.html import as_html  # noqa: PLC0415

    return as_html(blocks())


FORMATS: Final[Mapping[str, Callable[[Blocks, Values], str]]] = {
    "text": lambda blocks, _: as_text(blocks()),
    "markdown": lambda blocks, _: as_markdown(blocks()),
    "html": _html,
    "json": lambda _, values: json.dumps(values(), indent=1),
}
