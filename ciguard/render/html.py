"""A document as one HTML page that opens offline: one template, escaped by Jinja."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ciguard.document import Block, Cell, Headline, cell_content, first_line, plain, spans, visible
from ciguard.render.templates import environment, page_script

if TYPE_CHECKING:
    from collections.abc import Sequence


ROWS: Final = 500  # of a table without scripts: more of them are not read
MAX_ROWS: Final = 200_000  # with scripts: a fork's records may have any number
TEMPLATE: Final = "document.html.j2"


def as_html(blocks: Sequence[Block]) -> str:
    """Return the page; with scripts, tables sort and search, and have up to 200,000 rows."""
    shown = visible(blocks, "html")
    headline = next((block for block in shown if isinstance(block, Headline)), None)
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            title=plain(headline.content) if headline is not None else "ciguard",
            blocks=shown,
            most_rows=MAX_ROWS,
            **block_values(ROWS),
            **page_script(),
        )
    )


def block_values(rows: int) -> dict[str, Any]:
    """Return the variables of `templates/blocks.html.j2`.

    Args:
        rows: largest number of rows of a table without scripts.
    """
    return {
        "rows": rows,
        "kind": lambda value: type(value).__name__,
        "spans": spans,
        "first_line": first_line,
        "content": cell_content,
        "sort_value": lambda cell: cell.value if isinstance(cell, Cell) else None,
    }
