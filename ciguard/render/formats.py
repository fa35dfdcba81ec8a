"""A document in the format that `--format` names; one HTML page opens offline, escaped by Jinja."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ciguard.document import Block, Cell, Headline, cell_content, first_line, plain, spans, visible
from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import ROWS, as_text

HTML_ROWS: Final = 500  # of a table without scripts: more of them are not read
MAX_ROWS: Final = 200_000  # with scripts: a fork's records may have any number
TEMPLATE: Final = "document.html.j2"


def as_format(
    blocks: Sequence[Block], format_: str, *, rows: int = ROWS, full_text_location: str = "the JSON"
) -> str:
    """Return the document as "html", "markdown" or "text".

    Args:
        rows: of a table or a list, as text.
        full_text_location: place of the complete text, as Markdown.
    """
    if format_ == "html":
        return as_html(blocks)
    if format_ == "markdown":
        return as_markdown(blocks, full_text_location=full_text_location)
    return as_text(blocks, rows=rows)


def as_html(blocks: Sequence[Block]) -> str:
    """Return the page; with scripts, tables sort and search, and have up to 200,000 rows."""
    # Imported here: text and Markdown need not pay for Jinja.
    from ciguard.render.templates import environment, page_script  # noqa: PLC0415

    shown = visible(blocks, "html")
    headline = next((block for block in shown if isinstance(block, Headline)), None)
    return (
        environment()
        .get_template(TEMPLATE)
        .render(
            title=plain(headline.content) if headline is not None else "ciguard",
            blocks=shown,
            most_rows=MAX_ROWS,
            **block_values(HTML_ROWS),
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
