"""Numbers as words, and foreign names that stay names."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ciguard.model import CaseKey, UnitKey
from ciguard.render.notes import name_shards
from ciguard.text import (
    case_name,
    code,
    count_of,
    distinct_lines,
    duration,
    escaped,
    linked,
    name_some,
    one_line,
    size,
    unit_name,
)


@pytest.mark.parametrize(
    ("value_bytes", "words"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.98 KiB"),
        (1 << 20, "1.00 MiB"),
        (512 << 20, "512 MiB"),
        (1000 << 20, "0.98 GiB"),
        (3 << 29, "1.50 GiB"),
        (-(3 << 20), "-3.00 MiB"),
    ],
)
def test_sizes(value_bytes: int | None, words: str) -> None:
    assert size(value_bytes) == words


@pytest.mark.parametrize(
    ("value_s", "words"),
    [
        (None, "-"),
        (0.406, "0.41 s"),
        (9.996, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3599.7, "1 h 00 min"),
        (3720, "1 h 02 min"),
    ],
)
def test_durations(value_s: float | None, words: str) -> None:
    assert duration(value_s) == words


def test_counts() -> None:
    counts = [count_of(number, "unit") for number in (1, 0, 1040)]
    assert counts == ["1 unit", "0 units", "1,040 units"]


def test_long_lists_of_names_are_shortened() -> None:
    assert name_some(range(7), str) == "0, 1, 2, 3, 4 and 2 more"
    assert name_some(range(1002), str, 1, last="\nand ") == "0\nand 1,001 more"
    assert name_shards(["03"]) == "shard 03"
    assert name_shards(["03", "05", "07"], 2) == "shards 03, 05 and 1 more"


def test_one_line_escapes_invisible_characters() -> None:
    assert one_line("a\nb\u2028c\ud800\x1b[31m\u202e") == "a\\nb\\u2028c\\ud800\\x1b[31m\\u202e"
    assert one_line("é😀") == "é😀"


def test_shortened_texts_stay_distinct() -> None:
    name = "integration-tests-of-the-shop-on-net{}-with-a-database"
    keys = [name.format(n) for n in (8, 9, 471)]
    assert len({one_line(key, 12) for key in keys}) == 1
    assert distinct_lines(keys, 12) == ["...8-...base", "...9-...base", "...47...base"]
    assert distinct_lines(["a", *keys[:1] * 2], 12) == ["a", *["integ...base"] * 2]
    assert distinct_lines([], 12) == []


@given(st.lists(st.text(alphabet="ab\n\u2028", min_size=10), max_size=20), st.integers(12, 40))
def test_distinct_lines_fit_the_width_and_differ(texts: list[str], width: int) -> None:
    shown = distinct_lines(texts, width)
    assert all(len(line) <= width and line.isprintable() for line in shown)
    assert len(set(zip(texts, shown, strict=True))) == len(set(texts)) == len(set(shown))


@given(st.text(), st.integers(20, 200))
def test_one_line_fits_the_width(text: str, width: int) -> None:
    shown = one_line(text, width)
    assert len(shown) <= width
    assert shown.isprintable()
    assert one_line(text * 100, width)[:6] == one_line(text * 100, width * 2)[:6] or len(text) < 6


def test_names_include_suite_and_variant() -> None:
    assert unit_name(UnitKey("", "", "a.py::t")) == "a.py::t"
    assert unit_name(UnitKey("unit", "3.12", "a.py::t")) == "[unit/3.12] a.py::t"
    assert case_name(CaseKey("", "", "a.py::t", "a.py::t[1]")) == "a.py::t[1]"
    assert case_name(CaseKey("", "", "table", "row")) == "table row"


def rendered(text: str) -> str:
    return str(MarkdownIt("gfm-like", {"linkify": False}).render(text))


MARKS = ["a|b", "`x`", "**x**", "[x](y)", "<b>", "@x", "#1", "~~x~~", "&amp;", "http://a.b", "$x$"]


@pytest.mark.parametrize("text", MARKS)
def test_escaped_text_renders_verbatim(text: str) -> None:
    shown = rendered(f"x {escaped(text)}")
    assert html.unescape(shown).replace("\u200b", "") == f"<p>x {text}</p>\n"


@pytest.mark.parametrize("text", MARKS)
def test_code_renders_verbatim(text: str) -> None:
    assert html.unescape(rendered(f"x {code(text)}")) == f"<p>x <code>{text}</code></p>\n"


def test_only_http_urls_become_links() -> None:
    url = "https://github.com/o/r/actions/runs/7/job/1"
    assert linked("x", url) == f"[x]({url})"
    for text in ("", "javascript:x()", "https://a.b/c)d", "https://a.b c", "https://a.b\nc"):
        assert linked("x", text) == "x"


@given(st.text(alphabet=st.sampled_from("@#ab1w./:<>|`*_[]()\n\u202e&;"), min_size=1))
def test_no_text_adds_mentions_links_or_cells(text: str) -> None:
    page = f"| a | b |\n|---|---|\n| x {escaped(text)} | {code(text)} |\n"
    shown = rendered(page)
    assert shown.count("<td>") == 2
    tags = set(re.findall(r"</?[a-z]+>", shown))
    assert tags <= {f"{end}{tag}>" for end in ("<", "</") for tag in TABLE}
    seen = html.unescape(shown.partition("<code>")[0])
    assert not re.search(r"@\w|#\d|(?i:www)\.", seen)


TABLE = ("table", "thead", "tbody", "tr", "th", "td", "code")
