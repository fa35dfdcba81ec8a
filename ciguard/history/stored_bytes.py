"""What a store holds at one moment. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """The bytes, None where there are none yet, and the version that a write must still find."""

    content: bytes | None
    version: str = ""
