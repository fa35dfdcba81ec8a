"""A document as a page."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st
from render.samples import HOSTILE, sample

from ciguard.document import Cell, Column, Link, Paragraph, Table
from ciguard.render.formats import HTML_ROWS, as_html


class Structure(HTMLParser):
    """The tags of a page, with their attributes but `data-value`."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))


@settings(max_examples=30)
@given(st.text(max_size=40).filter(lambda text: text.strip() and "\n" not in text))
def test_foreign_text_adds_no_tag(foreign: str) -> None:
    """Whatever a test is called."""
    page = as_html([Paragraph(("a ", foreign, " b"))])
    assert Structure(page).tags == Structure(as_html([Paragraph("a x b")])).tags


def test_hostile_text_is_escaped() -> None:
    """In each block."""
    assert "<b>" not in as_html(sample(HOSTILE))


def test_only_http_urls_become_links() -> None:
    """A page of a fork's records must not run a script."""
    page = as_html([Paragraph((Link("a", "javascript:alert(1)"), Link("b", "https://x.org/y")))])
    assert "javascript" not in page
    assert '<a href="https://x.org/y">b</a>' in page


def test_numbers_sort_by_their_value() -> None:
    """And not by their text."""
    table = Table((Column("wall", "right"),), ((Cell("2 min 00 s", 120.0),), (Cell("-", None),)))
    page = as_html([table])
    assert '<td class="number" data-value="120.0">2 min 00 s</td>' in page
    assert '<td class="number" data-value="">-</td>' in page


def test_rows_beyond_the_limit_are_hidden_without_script() -> None:
    """A browser lays out 500; the others lie in the page as text."""
    rows = tuple((f"t{n}",) for n in range(HTML_ROWS + 2))
    page = as_html([Table((Column("test"),), rows)])
    shown, _, waiting = page.partition('<tr class="more">')
    assert f"t{HTML_ROWS - 1}<" in shown
    assert f"t{HTML_ROWS}<" not in shown
    assert f"t{HTML_ROWS + 1}<" in waiting
    assert "and 2 more" in waiting
