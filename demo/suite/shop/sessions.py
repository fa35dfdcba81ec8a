"""Sessions: kept for ever, which is the leak that recycling lives with."""

from __future__ import annotations

import time

_OPEN: list[bytearray] = []


def open_session() -> int:
    """Open one, at a store that answers after 250 ms; its 3 MiB are never given back."""
    time.sleep(0.25)
    _OPEN.append(bytearray(b"\x01" * (3 << 20)))
    return len(_OPEN)


def encode(text: str) -> bytes:
    """The cookie of a session."""
    return text.encode("utf-8")[::-1]
