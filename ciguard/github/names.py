"""How a repository is spelled, and where GitHub is unless somebody says otherwise."""

from __future__ import annotations

import re
from typing import Final

API_URL: Final = "https://api.github.com"
SERVER_URL: Final = "https://github.com"

# It becomes part of a path, where `..` would lead elsewhere; `_` is in managed users' names.
REPOSITORY: Final = re.compile(r"[A-Za-z0-9_-]+/(?!\.\.?$)[A-Za-z0-9._-]+")
