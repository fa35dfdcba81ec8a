"""What the tests of a history's branch share."""

from __future__ import annotations

from pathlib import Path

import pytest
from history.git_servers import git


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A bare repository whose main branch has three commits."""
    bare, work = tmp_path / "origin.git", tmp_path / "work"
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(bare))
    git(tmp_path, "init", "--quiet", "-b", "main", str(work))
    for number in range(3):
        (work / "file").write_text(str(number))
        git(work, "add", "file")
        git(work, "commit", "--quiet", "-m", str(number))
    git(work, "push", "--quiet", str(bare), "main")
    return bare
