"""A document as GitHub's Markdown, as long as it may be.

What does not fit goes in whole rows, then in whole sections by their priority, and is counted where
it is missing; nothing is cut in its middle, and the headline always stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ciguard.document import (
    NAME_WIDTH,
    Bullets,
    Chart,
    Code,
    Details,
    Facts,
    Folded,
    Headline,
    Link,
    Listing,
    Paragraph,
    Section,
    Strong,
    cell_content,
    first_line,
    plain,
    spans,
    visible,
)
from ciguard.text import code, count_of, escaped, linked, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ciguard.document import Block, Content, Item, Span, State, Table

ROWS: Final = (200, 50, 15)  # of a table, tried in this order
HEADLINE_WIDTH: Final = 160
# A word in a cell, and its pieces: up to 24 characters that end where a reader expects it.
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
    """How long a text may be, in the unit that GitHub counts there."""

    amount: int
    length: Callable[[str], int]

    def accepts(self, text: str) -> bool:
        """Say whether a text is short enough."""
        return self.length(text) <= self.amount


def utf16_units(text: str) -> int:
    """Characters, where one above U+FFFF counts twice."""
    return len(text) + sum(character > "\uffff" for character in text)


def utf8_bytes(text: str) -> int:
    """Bytes of the text as UTF-8."""
    return len(text.encode("utf-8", "replace"))


def as_markdown(
    blocks: Sequence[Block],
    *,
    limit: SizeLimit | None = None,
    full_text_location: Content = "the JSON",
) -> str:
    """The document, with its last line feed; without any markup of those whose names are in it.

    Args:
        limit: None for none; a table then has `ROWS[0]` rows at most.
        full_text_location: where all of it can be read.
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
    """All sections that may be left out, in order."""
    for block in blocks:
        if isinstance(block, Section):
            if block.drop:
                yield block
            yield from _sections(block.blocks)
        elif isinstance(block, Details):
            yield from _sections(block.blocks)


def _headline_alone(blocks: Sequence[Block], full_text_location: Content) -> str:
    """When nothing else fits: the verdict in a line, short enough for any place."""
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
        """All blocks; the sentence on what was left out stands before the notes at the end."""
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
        """One block, without a line feed at its end."""
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
            return block.mermaid
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
        lines = [
            "".join(f"| {escaped(column.title)} " for column in table.columns) + "|",
            "".join("|--:" if one.align == "right" else "|---" for one in table.columns) + "|",
            *("".join(f"| {_cell(cell_content(cell))} " for cell in row) + "|" for row in rows),
        ]
        return "\n".join(lines) + self.more(len(table.rows) - most, table.noun)

    def more(self, count: int, noun: str) -> str:
        return (
            f"\n\n...and {count_of(count, f'more {noun}')} in {self.full_text_location}."
            if count > 0
            else ""
        )


def _folded(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{inner}\n\n</details>" if inner else ""


def _fenced(listing: Listing) -> str:
    """Lines between fences that are longer than any run of backticks in them."""
    longest = max(map(len, _BACKTICKS.findall(listing.text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((f"{fence}{listing.language}", *listing.lines, fence))


def _cell(content: Content) -> str:
    """A cell of a table, in which a long name may be divided: GitHub's column is narrow."""
    return "".join(_span(span, is_breakable=True) for span in spans(content))


def _breakable_code(text: str, width: int) -> str:
    """A name as it can be copied, with places where a line may end: `<wbr>` is in no copy."""
    parts, at = [], 0
    text = one_line(text, width)
    for word in _WORD.finditer(text):
        parts.append(code(text[at : word.start()])[6:-7])
        parts.append("<wbr>".join(code(piece)[6:-7] for piece in _PIECE.findall(word[0])))
        at = word.end()
    return f"<code>{''.join(parts)}{code(text[at:])[6:-7]}</code>"


def _inline(content: Content) -> str:
    return "".join(map(_span, spans(content)))


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
