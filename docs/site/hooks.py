"""Hooks of MkDocs: pages from outside `docs/`, and the Markdown of each page beside it.

Links in the repository lead from file to file. On the site, a link to a file that the site does not
contain becomes plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Final

from jinja2 import Environment
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation

ROOT: Final = Path(__file__).resolve().parents[2]
OUTSIDE: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "skills/ciguard/SKILL.md",
)
# Code, in which nothing is a link, or a link: its label and its target.
_CODE_OR_LINK: Final = re.compile(
    r"(?ms)^( *)```.*?^\1```|(`+)(?!`).*?(?<!`)\2(?!`)(?!\])|\[((?:`[^`]*`|[^\]`])*)\]\(([^)\s]+)\)"
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs/`, and adapt the links of all pages."""
    for name in OUTSIDE:
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, site_path(name), content=text))
    for file in files.documentation_pages():
        source = next((name for name in OUTSIDE if site_path(name) == file.src_uri), "")
        text = file.content_string
        file.content_string = adapt_links(text, source or f"docs/{file.src_uri}", files)
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Link the live example, which `make docs` copies into the site that MkDocs has built."""
    nav.items.append(Link("Example", "example/example/shop.html"))


def on_env(env: Environment, config: MkDocsConfig, files: Files) -> None:
    """Write the Markdown of each page beside it, and the index of these files, `llms.txt`."""
    index = adapt_links((ROOT / "llms.txt").read_text("utf-8"), "llms.txt", files)
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for name, text in {**texts, "llms.txt": index}.items():
        path = Path(config.site_dir, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def site_path(name: str) -> str:
    """Return the path in the site's sources for a path in the repository."""
    return "index.md" if name == "README.md" else name.removeprefix("docs/")


def adapt_links(text: str, source: str, files: Files) -> str:
    """Make the links of a page lead to the site's files.

    Args:
        source: path of the page in the repository.
    """

    def adapted(match: re.Match[str]) -> str:
        label, link = match[3], match[4]
        path, mark, anchor = (link or "#").partition("#")
        if not path or ":" in path:
            return match[0]
        target = site_path(normpath(join(dirname(source), path)))
        if target in files.src_uris:
            start = dirname(site_path(source))
            return f"[{label}]({relpath(target, start or '.')}{mark}{anchor})"
        is_name = re.fullmatch(r"[\w/.-]*[/.][\w/.-]*", label)
        return f"`{label}`" if is_name else label

    return _CODE_OR_LINK.sub(adapted, text)
