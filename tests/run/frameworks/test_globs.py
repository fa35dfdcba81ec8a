"""What a pattern of result files matches, where one may lie, and which ones are refused."""

from __future__ import annotations

import pytest

from ciguard.errors import UsageError
from ciguard.run.frameworks.globs import check_pattern, matches

PATHS = ("a.xml", "r/a.xml", "r/s/a.xml", "r/s/t/a.xml", "r/.h/a.xml", "r/.a.xml", "r/a.txt")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.xml", ["a.xml"]),
        ("r/*.xml", ["r/a.xml"]),
        ("r/**/*.xml", ["r/a.xml", "r/s/a.xml", "r/s/t/a.xml"]),
        ("**/*.xml", ["a.xml", "r/a.xml", "r/s/a.xml", "r/s/t/a.xml"]),
        ("**/s/*", ["r/s/a.xml"]),
        ("r/.h/*", ["r/.h/a.xml"]),
        ("r/.*.xml", ["r/.a.xml"]),
        ("r/s/**", ["r/s/a.xml", "r/s/t/a.xml"]),
        ("?/[a-b].*", ["r/a.xml", "r/a.txt"]),
        ("R/*", []),
    ],
)
def test_pattern_matches_files_and_their_parent_folders(pattern: str, expected: list[str]) -> None:
    wanted = pattern.split("/")
    found = [path for path in PATHS if matches(path.split("/"), wanted)]
    assert found == expected
    for path in expected:
        folders = path.split("/")[:-1]
        assert all(matches(folders[:end], wanted, below=True) for end in range(len(folders) + 1))


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("b", "r/*.xml"), ("r/s", "r/*.xml"), (".git", "**/*.xml"), ("r/.git", "**/*.xml")],
)
def test_folder_that_cannot_match_is_skipped(folder: str, pattern: str) -> None:
    assert not matches(folder.split("/"), pattern.split("/"), below=True)


@pytest.mark.parametrize(
    "pattern", ["", "/tmp/*.xml", "../*.xml", "a/../b", "reports/", "a\\..\\b"]
)
def test_pattern_outside_the_working_folder_is_rejected(pattern: str) -> None:
    with pytest.raises(UsageError, match="no pattern of files") as caught:
        check_pattern(pattern, where="--results")
    assert caught.value.fix == "name files below the working folder, as in reports/**/*.xml"
