"""Which lines fail a run for its coverage."""

from __future__ import annotations

import pytest

from ciguard.init.move_in import find_coverage_gates


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[tool.coverage.report]\nfail_under = 90\n", ["f:2"]),
        ("[report]\n  fail_under=100", ["f:2"]),
        ('addopts = ["--cov-fail-under=80"]', ["f:1"]),
        ("a\nb: pytest --cov-fail-under 80", ["f:2"]),
        ('session.run("coverage", "report", "--fail-under", "100")', ["f:1"]),
        ("fail_under = 0\n# fail_under = 90\nx = 1 # --cov-fail-under=9\n", []),
        ("fail_under =\n90\n", []),
        ("", []),
    ],
)
def test_gate_is_found_by_its_words(text: str, found: list[str]) -> None:
    assert find_coverage_gates({"f": text}) == found
