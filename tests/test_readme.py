"""The README's commands are run, in the demo's project, as they stand, and print what it shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from conftest import Ciguard

ROOT = Path(__file__).parent.parent


def test_commands_of_the_readme_work(tmp_path: Path, ciguard_process: Ciguard) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(sh|text)\n(.*?)```", readme, flags=re.DOTALL)
    assert [language for language, _ in blocks] == ["sh", "text", "sh", "text"]
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "demo" / "suite", shop)
    verbs, printed = [], ""
    for language, block in blocks:
        if language == "text":
            assert set(filter(None, block.splitlines())) <= set(printed.splitlines())
            # The reader changes a test so that it fails.
            test = shop / "tests" / "test_prices.py"
            test.write_text(test.read_text("utf-8").replace("== 12", "== 13"), "utf-8")
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            assert program == "ciguard"
            failing = "run-b/01" in words
            printed = ciguard_process(*words, cwd=shop, expect=10 if failing else 0).stdout
            verbs.append(words[0])
    assert verbs == ["plan", "run", "run", "guard", "run", "run", "compare"]


def test_readme_is_short_and_starts_with_the_basics() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 140
    assert re.findall(r"(?m)^## (.*)$", readme) == [
        *("Install", "Try it", "Adopt it step by step", "Read on"),
    ]
    words = ("pip install", "_ACTIONS=OWNER", "timeout", "retries", "ciguard audit", "drill=")
    # Until somebody has: see nightly.yml and tests/real/github.py.
    for word in (*words, "never tried on a real", "not yet on github.com"):
        assert word in " ".join(readme.split())
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme):
        assert (ROOT / picture).stat().st_size < 200_000
