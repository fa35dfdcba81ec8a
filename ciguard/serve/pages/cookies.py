"""Cookies: names, attributes and sealed values, and the tokens against forged requests (CSRF).

Source: OWASP, "Session Management" and "Cross-Site Request Forgery Prevention" cheat sheets. On
loopback, the service has no https, without which browsers refuse `__Host-` and `Secure`.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.fernet import Fernet, InvalidToken
from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from ciguard.history.service_credentials import origin_of

SESSION: Final = "ciguard-session"  # the secret of a session
GITHUB: Final = "ciguard-github"  # the token of the person for GitHub, sealed
SIGN_IN: Final = "ciguard-sign-in"  # the state of a sign-in, sealed
FORMS: Final = "ciguard-forms"  # the secret that binds forms of viewers without a session
SALT_BYTES: Final = 16
_HOST: Final = "__Host-"
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def new_secret() -> str:
    """Return 256 random bits."""
    return secrets.token_urlsafe(32)


def own_origin(request: Request) -> str:
    """Return scheme, host and port of the service: as configured, otherwise as in the request."""
    public_url: str = request.app.state.service.settings.public_url
    return origin_of(public_url or str(request.url))


def is_secure(request: Request) -> bool:
    """Return whether cookies are for https only: everywhere except on loopback."""
    origin = urlsplit(own_origin(request))
    return origin.scheme == "https" or not is_loopback_name(origin.hostname)


def is_loopback_name(host: str | None) -> bool:
    """Return whether a name or address is of this machine."""
    return host in _LOOPBACK


def read(request: Request, name: str) -> str:
    """Return a cookie's value; "" if it was not sent."""
    return request.cookies.get(_full_name(request, name), "")


def write(
    request: Request, response: Response, name: str, value: str, max_age_s: float | None = None
) -> None:
    """Set a cookie; without an age it ends with the browser."""
    response.set_cookie(
        _full_name(request, name),
        value,
        max_age=None if max_age_s is None else round(max_age_s),
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def clear(request: Request, response: Response, *names: str) -> None:
    for name in names:
        write(request, response, name, "", max_age_s=0)


def _full_name(request: Request, name: str) -> str:
    return f"{_HOST}{name}" if is_secure(request) else name


def seal(secret: SecretStr, value: Any) -> str:
    """Encrypt and sign a value: the browser can neither read nor change it."""
    return _fernet(secret).encrypt(json.dumps(value).encode()).decode()


def unseal(secret: SecretStr, text: str, max_age_s: float | None = None) -> Any:
    """Return the sealed value; None if the seal is invalid or too old."""
    try:
        ttl = None if max_age_s is None else round(max_age_s)
        return json.loads(_fernet(secret).decrypt(text.encode("utf-8", "replace"), ttl))
    except InvalidToken:
        return None


def _fernet(secret: SecretStr) -> Fernet:
    key = hmac.digest(secret.get_secret_value().encode(), b"ciguard: cookies", "sha256")
    return Fernet(base64.urlsafe_b64encode(key))


def form_token(bound_to: str, salt: str = "") -> str:
    """Return a token of the forms of our pages, derived from a secret of the browser.

    Each page has another salt: from the lengths of compressed pages one could guess a text that all
    of them have (the attack BREACH).
    """
    salt = salt or secrets.token_hex(SALT_BYTES)
    return salt + hmac.digest(bound_to.encode(), f"ciguard: form {salt}".encode(), "sha256").hex()


def is_own_form(request: Request, token: str, bound_to: str) -> bool:
    """Return whether a form comes from a page that the service gave to this browser."""
    if request.headers.get("origin", own_origin(request)) != own_origin(request):
        return False
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    expected = form_token(bound_to, token[: 2 * SALT_BYTES])
    return bool(bound_to) and hmac.compare_digest(token.encode(), expected.encode())
