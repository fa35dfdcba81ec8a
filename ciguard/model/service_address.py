"""Where a secret may be sent, and what a bearer token looks like. Standard library, Python 3.8+."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

# By these a job asks GitHub for an OIDC token: docs.github.com, "OpenID Connect reference".
REQUEST_URL: Final = "ACTIONS_ID_TOKEN_REQUEST_URL"
REQUEST_TOKEN: Final = "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
# RFC 6750. Libraries repeat what is none in their errors.
BEARER_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def is_safe(address: str) -> bool:
    """Say whether a secret may be sent there: by TLS, or to this machine."""
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # half of an IPv6 address, or a port that is no number
        return False
    return bool(host) and (
        parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
