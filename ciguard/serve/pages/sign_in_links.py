"""The addresses of signing in and out, and which address of ours a sign-in may return to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from starlette.requests import Request

SIGN_IN: Final = "/-/sign-in"
SIGN_IN_RETURN: Final = "/-/sign-in/return"
SIGN_OUT: Final = "/-/sign-out"
# Browsers take "//", "/\" and what follows a control character for another site.
_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")


def own_path(text: str) -> str:
    """The path and query, if they are of this site; "/" otherwise."""
    return text if _OWN_PATH.fullmatch(text) else "/"


def sign_in_address(request: Request) -> str:
    """Where a link to sign in leads, which returns to the page that it is on."""
    parts = request.url
    here = parts.path + (f"?{parts.query}" if parts.query else "")
    return f"{SIGN_IN}?return_to={quote(own_path(here))}"
