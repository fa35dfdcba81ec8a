"""A document as GitHub's Markdown, within a limit of size.

If it is too long, whole rows are left out, then whole sections by their priority; a sentence counts
them. No text is cut in its middle, and the headline always stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ciguard.document import (
    NAME_WIDTH,
    Block,
    Bullets,
    Chart,
    Code,
    Content,
    Details,
    Facts,
    Folded,
    Headline,
    Item,
    Link,
    Listing,
    Paragraph,
    Section,
    Span,
    State,
    Strong,
    Table,
    cell_content,
    first_line,
    plain,
    spans,
    visible,
)
from ciguard.text import code, count_of, escaped, linked, one_line

ROWS: Final = (200, 50, 15)  # of a table, tried in this order
HEADLINE_WIDTH: Final = 160
# A long word in a cell, and its pieces: up to 24 characters, which end at punctuation if possible.
_WORD: Final = re.compile(r"[^ ]{25,}")
_BACKTICKS: Final = re.compile("`+")
_PIECE: Final = re.compile(r".{1,24}(?<=[/:._,-])(?![/:._,-])|.{1,24}")
ICONS: Final[dict[State, str]] = {
    "passed": ":white_check_mark: ",
    "failed": ":x: ",
    "incomplete": ":warning: ",
    "neutral": "",
}


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """The limit of a text, in the unit that GitHub counts."""

    amount: int
    length: Callable[[str], int]

    def accepts(self, text: str) -> bool:
        """Return whether a text is within the limit."""
        return self.length(text) <= self.amount


def utf16_units(text: str) -> int:
    """Count characters; a character above U+FFFF counts twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def as_markdown(
    blocks: Sequence[Block],
    *,
    limit: SizeLimit | None = None,
    full_text_location: Content = "the JSON",
) -> str:
    """Return the document, with its last line feed; foreign text in it is never markup.

    Args:
        limit: None: no limit, and `ROWS[0]` rows of a table.
        full_text_location: place of the complete text, for the sentence on left-out parts.
    """
    blocks = visible(blocks, "markdown")
    if limit is None:
        return _Markdown(ROWS[0], full_text_location).document(blocks)
    for rows in ROWS:
        text = _Markdown(rows, full_text_location).document(blocks)
        if limit.accepts(text):
            return text
    by_drop = sorted(_sections(blocks), key=lambda section: -section.drop)
    for number in range(1, len(by_drop) + 1):
        text = _Markdown(ROWS[-1], full_text_location, by_drop[:number]).document(blocks)
        if limit.accepts(text):
            return text
    return _headline_alone(blocks, full_text_location)


def _sections(blocks: Sequence[Block]) -> Iterator[Section]:
    """Yield all sections that may be left out, in order."""
    for block in blocks:
        if isinstance(block, Section):
            if block.drop:
                yield block
            yield from _sections(block.blocks)
        elif isinstance(block, Details):
            yield from _sections(block.blocks)


def _headline_alone(blocks: Sequence[Block], full_text_location: Content) -> str:
    """Return the verdict alone, in one short line, if nothing else fits."""
    headline = next((block for block in blocks if isinstance(block, Headline)), Headline(""))
    words = escaped(one_line(plain(headline.content), HEADLINE_WIDTH), HEADLINE_WIDTH)
    rest = f"The rest does not fit here; see {_inline(full_text_location)}."
    return f"### {ICONS[headline.state]}{words}\n\n{rest}\n"


class _Markdown:
    def __init__(
        self, rows: int, full_text_location: Content, dropped: Sequence[Section] = ()
    ) -> None:
        self.rows = rows
        self.full_text_location = _inline(full_text_location)
        self.dropped = {section.name for section in dropped}
        self.omitted = [section.size for section in reversed(dropped) if section.size[0]]

    def document(self, blocks: Sequence[Block]) -> str:
        """Return all blocks, and before the notes at the end a sentence on left-out sections."""
        notes = len(blocks)
        while notes and isinstance(note := blocks[notes - 1], Paragraph) and note.is_note:
            notes -= 1
        parts = [self.block(block) for block in blocks[:notes]]
        if self.omitted:
            counts = ", ".join(count_of(*size) for size in self.omitted)
            parts.append(
                f"Left out to stay within GitHub's limit; see {self.full_text_location}: {counts}."
            )
        parts += [self.block(block) for block in blocks[notes:]]
        return "\n\n".join(filter(None, parts)) + "\n"

    def blocks(self, blocks: Sequence[Block]) -> str:
        return "\n\n".join(filter(None, map(self.block, blocks)))

    def block(self, block: Block) -> str:
        """Return one block, without a line feed at its end."""
        if isinstance(block, Headline):
            return f"### {ICONS[block.state]}{_inline(block.content)}"
        if isinstance(block, Paragraph):
            words = _inline(block.content)
            return f"<sub>{words}</sub>" if block.is_note else words
        if isinstance(block, Section):
            if block.name in self.dropped:
                return ""
            inner = self.blocks(block.blocks)
            if block.folded:
                return _folded(escaped(block.title), inner)
            return f"#### {escaped(block.title)}\n\n{inner}" if block.title and inner else inner
        if isinstance(block, Details):
            return _folded(_inline(block.summary), self.blocks(block.blocks))
        if isinstance(block, Facts):
            return "\n".join(f"- {escaped(name)}: {_inline(value)}" for name, value in block.rows)
        if isinstance(block, Bullets):
            return self.bullets(block)
        if isinstance(block, Chart):
            return ""  # the table has its numbers
        if isinstance(block, Listing):
            return _fenced(block)
        return self.table(block)

    def bullets(self, bullets: Bullets) -> str:
        lines = [line for item in bullets.items[: self.rows] for line in self.item(item, 0)]
        return "\n".join(lines) + self.more(len(bullets.items) - self.rows, bullets.noun)

    def item(self, item: Item, level: int) -> Iterator[str]:
        yield f"{'  ' * level}- {_inline(item.content)}"
        for child in item.children[: self.rows]:
            yield from self.item(child, level + 1)
        if (more := len(item.children) - self.rows) > 0:
            yield f"{'  ' * (level + 1)}- and {more:,} more in {self.full_text_location}"

    def table(self, table: Table) -> str:
        most = self.rows if table.max_rows is None else min(self.rows, table.max_rows)
        rows = [*table.rows[:most], *([table.total] if table.total is not None else [])]
        cells = [[_inline(cell_content(cell), is_breakable=True) for cell in row] for row in rows]
        lines = [
            "".join(f"| {escaped(column.title)} " for column in table.columns) + "|",
            "".join("|--:" if col.align == "right" else "|---" for col in table.columns) + "|",
            *("".join(f"| {cell} " for cell in row) + "|" for row in cells),
        ]
        return "\n".join(lines) + self.more(len(table.rows) - most, table.noun)

    def more(self, count: int, noun: str) -> str:
        if count <= 0:
            return ""
        return f"\n\n...and {count_of(count, f'more {noun}')} in {self.full_text_location}."


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>" if inner else ""


def _fenced(listing: Listing) -> str:
    """Return the lines between fences longer than any run of backticks in them."""
    longest = max(map(len, _BACKTICKS.findall(listing.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((f"{fence}{listing.language}", *listing.lines, fence))


def _breakable_code(text: str, width: int) -> str:
    """Return a name with possible line ends; a copy of the name has no `<wbr>`."""
    parts, end = [], 0
    text = one_line(text, width)
    for word in _WORD.finditer(text):
        parts.append(code(text[end : word.start()])[6:-7])
        parts.append("<wbr>".join(code(piece)[6:-7] for piece in _PIECE.findall(word[0])))
        end = word.end()
    return f"<code>{''.join(parts)}{code(text[end:])[6:-7]}</code>"


def _inline(content: Content, *, is_breakable: bool = False) -> str:
    """Return a content in one line; in a table, long names may break: its columns are narrow."""
    return "".join(_span(span, is_breakable=is_breakable) for span in spans(content))


def _span(span: Span, *, is_breakable: bool = False) -> str:
    if isinstance(span, str):
        return escaped(span.replace("->", "→"))
    if isinstance(span, Code):
        show = _breakable_code if is_breakable else code
        return show(span.text, span.width)
    if isinstance(span, Strong):
        return f"**{escaped(span.text)}**"
    if isinstance(span, Folded):
        first = first_line(span.text)
        show = _breakable_code if is_breakable else code
        return show(first, NAME_WIDTH) if first else ""
    assert isinstance(span, Link)
    return linked(_span(span.content, is_breakable=is_breakable), span.url)
