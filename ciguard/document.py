"""Documents independent of an output format: blocks that contain spans.

A verb's `view.py` makes blocks from values; `render/` converts them to text, Markdown or HTML.
Renderers escape all strings, and only types make markup, so that the name or message of a test can
never become markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from ciguard.text import ID_WIDTH, one_line

State = Literal["passed", "failed", "incomplete", "neutral"]
Format = Literal["text", "markdown", "html"]
Align = Literal["left", "right"]

LISTED_WIDTH: Final = 500  # characters of a line
SENTENCE_WIDTH: Final = 6000  # with a few ids
NAME_WIDTH: Final = 200  # characters of a name or a first line; the default of a span


@dataclass(frozen=True, slots=True)
class Code:
    """A name or a message to copy, on one line.

    Attributes:
        width: characters shown at most; a longer text loses its middle.
        is_id: the text is never broken over two lines.
    """

    text: str
    width: int = NAME_WIDTH
    is_id: bool = False


@dataclass(frozen=True, slots=True)
class Strong:
    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link; if it has no address or an unsafe one, only its text is shown."""

    content: str | Code
    url: str | None


@dataclass(frozen=True, slots=True)
class Folded:
    """A long text, folded to its first line; a format without folding shows only this line."""

    text: str


Span = str | Code | Strong | Link | Folded
Content = Span | tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Headline:
    """The first line of a document: the verdict."""

    content: Content
    state: State = "neutral"


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One sentence or more; a note is shown smaller, as a footer."""

    content: Content
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    rows: tuple[tuple[str, Content], ...]


@dataclass(frozen=True, slots=True)
class Item:
    content: Content
    children: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; `noun` names omitted entries, as in "and 3 more warnings"."""

    items: tuple[Item, ...]
    noun: str = "entry"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        drop: if a line is too long, columns with the largest number are dropped first; a column
            with 0 stays.
    """

    title: str
    align: Align = "left"
    drop: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that a page sorts by a number instead of its text."""

    content: Content
    value: float | None


Row = tuple["Content | Cell", ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    Attributes:
        rows: each row has as many cells as there are columns.
        noun: noun of one row, for the number of omitted rows.
        max_rows: largest number of shown rows in every format; None for the format's limit.
        total: a last row, always shown.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    noun: str = "row"
    max_rows: int | None = None
    total: Row | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart. A format without charts omits it, because a table also has the numbers.

    Attributes:
        kind: the macro of `templates/charts.html.j2` that draws `data`.
        data: geometry for this macro.
    """

    kind: str
    data: object = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Unchanged lines of a file or of a difference, in a language of Markdown's syntax colours."""

    text: str
    language: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines with invisible characters spelled out."""
        return tuple(one_line(line, LISTED_WIDTH) for line in self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that are folded to a summary, if the format can fold."""

    summary: Content
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that are shown or omitted together.

    Attributes:
        name: unique in a document.
        title: "" for no title.
        folded: Markdown shows only the title, until a reader unfolds the blocks.
        size: number and noun of the contents, such as (12, "failure"), shown if they are omitted.
        drop: if a text is too long, sections with the largest number are dropped first; a section
            with 0 stays.
        formats: the formats that show the section.
    """

    name: str
    blocks: tuple[Block, ...]
    title: str = ""
    size: tuple[int, str] = (0, "")
    drop: int = 0
    formats: tuple[Format, ...] = ("text", "markdown", "html")
    folded: bool = False


Block = Headline | Paragraph | Facts | Bullets | Table | Chart | Listing | Details | Section


def identifier(text: str) -> Code:
    """Return a span of an id to copy, in full."""
    return Code(text, ID_WIDTH, is_id=True)


def spans(content: Content) -> tuple[Span, ...]:
    return content if isinstance(content, tuple) else (content,)


def cell_content(cell: Content | Cell) -> Content:
    return cell.content if isinstance(cell, Cell) else cell


def join(
    contents: Sequence[Content], separator: str = ", ", most: int | None = None
) -> tuple[Span, ...]:
    """Join the first contents with a separator, then add " and 3 more" for those beyond `most`."""
    joined: list[Span] = []
    for number, content in enumerate(contents[:most]):
        if number:
            joined.append(separator)
        joined.extend(spans(content))
    if most is not None and len(contents) > most:
        joined.append(f" and {len(contents) - most:,} more")
    return tuple(joined)


def plain(content: Content) -> str:
    """Return the text without markup, on one line."""
    return "".join(_span_text(span) for span in spans(content))


def _span_text(span: Span) -> str:
    if isinstance(span, str):
        return one_line(span, SENTENCE_WIDTH)
    if isinstance(span, Link):
        return _span_text(span.content)
    if isinstance(span, Code):
        return one_line(span.text, span.width)
    return one_line(first_line(span.text) if isinstance(span, Folded) else span.text)


def first_line(text: str) -> str:
    """Return the first line that is not blank, stripped."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def visible(blocks: Sequence[Block], shape: Format) -> tuple[Block, ...]:
    """Return the blocks that a format shows, without empty tables, lists and sections."""
    shown: list[Block] = []
    for block in blocks:
        if isinstance(block, Section | Details):
            inner = visible(block.blocks, shape)
            if inner and (isinstance(block, Details) or shape in block.formats):
                shown.append(replace(block, blocks=inner))
        elif not _is_empty(block, shape):
            shown.append(block)
    return tuple(shown)


def _is_empty(block: Block, shape: Format) -> bool:
    if isinstance(block, Table | Facts):
        return not block.rows
    if isinstance(block, Bullets):
        return not block.items
    if isinstance(block, Listing):
        return not block.text
    if isinstance(block, Paragraph):
        return not plain(block.content)
    if isinstance(block, Chart):
        return shape != "html" or block.data is None
    return False
