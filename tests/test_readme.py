"""The README's block of commands is run, in the demo's project, as it stands."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Ciguard

ROOT = Path(__file__).parent.parent


def test_commands_of_the_readme_work(tmp_path: Path, ciguard: Ciguard) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```sh\n(.*?)```", readme, flags=re.DOTALL)
    assert block is not None
    shop = tmp_path / "shop"
    shutil.copytree(ROOT / "demo" / "suite", shop)
    verbs = set()
    for line in block[1].splitlines():
        program, *words = shlex.split(line)
        assert program == "ciguard"
        ciguard(*words, cwd=shop)
        verbs.add(words[0])
    assert verbs == {"plan", "run", "guard", "history", "compare", "report"}
    comment = (shop / "comment.md").read_text(encoding="utf-8")
    assert "all 23 units of 2 shards" in comment.splitlines()[0]
