"""Recorded lines of real logs, which lie beside the project: see benchmarks/recordings.py."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

RECORDED: Final = Path(
    os.environ.get("CIGUARD_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data"
)


def recorded(name: str) -> Path:
    """A file of the recordings; the test is skipped where there are none."""
    path = RECORDED / name
    if not path.exists():
        pytest.skip(f"needs {name} of the recordings")
    return path
