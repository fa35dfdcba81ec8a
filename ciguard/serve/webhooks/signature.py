"""Whether a delivery is GitHub's: an HMAC over the bytes of its body.

Source: docs.github.com, "Validating webhook deliveries".
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import SecretStr


def sign(secret: SecretStr, body: bytes) -> str:
    """The value of `X-Hub-Signature-256`."""
    digest = hmac.new(secret.get_secret_value().encode(), body, hashlib.sha256).hexdigest()
    return f"sha256={digest}"


def is_signed(secret: SecretStr, body: bytes, signature: str) -> bool:
    """Compare in a time that does not depend on where the two differ."""
    return hmac.compare_digest(sign(secret, body).encode(), signature.encode("utf-8", "replace"))
