"""What the adapter of Playwright makes of ids and exit codes."""

from __future__ import annotations

import pytest

from ciguard.run.frameworks.node import PLAYWRIGHT


@pytest.mark.parametrize(
    ("unit", "file", "ancestors"),
    [
        ("tests/a.spec.ts", "tests/a.spec.ts", ("tests/a.spec.ts", "tests/", "")),
        (
            "[Mobile Safari] tests/[id]/a b.spec.ts",
            "tests/[id]/a b.spec.ts",
            (
                "[Mobile Safari] tests/[id]/a b.spec.ts",
                "[Mobile Safari] tests/[id]/",
                "[Mobile Safari] tests/",
                "[Mobile Safari] ",
                "",
            ),
        ),
    ],
)
def test_id_holds_the_project_and_the_file(
    unit: str, file: str, ancestors: tuple[str, ...]
) -> None:
    assert PLAYWRIGHT.file_of(unit) == file
    assert PLAYWRIGHT.ancestors(unit) == ancestors


def test_failed_exit_code_needs_results() -> None:
    assert PLAYWRIGHT.is_normal_exit(0, had_results=False)
    assert PLAYWRIGHT.is_normal_exit(1, had_results=True)
    assert not PLAYWRIGHT.is_normal_exit(1, had_results=False)
    assert not PLAYWRIGHT.is_normal_exit(130, had_results=True)
