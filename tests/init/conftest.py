"""`ciguard init` in a folder."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from init.move_in_samples import ACTIONS, ADDRESS, CI, WORKFLOW, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ciguard

    Init = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(ciguard: Ciguard) -> Init:
    def init(
        folder: Path, *arguments: str, expect: int = 0, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        config = folder / "ciguard.toml"
        if not config.is_file() or "actions = " not in config.read_text("utf-8"):
            environ = {"CIGUARD_ACTIONS": ADDRESS, **environ}
        return ciguard("init", *arguments, cwd=folder, expect=expect, **environ)

    return init


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a test file, `plain/ci.yml` and the address of the actions."""
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    (folder / "tests").mkdir()
    (folder / "tests/test_shop.py").write_text("def test_shop(): pass\n", "utf-8")
    (folder / "ciguard.toml").write_text(ACTIONS, "utf-8")
    (folder / CI).parent.mkdir(parents=True)
    write(folder, WORKFLOW)
    return folder
