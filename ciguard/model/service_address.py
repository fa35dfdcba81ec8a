"""Addresses to which a secret may be sent, and the form of a bearer token. Python 3.8+."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

# Variables for requests of an OIDC token: docs.github.com, "OpenID Connect reference".
REQUEST_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
REQUEST_TOKEN: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
# RFC 6750. Other values are refused early, because libraries repeat a value in their errors.
BEARER_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def is_safe(address: str) -> bool:
    """Return whether a secret may be sent to an address: over TLS, or to this machine."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # a malformed IPv6 address or port
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
