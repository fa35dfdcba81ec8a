"""The documentation's site: what `make docs` builds, without the example of the demo."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from conftest import clean_environment, made_once
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
MARKDOWN = MarkdownIt("gfm-like", {"linkify": False})
COUNTED = "blockquote|em|h2|h3|li|ol|pre|strong|table|td|tr|ul"


def build(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("mkdocs"))
    return subprocess.run(
        [program, "build", "--strict", "--site-dir", str(folder), *words],
        cwd=ROOT,
        env=clean_environment(NO_MKDOCS_2_WARNING="1"),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        done = build(folder)
        assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "site", make)


def page_of(markdown: Path) -> str:
    """The HTML of a page's text."""
    start = markdown.name == "index.md"
    path = (markdown.parent if start else markdown.with_suffix("")) / "index.html"
    html = path.read_text("utf-8")
    return html[html.index("<article") : html.index("</article>")]


def test_site_has_search_palettes_and_the_readme_as_its_start(site: Path) -> None:
    start = (site / "index.html").read_text("utf-8")
    assert {"default", "slate"} <= set(re.findall(r'data-md-color-scheme="(\w+)"', start))
    assert "prefers-color-scheme: dark" in start
    titles = re.findall(r"(?m)^## (.*)$", (ROOT / "README.md").read_text("utf-8"))
    found = re.findall(r"<h2 [^>]*>(.*?)</h2>", page_of(site / "index.md"))
    assert [re.sub("<.*?>|&para;", "", title) for title in found] == titles
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    assert {"reference/configuration/", "how-to/comment/"} <= {
        entry["location"] for entry in index["docs"]
    }
    assert 'href="example/example/shop.html"' in start


def test_site_asks_no_other_host(site: Path) -> None:
    for path in site.rglob("*.html"):
        tags = re.findall(r"<(?:link|script|img|iframe)\b[^>]*>", path.read_text("utf-8"))
        assert not [tag for tag in tags if re.search(r"""\b(?:src|href)=["']?(?:\w+:)?//""", tag)]


def test_markdown_lies_beside_each_page_and_in_the_index_for_agents(site: Path) -> None:
    pages = {path.parent for path in site.rglob("index.html")} - {site}
    assert {path.with_suffix("") for path in site.rglob("*.md")} == pages | {site / "index"}
    links = re.findall(r"\]\((.*?)\)", (site / "llms.txt").read_text("utf-8"))
    assert len(links) > 40
    assert not [link for link in links if not (site / link).is_file()]


def test_pages_are_structured_as_on_github(site: Path) -> None:
    """Python-Markdown wants more empty lines and deeper indentation than GitHub's Markdown."""
    for path in site.rglob("*.md"):
        text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.S)
        of_github, ours = (
            Counter(re.findall(rf"<({COUNTED})[ >]", html))
            for html in (MARKDOWN.render(text), page_of(path))
        )
        assert ours == of_github, path.relative_to(site)


@pytest.mark.parametrize("line", ["[a](absent.md)", "[a](history.md#absent)"])
def test_broken_link_fails_the_build(line: str, tmp_path: Path) -> None:
    config = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[0]
    config = re.sub(r"(?m)^(hooks|extra_css|docs_dir): .*\n", "", config)
    (tmp_path / "docs").mkdir()
    (tmp_path / "mkdocs.yml").write_text(config, "utf-8")
    (tmp_path / "docs/history.md").write_text("# History\n", "utf-8")
    (tmp_path / "docs/index.md").write_text(f"# Start\n\n{line}\n", "utf-8")
    done = build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml"))
    assert done.returncode == 1
    assert "absent" in done.stderr
