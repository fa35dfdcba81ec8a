"""What a verb shows, before it has a format: blocks that hold spans.

A verb's `view.py` makes blocks from values; `render/` turns them into text, Markdown or HTML. A
string is always shown as it is: every renderer escapes it, and markup comes from the types alone,
so that a test's name or message can never become markup.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ciguard.text import ID_WIDTH, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

State = Literal["passed", "failed", "incomplete", "neutral"]
Format = Literal["text", "markdown", "html"]
Align = Literal["left", "right"]

LISTED_WIDTH: Final = 500  # characters of a line
SENTENCE_WIDTH: Final = 6000  # with a few ids in it
NAME_WIDTH: Final = 200  # characters of a name or a first line, unless a span says otherwise


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
    """Emphasised words."""

    text: str


@dataclass(frozen=True, slots=True)
class Link:
    """Words that lead to an address; without an address, or with an unsafe one, the words alone."""

    content: str | Code
    url: str | None


@dataclass(frozen=True, slots=True)
class Folded:
    """A long text behind its first line, where the format can fold; else the first line alone."""

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
    """A sentence or a few.

    Attributes:
        is_note: shown smaller, as a footer is.
    """

    content: Content
    is_note: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms, each with its value."""

    rows: tuple[tuple[str, Content], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """An entry of a list, with the entries below it."""

    content: Content
    children: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list; `noun` counts entries that do not fit, as in "and 3 more warnings"."""

    items: tuple[Item, ...]
    noun: str = "entry"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        drop: where a line would be too long, columns with a larger number go first; 0 stays.
    """

    title: str
    align: Align = "left"
    drop: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is sorted by a number: what a page shows is not what it sorts by."""

    content: Content
    value: float | None


Row = tuple["Content | Cell", ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns.

    Attributes:
        rows: as many cells each as there are columns.
        noun: of one row; counts rows that do not fit.
        max_rows: rows shown at most, in every format; None: as many as the format allows.
        total: a last row, always shown.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    noun: str = "row"
    max_rows: int | None = None
    total: Row | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture. A format without pictures shows nothing; the numbers stand in a table as well.

    Attributes:
        kind: the macro of `templates/charts.html.j2` that draws `data`.
        data: geometry for that macro.
        mermaid: the same as a Mermaid block of Markdown; "" for none. It holds no foreign text.
    """

    kind: str
    data: object = None
    mermaid: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines of a file or of a difference, as they are.

    Attributes:
        language: how Markdown colours them.
    """

    text: str
    language: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What cannot be seen is spelled out."""
        return tuple(one_line(line, LISTED_WIDTH) for line in self.text.splitlines())


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks behind a summary, where the format can fold."""

    summary: Content
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks that are shown, or left out, together.

    Attributes:
        name: unique in a document.
        title: "" for none.
        folded: Markdown shows the title, and the blocks once a reader asks for them.
        size: how much it holds, and of what: (12, "failure"). Says what was left out.
        drop: where a text is too long, sections with a larger number go first; 0 stays.
        formats: where it is shown at all.
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
    """An id to copy, in full."""
    return Code(text, ID_WIDTH, is_id=True)


def spans(content: Content) -> tuple[Span, ...]:
    """The spans of a content, in order."""
    return content if isinstance(content, tuple) else (content,)


def cell_content(cell: Content | Cell) -> Content:
    """What a cell shows."""
    return cell.content if isinstance(cell, Cell) else cell


def join(contents: Sequence[Content], separator: str = ", ") -> tuple[Span, ...]:
    """Contents one after the other, with a separator between two."""
    found: list[Span] = []
    for number, content in enumerate(contents):
        if number:
            found.append(separator)
        found.extend(spans(content))
    return tuple(found)


def plain(content: Content) -> str:
    """The words alone, on one line."""
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
    """The first line that is not blank, without its margins."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def visible(blocks: Sequence[Block], shape: Format) -> tuple[Block, ...]:
    """The blocks that a format shows, without empty tables, lists and sections."""
    found: list[Block] = []
    for block in blocks:
        if isinstance(block, Section):
            inner = visible(block.blocks, shape)
            if shape in block.formats and inner:
                found.append(replace(block, blocks=inner))
        elif isinstance(block, Details):
            if inner := visible(block.blocks, shape):
                found.append(replace(block, blocks=inner))
        elif not _is_empty(block, shape):
            found.append(block)
    return tuple(found)


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
        shown = {"text": None, "markdown": block.mermaid or None, "html": block.data}
        return shown[shape] is None
    return False
