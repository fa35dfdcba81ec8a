"""What one reader of many calls is given: answers of earlier calls, and how many it may make.

gidgethub asks for an answer that it has by its ETag; GitHub then answers 304 in a few bytes, which
does not count against the rate limit. Source: docs.github.com, "Best practices for using the REST
API", "Use conditional requests".
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
    """The calls that a command may make are used up; nothing was sent."""


class CallBudget:
    """Counts requests, also those that are sent again and those that are answered 304."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def spend(self, url: str) -> None:
        """Count one.

        Raises:
            CallLimitReached: there is none left.
        """
        if self.used >= self.limit:
            fix = "run this again: what was read is kept"
            raise CallLimitReached(f"{self.limit} calls are made", where=f"GET {url}", fix=fix)
        self.used += 1


class CacheFolder:
    """JSON values by name, each in a file of its own; a file that cannot be read is not there.

    Args:
        folder: made when the first value is kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, name: str) -> Any:
        """The value; None where there is none."""
        if self._folder is None:
            return None
        try:
            return json.loads((self._folder / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return None

    def put(self, name: str, value: Any) -> None:
        """Replace the value at once; a folder that cannot be written keeps nothing."""
        if self._folder is None:
            return
        try:
            # What a token may read is for its owner alone.
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(value, stream)
            Path(part).replace(self._folder / f"{name}.json")
        except OSError:
            self._folder = None


class ResponseCache(UserDict[str, tuple[Any, ...]]):
    """Answers with their ETags by address, as gidgethub's `cache` takes them.

    What a finished run has is not in it: who reads that keeps it, and does not ask again.
    """

    def __init__(self, kept: CacheFolder) -> None:
        super().__init__()
        self._kept = kept

    def __getitem__(self, url: str) -> tuple[Any, ...]:
        match self._kept.get(_name(url)):
            case [str(known), *answer] if known == url:
                return tuple(answer)
        raise KeyError(url)

    def __setitem__(self, url: str, answer: tuple[Any, ...]) -> None:
        if not _OF_FINISHED_RUN.search(url):
            self._kept.put(_name(url), [url, *answer])


def _name(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()
