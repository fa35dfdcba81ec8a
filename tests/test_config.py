"""Mistakes in a configuration: which key, what stands there, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ciguard.config import load
from ciguard.errors import CiguardError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        (
            'results = ["r/*.xml"]',
            "suite.a.results: framework pytest tells its results by itself\n  fix: leave the key",
        ),
        (
            'framework = "command"\nresults = ["/r/*.xml", "ok/**", "../r"]',
            "suite.a.results: no pattern of result files: '/r/*.xml'",
        ),
    ],
)
def test_result_files_that_cannot_be_are_refused(tmp_path: Path, suite: str, said: str) -> None:
    (tmp_path / "ciguard.toml").write_text(f"[suite.a]\n{suite}\n")
    with pytest.raises(CiguardError) as caught:
        load(tmp_path, {})
    assert said in str(caught.value)
    assert ("'../r'" in str(caught.value)) == ("../r" in suite), "all mistakes at once"
