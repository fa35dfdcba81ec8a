"""A document as a page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from render.samples import HOSTILE, sample

from ciguard.document import Cell, Column, Link, Paragraph, Table
from ciguard.render.formats import HTML_ROWS, as_html

TEMPLATES = Path(__file__).parents[2] / "templates"


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
    page = as_html([Paragraph(("a ", foreign, " b"))])
    assert Structure(page).tags == Structure(as_html([Paragraph("a x b")])).tags


def test_hostile_text_is_escaped() -> None:
    assert "<b>" not in as_html(sample(HOSTILE))


def test_only_http_urls_become_links() -> None:
    """A page of a fork's records must not run a script."""
    page = as_html([Paragraph((Link("a", "javascript:alert(1)"), Link("b", "https://x.org/y")))])
    assert "javascript" not in page
    assert '<a href="https://x.org/y">b</a>' in page


def test_numbers_sort_by_their_value() -> None:
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


def luminance(colour: str) -> float:
    """WCAG 2.2: https://www.w3.org/TR/WCAG22/#dfn-relative-luminance."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_every_colour_is_readable_in_both_schemes() -> None:
    style, own = (
        (TEMPLATES / name).read_text("utf-8") for name in ("document.html.j2", "charts.html.j2")
    )
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for block in re.findall(r":root \{([^}]*)\}", style)
    )
    assert set(light) == set(dark) == set(re.findall(r"var\(--(\w+)\)", style + own))
    assert ":root" not in own, "all pages have one set of colours"
    for scheme in (light, dark):
        back = scheme["back"]
        for name in ("text", "quiet", "link", "bad"):
            assert contrast(scheme[name], back) >= 4.5, name
        for name in ("one", "two", "dull", "good", "warn"):
            assert contrast(scheme[name], back) >= 3, name
        assert contrast(scheme["one"], scheme["two"]) >= 1.7
