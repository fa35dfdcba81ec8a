"""Files of a repository as they are at a commit, told from files that are not there.

The API gives the same answer, 404, for what is absent and for what a token may not see. A policy
that seems to be absent must not be taken for none, so a file is absent only where its folder is
listed without it.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ciguard.github.api_errors import GitHubError
from ciguard.github.models import Content, GitHubJson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ciguard.github.client import GitHub

MAX_ENTRIES: Final = 1_000  # entries of a folder; GitHub shows no more, and does not say so
MAX_BYTES: Final = 1_000_000  # of a file that the contents API gives; larger ones are blobs


class Entry(GitHubJson):
    """What lies in a folder; `type` is file, dir, symlink or submodule."""

    name: str
    type: str


def files_at(
    github: GitHub,
    repository: str,
    sha: str,
    paths: Sequence[str],
    max_bytes: int = MAX_BYTES,
) -> dict[str, bytes]:
    """Those of the files that a commit has: one call for each folder above them, one for each.

    Args:
        max_bytes: of each; one above 1 MB takes one call more.

    Raises:
        GitHubError: it cannot be known, or one is a link or larger.
    """
    commit = _CommitTree(github, repository, sha)
    found = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        kind = commit.entries(folder).get(name)
        if kind is None:
            continue
        if kind != "file":
            raise GitHubError(f"is no plain file there, but a {kind}", where=f"{sha[:10]}:{path}")
        found[path] = commit.content(path, max_bytes)
    return found


def folder_at(github: GitHub, repository: str, ref: str, folder: str) -> Mapping[str, str]:
    """Kinds of what a folder of a branch or commit has, by name, in one call.

    Raises:
        GitHubError: it is not there (404), or has more than GitHub shows.
    """
    return _CommitTree(github, repository, ref).listed(folder)


def file_at(github: GitHub, repository: str, ref: str, path: str) -> bytes:
    """A file of a branch or commit, in one call.

    Raises:
        GitHubError: it is not there (404), or is above 1 MB.
    """
    return _CommitTree(github, repository, ref).content(path)


class _CommitTree:
    def __init__(self, github: GitHub, repository: str, sha: str) -> None:
        self._github = github
        self._repository = f"/repos/{repository}"
        self._base = f"{self._repository}/contents"
        self._ref = quote(sha, safe="")
        self._listed: dict[str, Mapping[str, str]] = {}

    def entries(self, folder: str) -> Mapping[str, str]:
        """Kinds by name; nothing where the folder above is listed without this one."""
        if folder not in self._listed:
            above, _, name = folder.rpartition("/")
            there = not folder or self.entries(above).get(name) == "dir"
            self._listed[folder] = self.listed(folder) if there else {}
        return self._listed[folder]

    def listed(self, folder: str) -> Mapping[str, str]:
        """Kinds by name, without a look at the folder above."""
        call = self._contents_path(folder)
        found = self._github.items(Entry, call)
        if len(found) >= MAX_ENTRIES:
            what = f"more than {MAX_ENTRIES - 1} entries, of which GitHub does not show all"
            raise GitHubError(what, where=f"GET {call}")
        return {one.name: one.type for one in found}

    def content(self, path: str, max_bytes: int = MAX_BYTES) -> bytes:
        call = self._contents_path(path)
        found = self._github.item(Content, call)
        if found.type == "file" and MAX_BYTES < found.size <= max_bytes:
            found = self._github.item(Content, f"{self._repository}/git/blobs/{found.sha}")
        if found.type != "file" or found.encoding != "base64":
            most = f"{max_bytes // 1_000_000} MB"
            what = f"expected a file of at most {most}, found {found.type} of {found.size:,} bytes"
            raise GitHubError(what, where=f"GET {call}")
        try:
            return base64.b64decode(found.content)
        except binascii.Error as error:
            raise GitHubError(f"no base64: {error}", where=f"GET {call}") from error

    def _contents_path(self, path: str) -> str:
        return f"{self._base}/{quote(path)}?ref={self._ref}"
