"""Whatever a test is called, it is a name: in comment, page, terminal, annotation and check."""

from __future__ import annotations

import html as entities
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from guard.fixtures import text_of
from markdown_it import MarkdownIt
from report.browser import dumped, needs_browser
from report.hostile_names import NAMES, hostile_report

from ciguard.guard.annotations_and_outputs import annotations_of
from ciguard.render.markdown import SizeLimit, utf16_units
from ciguard.report.publish import check_annotations
from ciguard.report.view import Report
from ciguard.text import ID_WIDTH, annotation, one_line

HOME = "https://github.com/octo-org/shop/"
OURS = {
    "code",
    "/code",
    "details",
    "/details",
    "summary",
    "/summary",
    "sub",
    "/sub",
    "wbr",
    "strong",
}


@cache
def comment() -> str:
    return Report(hostile_report(), 0).text(SizeLimit(1_000_000, utf16_units))


@cache
def page() -> str:
    return Report(hostile_report(), 0).page()


class Seen(HTMLParser):
    """The elements, attributes and texts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "src"]
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_add_no_markup_to_the_comment() -> None:
    text = comment()
    raw = text
    for mark in (
        "@everyone",
        "@octocat",
        "@all",
        "<script",
        "<img",
        "<h1",
        "${{",
        "\u202e",
        "\x1b",
    ):
        assert mark not in raw, mark
    assert not re.search(r"(?m)^::", text)
    assert not re.search(r"(^|\s)#1\b|\wshop#3", raw)
    assert "\n## two" not in text
    rendered = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(text)
    seen = Seen(rendered)
    tags = {"h3", "h4", "p", "ul", "li", "a", "pre", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(seen.tags) <= tags | OURS
    assert seen.handlers == []
    assert {
        link for link in seen.links if not link.startswith("https://github.com/octo-org/shop/")
    } == set()


def test_hostile_names_preserve_table_columns() -> None:
    rows = [line for line in comment().splitlines() if line.startswith("| ")]
    assert len(rows) > len(NAMES)
    rendered = MarkdownIt("gfm-like", {"linkify": False, "html": True}).render(comment())
    for table in re.findall(r"<table>.*?</table>", rendered, flags=re.DOTALL):
        widths = {row.count("<td") for row in re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)}
        assert len(widths - {0}) == 1
    assert "```" not in comment(), "no name opens or ends a fence"


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_each_name_is_displayed_verbatim(name: str) -> None:
    shown = one_line(f"0{name}", ID_WIDTH)
    text = comment().replace("<wbr>", "")
    assert shown in entities.unescape(text).replace("\u200b", "")
    assert one_line(f"0{name}", 200) in Seen(page()).text


def test_hostile_names_add_no_markup_to_the_page() -> None:
    seen = Seen(page())
    assert seen.tags.count("script") == 1
    assert not {"img", "iframe", "object"} & set(seen.tags)
    assert seen.tags.count("h1") == 1
    assert seen.handlers == []
    assert {
        link for link in seen.links if not link.startswith("https://github.com/octo-org/shop/")
    } == set()
    assert "\u202e" not in page()
    assert "\x1b" not in page()


def test_terminal_annotations_and_checks_get_plain_text() -> None:
    contents = hostile_report()
    text = text_of(contents.verdict)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\u2066]", text)
    for one in annotations_of(contents.verdict):
        spelled = annotation(one.level, one.message, file=one.file, line=one.line, title=one.title)
        assert "\n" not in spelled
        assert "\r" not in spelled
        assert spelled.count("::") >= 2
        assert spelled.startswith(f"::{one.level}")
    for note in check_annotations(contents, "tests.yml"):
        assert not note.file.startswith(("/", ".."))
        assert len(note.title) <= 255


@needs_browser
def test_browser_finds_one_script_and_no_injected_element(tmp_path: Path) -> None:
    seen = Seen(dumped(page(), tmp_path))
    assert seen.tags.count("script") == 1
    assert not {"img", "iframe"} & set(seen.tags)
    assert seen.tags.count("button") > 10, "our own script has run: tables can be sorted"
