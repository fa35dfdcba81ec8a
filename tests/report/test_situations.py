"""The comment in each situation of a pull request: what it says, and that it fits one screen."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import pytest
from conftest import Golden
from guard.fixtures import MIB
from markdown_it import MarkdownIt
from report.browser import dumped, needs_browser
from report.situations import SITUATIONS

from ciguard.codec.quarantine import decode
from ciguard.compare.leaks import Leak
from ciguard.render.markdown import SizeLimit, utf16_units
from ciguard.report.publish import MAX_CHARS
from ciguard.report.view import Report

SAMPLES = Path(__file__).parents[1] / "samples" / "report" / "situations"
SCREEN_PX = 900  # of a comment that is 1,012 px wide, its folds closed
# GitHub's sizes of a comment's text, as its style sheet has them.
STYLE = """
body { margin: 0; width: 1012px; font: 14px/1.5 sans-serif }
h3 { font-size: 17.5px; line-height: 1.25; margin: 0 0 16px } h4 { margin: 24px 0 16px }
p, ul, table, details { margin: 0 0 16px } li > ul { margin: 0 } ul { padding-left: 28px }
table { border-collapse: collapse } th, td { padding: 6px 13px; border: 1px solid }
code { font: 12px monospace; padding: 2.4px 4.8px }
"""


@cache
def comment(name: str) -> str:
    return Report(SITUATIONS[name]().report(), 0).text(SizeLimit(MAX_CHARS, utf16_units))


def first_screen(text: str) -> str:
    """A comment without what is folded."""
    return re.sub(r"<details><summary>(.*?)</summary>.*?</details>", r"> \1", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", SITUATIONS)
def test_comment_of_each_situation(name: str, golden: Golden) -> None:
    text = comment(name)
    assert len(text) < MAX_CHARS
    golden(first_screen(text), SAMPLES / f"{name}.md", scrub={r"\b[0-9a-f]{12}\b": "PLAN"})


def test_each_listed_failure_has_a_command_and_each_flake_an_entry() -> None:
    text = comment("mixed")
    until = re.findall(r"--shard (\S+) --record again --until (\S+)</code>", text)
    assert until == [
        ("01", "a.t::one"),
        ("03", "d.t::six"),
        ("02", "c.t::four"),
        ("01", "a.t::two"),
    ]
    assert "<summary>Commands to reproduce, quarantine entries</summary>" in text
    entry = text.partition("```toml\n")[2].partition("\n```")[0]
    filled = decode(entry.replace('""', '"#7"').encode(), date(2026, 11, 28), is_base=False)
    assert [(one.unit, one.reason, one.until.isoformat()) for one in filled.entries] == [
        ("a.t::two", "failed in 4 of 20 runs of main (95 % CI 8..42 %)", "2026-12-28")
    ]


def test_leak_of_an_incomplete_run_is_shown() -> None:
    data = SITUATIONS["no-record"]().report()
    leak = Leak("01", 1, 20, 900 * MIB, 640 * MIB, 40 * MIB, 12, "suspect")
    assert data.comparison is not None
    data = replace(data, comparison=replace(data.comparison, leaks=(leak,)))
    text = Report(data, 0).text(SizeLimit(MAX_CHARS, utf16_units))
    assert "possible leak: 640 MiB kept by 20 tests in process 1" in first_screen(text)


@needs_browser
def test_every_comment_fits_one_screen(tmp_path: Path) -> None:
    markdown = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    shown = "".join(
        f'<div id="{name}">{markdown.render(comment(name))}</div>' for name in SITUATIONS
    )
    script = "for (const one of document.querySelectorAll('body > div'))"
    script += " one.dataset.px = one.offsetHeight"
    page = dumped(
        f"<!doctype html><style>{STYLE}</style>{shown}<script>{script}</script>", tmp_path
    )
    heights = {name: int(px) for name, px in re.findall(r'<div id="([^"]+)" data-px="(\d+)"', page)}
    print(heights)
    assert heights.keys() == SITUATIONS.keys()
    assert {name: px for name, px in heights.items() if px > SCREEN_PX} == {}
