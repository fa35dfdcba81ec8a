"""A document for a terminal or a log: 80 columns unless the terminal is wider, no markup.

A table that is too wide loses columns by their `drop`. If it is still too wide, its rows become
entries: the first cell on a line, the others below it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from ciguard.document import (
    Block,
    Bullets,
    Chart,
    Code,
    Content,
    Details,
    Facts,
    Headline,
    Item,
    Link,
    Listing,
    Paragraph,
    Section,
    Table,
    cell_content,
    plain,
    spans,
    visible,
)
from ciguard.text import count_of

COLUMNS: Final = 80
ROWS: Final = 20  # of a table or a list; the JSON has all rows
INDENT: Final = "  "
HARD_SPACE: Final = "\0"  # a space within an id while lines are wrapped; no shown text has it


def as_text(blocks: Sequence[Block], *, columns: int = COLUMNS, rows: int = ROWS) -> str:
    """Return the document, with its last line feed.

    Args:
        columns: width of a line, >= 40; names and commands to copy may be longer.
        rows: largest number of rows of a table or a list.
    """
    shown = _Text(columns, rows)
    text = "\n\n".join(filter(None, map(shown.block, visible(blocks, "text")))) + "\n"
    return text.replace(HARD_SPACE, " ")


class _Text:
    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.rows = rows

    def block(self, block: Block) -> str:
        """Return one block, without a line feed at its end."""
        if isinstance(block, Headline | Paragraph):
            return self.wrap(_words(block.content))
        if isinstance(block, Section):
            inner = "\n\n".join(map(self.block, block.blocks))
            return f"{block.title}:\n{inner}" if block.title else inner
        if isinstance(block, Details):
            head = self.wrap(_words(block.summary))
            return "\n".join((head, *map(self.block, block.blocks)))
        if isinstance(block, Facts):
            return self.facts(block)
        if isinstance(block, Bullets):
            return "\n".join(self.bullets(block))
        if isinstance(block, Table):
            return self.table(block)
        if isinstance(block, Listing):
            return "\n".join(f"{INDENT}{line}".rstrip() for line in block.lines)
        assert isinstance(block, Chart)
        return ""

    def wrap(self, text: str, first: str = "", indent: str | None = None) -> str:
        """Wrap a text in lines of at most `columns` characters; a longer word has its own line."""
        return textwrap.fill(
            text,
            self.columns,
            initial_indent=first,
            subsequent_indent=first if indent is None else indent,
            break_on_hyphens=False,
            break_long_words=False,
        )

    def facts(self, facts: Facts) -> str:
        width = max(len(term) for term, _ in facts.rows) + 2
        return "\n".join(
            self.wrap(_words(content), term.ljust(width), " " * width)
            for term, content in facts.rows
        )

    def bullets(self, bullets: Bullets) -> Iterator[str]:
        for item in bullets.items[: self.rows]:
            yield from self.item(item, 0)
        if (more := len(bullets.items) - self.rows) > 0:
            yield _more(more, bullets.noun)

    def item(self, item: Item, level: int) -> Iterator[str]:
        margin = INDENT * level
        yield self.wrap(_words(item.content), f"{margin}- ", f"{margin}  ")
        for child in item.children[: self.rows]:
            yield from self.item(child, level + 1)
        if (more := len(item.children) - self.rows) > 0:
            yield f"{margin}{INDENT}{_more(more)}"

    def table(self, table: Table) -> str:
        """Return the table with as many columns as fit, otherwise as entries."""
        most = self.rows if table.max_rows is None else min(self.rows, table.max_rows)
        rows = [[_words(cell_content(cell)) for cell in row] for row in table.rows[:most]]
        if table.total is not None:
            rows.append([_words(cell_content(cell)) for cell in table.total])
        more = _more(len(table.rows) - most, table.noun) if len(table.rows) > most else ""
        shown = list(range(len(table.columns)))
        by_drop = sorted((n for n in shown if table.columns[n].drop), reverse=True,
                         key=lambda n: table.columns[n].drop)  # fmt: skip
        while True:
            text = _layout_table(table, rows, shown)
            if max(map(len, text.splitlines())) <= self.columns:
                break
            if not by_drop:
                text = "\n".join(self.entries(table, rows, shown))
                break
            shown.remove(by_drop.pop(0))
        return "\n".join(filter(None, (text, more)))

    def entries(
        self, table: Table, rows: Sequence[Sequence[str]], columns: Sequence[int]
    ) -> Iterator[str]:
        first, *others = columns
        for row in rows:
            yield self.wrap(row[first], INDENT, INDENT * 2)
            facts = [f"{table.columns[n].title} {row[n]}".strip() for n in others if row[n]]
            if facts:
                yield self.wrap(", ".join(facts), INDENT * 2, INDENT * 3)


def _words(content: Content) -> str:
    """Return the words of a content, with hard spaces within ids so that no line ends there."""
    words = []
    for span in spans(content):
        shown = span.content if isinstance(span, Link) else span
        is_id = isinstance(shown, Code) and shown.is_id
        words.append(plain(span).replace(" ", HARD_SPACE) if is_id else plain(span))
    return "".join(words)


def _more(count: int, noun: str = "") -> str:
    return f"and {count_of(count, f'more {noun}') if noun else f'{count:,} more'}"


def _layout_table(table: Table, rows: Sequence[Sequence[str]], columns: Sequence[int]) -> str:
    shown = [table.columns[n] for n in columns]
    lines = [[column.title for column in shown], *([row[n] for n in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column.align == "right" else cell.ljust(width)
            for cell, width, column in zip(line, widths, shown, strict=True)
        ).rstrip()
        for line in lines
    )
