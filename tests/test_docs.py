"""Documentation that cannot lie: what it lists is what the code has."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import get_args

import pytest
import reference
from conftest import Golden

from ciguard import model
from ciguard.codec.record.lines import CHECKS

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
LINES = (
    model.ShardLine, model.Runner, model.DefaultsLine, model.ProcessLine, model.StartLine,
    model.Result, model.SampleLine, model.MetricLine, model.EventLine, model.ProcessEndLine,
    model.EndLine,
)  # fmt: skip


def test_record_page_names_every_key() -> None:
    page = (REFERENCE / "record.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    keys = {field.name for line in LINES for field in dataclasses.fields(line)}
    assert keys - {"try_number"} | {"try"} <= named
    assert {*model.OUTCOMES, *model.MEASURED_BY} <= named
    assert CHECKS  # every annotation of those fields has its reader, or the import had failed


def _first_column(page: str, title: str) -> set[str]:
    """The names in the first column of the tables below a title."""
    section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"(?m)^\| (`[^|]*) \|", section)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_record_page_names_every_event_kind() -> None:
    page = (REFERENCE / "record.md").read_text(encoding="utf-8")
    kinds = {kind for part in get_args(model.EventKind) for kind in get_args(part)}
    assert _first_column(page, "Event kinds") == kinds - set(model.ENDINGS)


def test_endings_page_names_every_ending() -> None:
    page = (REFERENCE / "endings.md").read_text(encoding="utf-8")
    assert _first_column(page, "Meaning") == set(model.ENDINGS)


@pytest.mark.parametrize("name", reference.PAGES)
def test_generated_page_is_that_of_the_code(
    name: str, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    golden(reference.PAGES[name](), REFERENCE / f"{name}.md")


PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
AGENT_PAGES = (ROOT / "AGENTS.md", ROOT / "skills" / "ciguard" / "SKILL.md")


def _anchors(page: Path) -> set[str]:
    titles = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_links_between_pages_resolve() -> None:
    for page in (*PAGES, *AGENT_PAGES):
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = link.partition("#")
            if "://" in path:
                continue
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in _anchors(target), f"{page.name}: {link}"


def test_index_for_agents_lists_every_page(golden: Golden) -> None:
    lines = ["# ciguard", "", *(f"> {line}" for line in INDEX), "", QUESTIONS]
    for folder in (".", "docs", "docs/how-to", "docs/reference", "docs/explanation"):
        pages = [page for page in PAGES if page.parent == (ROOT / folder).resolve()]
        pages += [ROOT / name for name in OF_PROJECT if folder == "."]
        lines += ["", f"## {folder.rpartition('/')[2].replace('.', 'start')}", ""]
        for page in pages:
            title = page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            lines.append(f"- [{title}]({page.relative_to(ROOT).as_posix()})")
    golden("\n".join(lines) + "\n", ROOT / "llms.txt")


OF_PROJECT = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
INDEX = (
    "ciguard runs large test suites on GitHub Actions as balanced parallel jobs, supervises each",
    "job, proves that every planned test ran, compares runs, and says in one comment whose each",
    "failure is.",
)
QUESTIONS = (
    "To ask about a run: [ten questions](skills/ciguard/SKILL.md). To change ciguard: "
    "[AGENTS.md](AGENTS.md)."
)


def test_docs_stay_short() -> None:
    words = [word for page in PAGES for word in page.read_text(encoding="utf-8").split()]
    assert sum(any(map(str.isalnum, word)) for word in words) <= 32_000
