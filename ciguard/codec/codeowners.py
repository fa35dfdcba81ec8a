"""Owners of files: the rules of CODEOWNERS and of `[owners]` in the configuration. Pure.

GitHub's syntax (docs.github.com, "About code owners") is not that of gitignore: `docs/*` does not
match files in `docs/a/`, and a pattern with `!`, `[ ]` or an escaped `#` is invalid.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

import re2

# Of each pattern the owners. The last pattern that matches a file counts, also without owners.
OwnerRules = tuple[tuple[str, tuple[str, ...]], ...]

FILES: Final = (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")  # the first one counts
_WORD: Final = re.compile(r"(?:\\.|\S)+")
_INVALID: Final = re.compile(r"[!#\\]|.*\[")
_TOKEN: Final = re.compile(r"/\*\*$|\*\*/|\*+|\?|[^*?/]+|/")
_EXPRESSIONS: Final = {"/**": "/.*", "**/": "(?:.*/)?", "?": "[^/]"}


def decode(content: bytes) -> OwnerRules:
    """Read the rules of a CODEOWNERS file; as GitHub does, skip lines with invalid patterns."""
    rules = []
    for line in content.decode("utf-8", "replace").splitlines():
        words = [word.replace("\\ ", " ") for word in _WORD.findall(line.partition(" #")[0])]
        if words and not _INVALID.match(words[0]):
            rules.append((words[0], tuple(words[1:])))
    return tuple(rules)


def find_owners(rules: OwnerRules, path: str) -> tuple[str, ...]:
    """Return the owners of a file by its path from the repository's root; () for no owner."""
    matching = (owners for rule, owners in reversed(rules) if _matcher(rule).fullmatch(path))
    return next(matching, ())


@lru_cache(maxsize=10_000)
def _matcher(pattern: str) -> Any:
    """Return the expression of a pattern, by RE2: a foreign pattern cannot take long to match."""
    anywhere = "" if "/" in pattern.rstrip("/") else "(?:.*/)?"
    below = "/.*" if pattern.endswith("/") else "" if pattern.endswith("/*") else "(?:/.*)?"
    parts = (
        _EXPRESSIONS.get(token) or ("[^/]*" if token[0] == "*" else re2.escape(token))
        for token in _TOKEN.findall(pattern.strip("/"))
    )
    return re2.compile(f"{anywhere}{''.join(parts)}{below}")
