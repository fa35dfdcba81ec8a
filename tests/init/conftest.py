"""`ciguard init` in a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Ciguard

    Init = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(ciguard: Ciguard) -> Init:
    def init(
        folder: Path, *arguments: str, expect: int = 0, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return ciguard("init", *arguments, cwd=folder, expect=expect, **environ)

    return init
