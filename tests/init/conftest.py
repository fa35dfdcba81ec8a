"""`ciguard init` in a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import Ciguard, clean_environment
from init.move_in_samples import ACTIONS, ADDRESS, CI, WORKFLOW, write

if TYPE_CHECKING:
    Terminal = Callable[[Path, bytes], str]
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
def terminal() -> Terminal:
    """`ciguard init` in a folder, with answers typed on a terminal; returns what it prints."""
    if not hasattr(os, "openpty"):
        pytest.skip("no pseudo-terminals here")

    def init(folder: Path, answers: bytes) -> str:
        ours, theirs = os.openpty()
        os.write(ours, answers)
        answer = subprocess.run(
            [str(Path(sys.executable).parent / "ciguard"), "init"],
            cwd=folder,
            env=clean_environment(CIGUARD_ACTIONS=ADDRESS),
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
        )
        os.close(ours)
        os.close(theirs)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr

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
