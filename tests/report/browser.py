"""A browser for tests: a page as it is once its scripts have run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

CHROMIUM: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
needs_browser = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="there is no Chromium here"
)


def dumped(page: str, folder: Path) -> str:
    """The page's elements after its scripts, as HTML."""
    (folder / "page.html").write_text(page, "utf-8", "replace")
    done = subprocess.run(
        [
            *("chromium", *CHROMIUM, f"--user-data-dir={folder / 'profile'}", "--dump-dom"),
            f"file://{folder / 'page.html'}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
