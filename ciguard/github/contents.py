"""Files of a repository at a commit, by the contents API: a reliable answer whether one is absent.

The API answers 404 both for an absent file and for a file that the token may not see. A policy file
that cannot be read must not count as "no policy", so a file is absent only if the listing of its
folder lacks it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from ciguard.github.api_errors import GitHubError
from ciguard.github.client import GitHub
from ciguard.github.models import Content, GitHubJson

MAX_ENTRIES: Final = 1_000  # entries of a folder; GitHub cuts longer lists without a sign
MAX_BYTES: Final = 1_000_000  # of a file by the contents API; larger files are read as blobs


class Entry(GitHubJson):
    """An entry of a folder; `type` is file, dir, symlink or submodule."""

    name: str
    type: str


class CommitTree:
    """The files of a commit or branch; each folder is listed once."""

    def __init__(self, github: GitHub, repository: str, sha: str) -> None:
        self._github = github
        self._repository = f"/repos/{repository}"
        self._base = f"{self._repository}/contents"
        self._ref = quote(sha, safe="")
        self._listings: dict[str, Mapping[str, str]] = {}

    def files(self, paths: Sequence[str], max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
        """Return the files that exist: a call for each of their folders and files.

        Args:
            max_bytes: limit of each file; a file above 1 MB takes one more call.

        Raises:
            GitHubError: a folder or file cannot be read, or a path is a link or larger.
        """
        files = {}
        for path in paths:
            folder, _, name = path.rpartition("/")
            kind = self.entries(folder).get(name)
            if kind is None:
                continue
            if kind != "file":
                what = f"is no plain file there, but a {kind}"
                raise GitHubError(what, where=f"{self._ref[:10]}:{path}")
            files[path] = self.content(path, max_bytes)
        return files

    def entries(self, folder: str) -> Mapping[str, str]:
        """Return types by name; {} if the listing of the parent folder lacks this folder."""
        if folder not in self._listings:
            parent, _, name = folder.rpartition("/")
            exists = not folder or self.entries(parent).get(name) == "dir"
            self._listings[folder] = self.listing(folder) if exists else {}
        return self._listings[folder]

    def listing(self, folder: str) -> Mapping[str, str]:
        """Return types by name, without a look at the parent folder.

        Raises:
            GitHubError: the folder does not exist (404), or has more entries than GitHub lists.
        """
        call = self._contents_path(folder)
        entries = self._github.items(Entry, call)
        if len(entries) >= MAX_ENTRIES:
            what = f"more than {MAX_ENTRIES - 1} entries, of which GitHub does not show all"
            raise GitHubError(what, where=f"GET {call}")
        return {entry.name: entry.type for entry in entries}

    def content(self, path: str, max_bytes: int = MAX_BYTES) -> bytes:
        """Return a file in one call, above 1 MB in two; GitHubError (404) if it does not exist."""
        call = self._contents_path(path)
        file = self._github.item(Content, call)
        if file.type == "file" and MAX_BYTES < file.size <= max_bytes:
            file = self._github.item(Content, f"{self._repository}/git/blobs/{file.sha}")
        if file.type != "file" or file.encoding != "base64":
            most = f"{max_bytes // 1_000_000} MB"
            what = f"expected a file of at most {most}, found {file.type} of {file.size:,} bytes"
            raise GitHubError(what, where=f"GET {call}")
        try:
            return base64.b64decode(file.content)
        except binascii.Error as error:
            raise GitHubError(f"no base64: {error}", where=f"GET {call}") from error

    def _contents_path(self, path: str) -> str:
        return f"{self._base}/{quote(path)}?ref={self._ref}"
