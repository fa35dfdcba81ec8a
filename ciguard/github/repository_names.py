"""How a repository is spelled, and where GitHub is unless somebody says otherwise."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

API_URL: Final = "https://api.github.com"
SERVER_URL: Final = "https://github.com"

# It becomes part of a path, where `..` would lead elsewhere; `_` is in managed users' names.
REPOSITORY: Final = re.compile(r"[A-Za-z0-9_-]+/(?!\.\.?$)[A-Za-z0-9._-]+")


def is_address(text: str) -> bool:
    """Say that it is one of a server."""
    try:
        parts = urlsplit(text)
    except ValueError:  # half of an IPv6 address
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
