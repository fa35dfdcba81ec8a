"""A damaged file of any kind is read or refused: no traceback, no hang, no gigabyte."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import clean_environment

SCRIPT = Path(__file__).with_name("mutated_inputs.py")


def found(begin: int, end: int) -> str:
    """All that inputs of these numbers met, in each reader."""
    done = subprocess.run(
        [sys.executable, SCRIPT, str(begin), str(end)],
        capture_output=True,
        text=True,
        check=False,
        env=clean_environment(),
    )
    return done.stdout + done.stderr if done.returncode else ""


def test_damaged_files_are_read_or_refused() -> None:
    assert found(0, 4) == ""


@pytest.mark.soak
@pytest.mark.parametrize("begin", range(0, 10_000, 500))
def test_ten_thousand_damaged_files_of_each_kind_are_read_or_refused(begin: int) -> None:
    assert found(begin, begin + 500) == ""
