"""A document as GitHub's Markdown."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from render.samples import HOSTILE, sample

from ciguard.document import (
    Bullets,
    Code,
    Column,
    Headline,
    Item,
    Listing,
    Paragraph,
    Section,
    Table,
)
from ciguard.render.formats import as_html
from ciguard.render.markdown import SizeLimit, as_markdown, utf8_bytes, utf16_units
from ciguard.render.plaintext import as_text

GITHUB = MarkdownIt("gfm-like", {"linkify": False})


def tags(text: str) -> list[tuple[str, str]]:
    """Type and tag of every token, text apart."""
    found = []
    for token in GITHUB.parse(text):
        found.append((token.type, token.tag))
        found += [
            (child.type, child.content if child.type == "html_inline" else child.tag)
            for child in token.children or []
            if child.type not in {"text", "entity", "text_special"} and child.content != "<wbr>"
        ]
    return found


def test_foreign_text_adds_no_markup() -> None:
    """The structure is that of a harmless name."""
    harmless = as_markdown(sample("x"))
    assert tags(as_markdown(sample(HOSTILE))) == tags(harmless)


@given(st.text(max_size=60))
def test_no_text_adds_markup(foreign: str) -> None:
    """Whatever a test is called: not a table's edge, a mention, an address or HTML."""
    text = as_markdown([Headline(foreign), Paragraph(("a ", foreign, " b"))])
    assert tags(text) == tags(as_markdown([Headline("x"), Paragraph("a x b")]))


def document(rows: int) -> list[Headline | Section]:
    """Two sections, of which the second goes first."""
    table = Table((Column("test"),), tuple((f"t{n}",) for n in range(rows)), noun="test")
    items = Bullets(tuple(Item(f"i{n}") for n in range(rows)), noun="warning")
    return [
        Headline("FAILED: x", "failed"),
        Section("tests", (table,), "Tests", (rows, "test"), drop=1),
        Section("warnings", (items,), "Warnings", (rows, "warning"), drop=2),
    ]


def test_long_name_in_a_table_has_line_break_hints() -> None:
    """A table no wider than GitHub's column; what is copied is the name alone."""
    name = "tests/checkout/test_payment_methods.py::TestRefunds::test_partial" + "x" * 60
    text = as_markdown([Table((Column("test"),), ((Code(name),),))])
    row = text.splitlines()[2]
    pieces = row.removeprefix("| <code>").removesuffix("</code> |").split("<wbr>")
    assert html.unescape("".join(pieces)) == name
    assert max(len(html.unescape(piece)) for piece in pieces) <= 24
    assert html.unescape(pieces[0]) == "tests/checkout/test_"
    assert "<wbr>" not in as_markdown([Paragraph(Code(name))])


def test_folded_section() -> None:
    """Markdown folds it behind its title; elsewhere the title is a heading."""
    section = Section("legs", (Paragraph("inside"),), "3 shards", folded=True)
    assert as_markdown([section]) == (
        "<details><summary>3 shards</summary>\n\ninside\n\n</details>\n"
    )
    assert as_text([section]) == "3 shards:\ninside\n"
    assert "<h2>3 shards</h2>" in as_html([section])


def test_rows_are_cut_before_sections() -> None:
    """And both are counted where they are missing."""
    complete = as_markdown(document(100), full_text_location="the report")
    assert "t99" in complete
    fewer = as_markdown(
        document(100),
        limit=SizeLimit(len(complete) - 1, utf16_units),
        full_text_location="the report",
    )
    assert "t49" in fewer
    assert "t50" not in fewer
    assert "...and 50 more tests in the report." in fewer
    short = as_markdown(
        document(100), limit=SizeLimit(300, utf16_units), full_text_location="the report"
    )
    assert "t14" in short
    assert "i14" not in short
    assert "Left out to stay within GitHub's limit; see the report: 100 warnings." in short


def test_headline_is_never_cut() -> None:
    """Where nothing else fits."""
    text = as_markdown(
        document(3), limit=SizeLimit(80, utf8_bytes), full_text_location="the report"
    )
    assert text == "### :x: FAILED: x\n\nThe rest does not fit here; see the report.\n"


def test_limits_count_as_github_does() -> None:
    """Above U+FFFF a character counts twice, and UTF-8 has four bytes for it."""
    assert utf16_units("a\U0001f600") == 3
    assert utf8_bytes("a\U0001f600") == 5


def test_listing_stays_as_it_is_and_closes_its_own_fence() -> None:
    text = "--- a\n+  ```yaml\n+\tx: <b>&${{ y }}\u202e"
    blocks = (Listing(text, "diff"),)
    assert as_markdown(blocks) == (
        "````diff\n--- a\n+  ```yaml\n+\\tx: <b>&${{ y }}\\u202e\n````\n"
    )
    assert as_text(blocks) == "  --- a\n  +  ```yaml\n  +\\tx: <b>&${{ y }}\\u202e\n"
    assert "+\\tx: &lt;b&gt;&amp;${{ y }}\\u202e" in as_html((Headline("x"), *blocks))
