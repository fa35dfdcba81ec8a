"""A cache of GitHub's answers in a folder, and a limit of calls, for commands that read much.

gidgethub sends the ETag of a cached answer; GitHub answers 304 if nothing changed, which does not
count against the rate limit. Source: docs.github.com, "Best practices for using the REST API",
"Use conditional requests".
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import UserDict
from pathlib import Path
from typing import Any, Final

from ciguard.github.api_errors import GitHubError

_OF_FINISHED_RUN: Final = re.compile(r"/(jobs|annotations|artifacts)\?")


class CallLimitReached(GitHubError):
    """The limit of calls is reached; the request was not sent."""


class CallBudget:
    """Counts requests, also retries and those that are answered 304."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def spend(self, url: str) -> None:
        """Count a request.

        Raises:
            CallLimitReached: no call is left.
        """
        if self.used >= self.limit:
            fix = "run this again: what was read is kept"
            raise CallLimitReached(f"{self.limit} calls are made", where=f"GET {url}", fix=fix)
        self.used += 1


class CacheFolder:
    """JSON values by name, each in a file; an unreadable file counts as absent.

    Args:
        folder: created for the first value; None stores nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> Any:
        """Return the value; None for an unknown name."""
        if self._folder is None:
            return None
        try:
            return json.loads((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, name: str, value: Any) -> None:
        """Replace the value atomically; store nothing more after an error."""
        if self._folder is None:
            return
        try:
            # Only the owner of the token may read the answers.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(value, stream)
            Path(part).replace(self._folder / f"{name}.json")
        except OSError:
            self._folder = None


class ResponseCache(UserDict[str, tuple[Any, ...]]):
    """Answers with their ETags by address, for gidgethub's `cache`.

    Lists of finished runs are left out: their reader stores them, and does not ask again.
    """

    def __init__(self, folder: CacheFolder) -> None:
        super().__init__()
        self._folder = folder

    def __getitem__(self, url: str) -> tuple[Any, ...]:
        match self._folder.get(_name(url)):
            case [str(known), *answer] if known == url:
                return tuple(answer)
        raise KeyError(url)

    def __setitem__(self, url: str, answer: tuple[Any, ...]) -> None:
        if not _OF_FINISHED_RUN.search(url):
            self._folder.put(_name(url), [url, *answer])


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
