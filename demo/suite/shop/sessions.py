"""Sessions: kept for ever, which is the leak that recycling lives with."""

from __future__ import annotations

_OPEN: list[bytearray] = []


def open_session() -> int:
    """Open one; its 3 MiB are never given back."""
    _OPEN.append(bytearray(b"\x01" * (3 << 20)))
    return len(_OPEN)


def encode(text: str) -> bytes:
    """The cookie of a session."""
    return text.encode("utf-8")[::-1]
