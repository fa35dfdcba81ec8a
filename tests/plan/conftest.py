"""Small projects that plans are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan.plan_requests import LISTED

TESTS = """
import pytest
@pytest.mark.parametrize("n", range(6))
def test_n(n): pass
class TestC:
    def test_2(self): pass
    def test_1(self): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text(TESTS, "utf-8")
    (tmp_path / "tests" / "test_empty.py").write_text("", "utf-8")
    return tmp_path


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    (tmp_path / "units.txt").write_text(LISTED, "utf-8")
    return tmp_path
