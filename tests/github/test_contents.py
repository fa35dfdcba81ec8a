"""Files at a commit: what is absent is told from what cannot be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakegithub.state import Fault

from ciguard.github.api_errors import GitHubError
from ciguard.github.contents import files_at

if TYPE_CHECKING:
    from fakegithub.state import FakeGitHub

    from ciguard.github.client import GitHub

REPOSITORY = "octo-org/shop"
SHA = "b" * 40


def test_files_of_a_commit_without_the_missing_ones(server: FakeGitHub, github: GitHub) -> None:
    server.files["my conf/ciguard.toml", SHA] = b"[policy]\n"
    server.files["README.md", SHA] = b"x"
    wanted = ["my conf/ciguard.toml", "my conf/quarantine.toml", "other/deep/x", "README.md", "y"]
    assert files_at(github, REPOSITORY, SHA, wanted) == {
        "my conf/ciguard.toml": b"[policy]\n",
        "README.md": b"x",
    }
    assert len(server.request_log()) == 4  # two folders, two files; `other` is not in the root


def test_inaccessible_commit_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    with pytest.raises(GitHubError) as reported:
        files_at(github, REPOSITORY, SHA, ["ciguard.toml"])
    assert reported.value.status == 404


def test_folder_or_oversized_file_is_rejected(server: FakeGitHub, github: GitHub) -> None:
    server.files["ciguard.toml/x", SHA] = b"x"
    with pytest.raises(GitHubError, match="is no plain file there, but a dir"):
        files_at(github, REPOSITORY, SHA, ["ciguard.toml"])
    server.files["big", SHA] = b"x" * 1_000_001
    with pytest.raises(GitHubError, match="at most 1 MB, found file of 1,000,001 bytes"):
        files_at(github, REPOSITORY, SHA, ["big"])
    text = '{"type": "file", "encoding": "base64", "content": "A", "size": 1}'
    server.files["odd", SHA] = b"x"
    server.faults.append(
        Fault(path="/contents/odd", status=200, text=text, content_type="application/json")
    )
    with pytest.raises(GitHubError, match="no base64"):
        files_at(github, REPOSITORY, SHA, ["odd"])


def test_truncated_folder_listing_is_an_error(server: FakeGitHub, github: GitHub) -> None:
    for number in range(1000):
        server.files[f"{number:04}", SHA] = b""
    with pytest.raises(GitHubError, match="does not show all"):
        files_at(github, REPOSITORY, SHA, ["ciguard.toml"])
