"""The README's block of commands is run, in the demo's project, as it stands."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from conftest import Ciguard

ROOT = Path(__file__).parent.parent


def test_commands_of_the_readme_work(tmp_path: Path, ciguard_process: Ciguard) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", readme, flags=re.DOTALL)
    assert block is not None
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "demo" / "suite", shop)
    verbs = set()
    planned = ""
    for line in block[1].splitlines():
        program, *words = shlex.split(line)
        assert program == "ciguard"
        done = ciguard_process(*words, cwd=shop)
        planned = done.stdout if words[0] == "plan" else planned
        verbs.add(words[0])
    assert verbs == {"plan", "run", "guard", "history", "compare", "report"}
    comment = (shop / "comment.md").read_text(encoding="utf-8")
    assert "all 23 tests of 2 shards" in comment.splitlines()[0]
    # What is shown of a plan comes from the demo: other numbers in lines of the same form.
    shown = re.search(r"```text\n(.*?)```", readme, flags=re.DOTALL)
    assert shown is not None
    output = {form(line) for line in planned.splitlines()}
    assert {form(line) for line in shown[1].splitlines()} <= output


def form(line: str) -> tuple[str, ...]:
    """Its words, without numbers, bars and the test that is the longest."""
    words = re.sub(r"\S*::\S*|#+[.]*|[\d.,%]+|\b(s|min|KiB|MiB)\b", "", line).split()
    return tuple(words)


def test_readme_is_short_and_starts_with_the_basics() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 200
    assert re.findall(r"(?m)^## (.*)$", readme) == [
        *("Install", "The two commands", "Adopt it step by step", "Read on", "Where the code is"),
    ]
    words = ("pip install", 'actions = "OWNER', "timeout", "retries", "quarantine.toml")
    # Until somebody has: see nightly.yml and tests/real/github.py.
    for word in (*words, "never tried on a real machine", "not yet on github.com"):
        assert word in readme
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", readme):
        assert (ROOT / picture).stat().st_size < 200_000
