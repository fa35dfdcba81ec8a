"""Values of a plan."""

from __future__ import annotations

import pytest

from ciguard.model import Suite, repository_path


@pytest.mark.parametrize(
    ("cwd", "file", "path"),
    [
        (".", "tests/test_a.py", "tests/test_a.py"),
        ("", "./tests/test_a.py", "tests/test_a.py"),
        ("backend", "tests/test_a.py", "backend/tests/test_a.py"),
        ("./backend/", "tests\\test_a.py", "backend/tests/test_a.py"),
        ("backend", "backend/tests/test_a.py", "backend/tests/test_a.py"),
        ("backend", "../shared/test_a.py", "shared/test_a.py"),
        ("backend", "../../test_a.py", ""),
        (".", "..", ""),
        ("backend", "/builds/shop/test_a.py", ""),
        ("backend", "C:\\shop\\test_a.py", ""),
        ("backend", "", ""),
        ("backend", None, ""),
        (".", ".", ""),
    ],
)
def test_file_path_is_relative_to_the_repository_root(
    cwd: str, file: str | None, path: str
) -> None:
    suites = {"unit": Suite("pytest", ("pytest",), cwd=cwd)}
    assert repository_path(suites, "unit", file) == path
    assert repository_path(suites, "of no plan", "a.py") == "a.py"
