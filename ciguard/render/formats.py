"""A document in the format that `--format` names. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ciguard.render.markdown import as_markdown
from ciguard.render.plaintext import ROWS, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ciguard.document import Block


def as_format(
    blocks: Sequence[Block],
    format_: str,
    *,
    rows: int = ROWS,
    full_text_location: str = "the JSON",
) -> str:
    """Return the document as "html", "markdown" or "text".

    Args:
        rows: of a table or a list, as text.
        full_text_location: place of the complete text, as Markdown.
    """
    if format_ == "html":
        # Imported here: text and Markdown need not pay for Jinja.
        from ciguard.render.html import as_html  # noqa: PLC0415

        return as_html(blocks)
    if format_ == "markdown":
        return as_markdown(blocks, full_text_location=full_text_location)
    return as_text(blocks, rows=rows)
