"""The picture of README: the demo's comment, as a reader of GitHub sees it.

`make pictures`. Runs the demo, renders its comment with CSS like GitHub's at the width of a comment
on a laptop (760 px), and writes it as PNG, 1.75 times as fine, to `docs/images/`. Needs Chromium;
without it nothing happens. Prints the height of the comment with its folds closed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

import demo

IMAGES: Final = demo.HERE.parent / "docs" / "images"
COMMENT_WIDTH: Final = 760  # of GitHub's comment on a laptop: also legible on a phone
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--force-device-scale-factor=1.75"),
)

# From github-markdown-css: fonts, sizes, colours and borders of the light theme.
STYLE: Final = """
body { margin: 0; padding: 16px; box-sizing: border-box; background: #fff; color: #1f2328;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
h3 { font-size: 1.25em; } h4 { font-size: 1em; }
h3, h4 { margin: 24px 0 16px; font-weight: 600; line-height: 1.25; }
body > :first-child { margin-top: 0; } body > :last-child { margin-bottom: 0; }
p, ul, table, details { margin: 0 0 16px; }
ul { padding-left: 2em; } li + li { margin-top: .25em; }
code { padding: .2em .4em; border-radius: 6px; background: #818b981f;
  font: 85% ui-monospace, "Liberation Mono", Menlo, Consolas, monospace; }
table { display: block; width: max-content; max-width: 100%; overflow: auto;
  border-spacing: 0; border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid #d1d9e0; } th { font-weight: 600; }
tr { background: #fff; border-top: 1px solid #d1d9e0b3; }
tbody tr:nth-child(2n) { background: #f6f8fa; }
sub { font-size: 75%; line-height: 1.5; vertical-align: baseline; } a { color: #0969da; }
.emoji { color: #9a6700; }
"""
EMOJI: Final = {
    ":warning:": "&#9888;",
    ":x:": "&#10060;",
    ":white_check_mark:": "&#9989;",
}
# Chromium prints the elements of a page, not its size: a script writes the height among them.
MEASURE: Final = "<script>document.title = document.body.scrollHeight</script>"


def find_browser() -> str:
    """The first of `BROWSERS` on PATH, else an empty text."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), "")


def comment_page(markdown: str) -> str:
    """GitHub's Markdown as a page: tables, HTML elements and the emoji of a verdict."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    for name, sign in EMOJI.items():
        body = body.replace(name, f'<span class="emoji">{sign}</span>')
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{body}{MEASURE}'


class Browser:
    """Headless Chromium with a profile of its own in `folder`."""

    def __init__(self, program: str, folder: Path) -> None:
        self.command = (program, *FLAGS, f"--user-data-dir={folder / 'profile'}")

    def measure_height(self, page: Path, width: int) -> int:
        """Height of a page's body, px, of a page that ends with `MEASURE`."""
        size = f"--window-size={width},1000"
        done = subprocess.run(
            [*self.command, size, "--dump-dom", page.as_uri()],
            check=True,
            capture_output=True,
            text=True,
        )
        (height,) = re.findall(r"<title>(\d+)</title>", done.stdout)
        return int(height)

    def draw(self, page: Path, width: int, height: int, picture: Path) -> None:
        """Write the upper left part of a page as PNG."""
        size = f"--window-size={width},{height}"
        subprocess.run(
            [*self.command, size, f"--screenshot={picture}", page.as_uri()],
            check=True,
            capture_output=True,
        )
        print(f"{picture.relative_to(IMAGES.parent.parent)}: {picture.stat().st_size} bytes")


def draw_picture(program: str) -> None:
    """Draw the comment that the last run of the demo left."""
    comment = demo.WORK / "comment.html"
    comment.write_text(comment_page((demo.WORK / "comment.md").read_text("utf-8")), "utf-8")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(program, Path(folder))
        height = browser.measure_height(comment, COMMENT_WIDTH)
        print(f"the comment is {height} px high at {COMMENT_WIDTH} px")
        browser.draw(comment, COMMENT_WIDTH, height, IMAGES / "comment.png")


def main() -> None:
    """Run the demo and draw its report, or name the programs that are missing."""
    program = find_browser()
    if not program:
        print(f"skipped: no browser on PATH (any of {', '.join(BROWSERS)})", file=sys.stderr)
        return
    demo.main()
    draw_picture(program)


if __name__ == "__main__":
    main()
